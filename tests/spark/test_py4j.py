"""What the driver's Python tells its JVM goes over the loopback address: nobody else is listened to there."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
VERSION = b"c\nz:java.lang.System\ngetProperty\nsjava.version\ne\n"
"""Py4J's words for a call of a static method."""


def gateways() -> list[tuple[str, int]]:
    """Return where this process is connected with a process of Java that it has started."""
    mine = psutil.Process()
    listening = {
        (each.laddr.ip.removeprefix("::ffff:"), each.laddr.port)
        for child in mine.children(recursive=True)
        if "java" in child.name()
        for each in child.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    to = {(each.raddr.ip, each.raddr.port) for each in mine.net_connections("tcp") if each.raddr}
    return sorted(each for each in listening if each in to)


@pytest.mark.parametrize("first", [b"", b"A\nnot-the-secret\ne\n"])
def test_a_stranger_without_the_sessions_secret_calls_nothing(spark: SparkSession, first: bytes) -> None:
    assert spark.range(1).count() == 1
    found = gateways()
    assert found and all(host.startswith("127.") for host, _ in found)
    for address in found:
        with socket.create_connection(address, timeout=30) as stranger:
            stranger.sendall(first + VERSION)
            answer = b""
            try:
                while part := stranger.recv(4096):
                    answer += part
            except ConnectionResetError:
                pass
        assert b"!y" not in answer, answer

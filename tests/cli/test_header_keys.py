"""A record whose header key is not UTF-8 is printed as Kafka's console consumer prints it: bad bytes are replaced."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import peer
from tests.broker.node_client import run as run_async
from tests.broker.node_client import running_node
from tests.spark.test_header_keys import batch_with_header_keys

KEYS = {
    b"first-one": "first-one",
    b"bad-\xff\xfe": "bad-\ufffd\ufffd",
    b"cut-\xe2\x82": "cut-\ufffd",
    b"long-\xc0\x80": "long-\ufffd\ufffd",
    b"surrogate-\xed\xa0\x80": "surrogate-\ufffd",
    b"four-\xf0\x9f\x98": "four-\ufffd",
    b"five-\xf8\x88\x80\x80\x80": "five-" + "\ufffd" * 5,
}
"""Bytes, and what Kafka's console consumer makes of them (Java's replacement, which counts a surrogate once)."""
PRINTED = "".join(f"{shown}:value\tv\n" for shown in KEYS.values())
ARGUMENTS = (
    *("--topic", "t", "--from-beginning", "--max-messages", str(len(KEYS)), "--timeout-ms", "20000"),
    *("--formatter-property", "print.headers=true"),
)


def printed(folder: Path, consume: Callable[[str], str]) -> str:
    """Return what a consumer, given the bootstrap address, prints of a topic with these header keys."""
    found: list[str] = []

    async def test() -> None:
        async with running_node(folder) as client:
            await client.create("t")
            assert (await client.produce("t", batch_with_header_keys(*KEYS))).error_code == 0
            found.append(await asyncio.to_thread(consume, f"127.0.0.1:{client.node.listeners[0].port}"))

    run_async(test, 60)
    return found[0]


def test_console_consumer_prints_header_keys_that_are_not_utf_8(tmp_path: Path) -> None:
    def consume(bootstrap: str) -> str:
        command = [sys.executable, "-m", "ottla.cli.main", "console-consumer", "--bootstrap-server", bootstrap]
        found = subprocess.run([*command, *ARGUMENTS], capture_output=True, text=True, timeout=60, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout

    assert printed(tmp_path, consume) == PRINTED


@pytest.mark.peer
def test_the_printed_header_keys_are_what_kafkas_console_consumer_prints(tmp_path: Path) -> None:
    def consume(bootstrap: str) -> str:
        return peer.tool("console-consumer", "--bootstrap-server", bootstrap, *ARGUMENTS).stdout

    assert printed(tmp_path, consume) == PRINTED

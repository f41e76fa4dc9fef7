"""Delegation tokens of Kafka's and of ours, by Kafka's own tool and by `ottla delegation-tokens`, which print the same."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.main import main
from tests import peer
from tests.broker.node_client import run, running_node
from tests.broker.sasl_client import PLAIN
from tests.ports import free_port

pytestmark = [pytest.mark.peer, pytest.mark.slow]  # three JVMs; what ours answer and print is tested in every run
USERS = 'username="ann" password="x" user_ann="x" user_bob="x"'
SECURED = (
    "sasl.enabled.mechanisms=PLAIN",
    "sasl.mechanism.inter.broker.protocol=PLAIN",
    f"listener.name.plaintext.plain.sasl.jaas.config={PLAIN} required {USERS};",
    "delegation.token.secret.key=the cluster's own",
)
VOLATILE = re.compile(
    r"tokenId : \S+|^\S{22} \S{88}|hmac :\S+|\d{4}-\d\d-\d\dT\d\d:\d\d|(?m:^\S{22} )|org\.apache\.kafka\S+: "
)
JAVAS = ("\t", "java.util", "Caused by")
"""How the lines begin in which Java says where it was."""
Tool = Callable[..., tuple[int, str]]


def calls(tool: Tool, to: list[str]) -> list[tuple[int, str]]:
    """Return what a tool prints, call after call, without what differs from token to token."""
    found: list[tuple[int, str]] = []

    def call(*args: str) -> str:
        code, text = tool("delegation-tokens", *to, *args)
        lines = [
            VOLATILE.sub("*", line)
            for line in text.splitlines()
            if not line.startswith(("\t", "java.util", "Caused by"))
        ]
        found.append((code, "\n".join(lines).strip()))
        return text

    made = call("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    hmac = next(part for part in made.split() if len(part) == 88)
    while (seen := tool("delegation-tokens", *to, "--describe", "--owner-principal", "User:ann"))[1].count(hmac) == 0:
        assert seen[0] == 0
    call("--describe", "--owner-principal", "User:ann", "--owner-principal", "User:x")
    call("--describe", "--owner-principal", "User:bob")
    call("--describe", "--owner-principal", "User:cat")
    call("--renew", "--hmac", hmac, "--renew-time-period", "3600000")
    call("--expire", "--hmac", hmac, "--expiry-time-period", "1000000")
    call("--expire", "--hmac", "eA==", "--expiry-time-period", "-1")
    call("--renew", "--hmac", "eA==", "--renew-time-period", "-1")
    call("--create", "--max-life-time-period", "-1", "--renewer-principal", "Group:g")
    call("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    return found


def ours(*args: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(list(args))
    return code, out.getvalue()


def test_both_tools_print_the_same_of_both_clusters(tmp_path: Path) -> None:
    kafka = free_port()
    client = tmp_path / "client.properties"
    login = f"sasl.jaas.config={PLAIN} required {USERS.partition(' user_')[0]};"
    client.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")

    def printed(port: int) -> list[list[tuple[int, str]]]:
        to = ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(client)]
        with peer.one_jvm() as java:

            def kafkas(*args: str) -> tuple[int, str]:
                done = java(*args)
                return done.returncode, done.stdout + done.stderr

            return [calls(tool, to) for tool in (kafkas, ours)]

    async def test() -> None:
        protocols = "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT"
        async with running_node(tmp_path / "ours", protocols, *SECURED) as node:
            here = await asyncio.to_thread(printed, node.node.listeners[0].port)
            there = await asyncio.to_thread(printed, kafka)
            for number, each in enumerate(zip(*here, *there, strict=True)):
                assert len(set(each)) == 1, f"call {number}: {each}"

    protocols = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT"
    with peer.running_broker(tmp_path / "kafka", kafka, overrides=(protocols, *SECURED), heap="400m"):
        run(test, seconds=250)

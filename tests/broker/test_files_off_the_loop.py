"""What a change of the configuration names may lie on a disk that does not answer: no file of it is opened on the loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker import Node
from ottla.http import serving_context
from tests.broker.node_client import run, start_node
from tests.broker.test_tls_reload import BROKER, CA, LOCATION, RENEWED, altered, connected, shown, stored
from tests.security.tls_files import key_properties, listener_overrides

_watching: list[tuple[str, int, list[str]]] = []
"""The folder, the loop's thread, and what that has opened; an audit hook cannot be taken off again."""


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _watching:
        folder, thread, met = _watching[-1]
        path = arguments[0]
        if (
            isinstance(path, str | os.PathLike)
            and os.fspath(path).startswith(folder)
            and threading.get_ident() == thread
        ):
            met.append(os.fspath(path))


sys.addaudithook(_audit)


@contextmanager
def opened_by_this_thread(folder: Path) -> Iterator[list[str]]:
    """Yield the paths in a folder that this thread opens meanwhile."""
    met: list[str] = []
    _watching.append((str(folder), threading.get_ident(), met))
    try:
        yield met
    finally:
        _watching.pop()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder of files that a broker is configured with, none of them its data."""
    found = tmp_path / "files"
    found.mkdir()
    (found / "jaas.conf").write_text(
        'KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a"; };'
    )
    (found / "secrets.properties").write_text("password=none\n")
    return found


def node_overrides(files: Path) -> list[str]:
    """Return what a broker is told: a listener with TLS, one with logins of a JAAS file, and where secrets lie."""
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    return [
        *listener_overrides(
            files, BROKER, CA, "node.id=1", "config.providers=file", f"config.providers.file.class={provider}"
        ),
        "listeners=SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN",
    ]


async def started(files: Path) -> Node:
    """Start a node with them."""
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={files / 'jaas.conf'}"}
    return await start_node(files.parent / "data", *node_overrides(files), environment=environment)


CHANGES: dict[str, tuple[dict[str, str | None], bool]] = {
    "another store": ({LOCATION: "new"}, True),
    "the same store again": ({LOCATION: "listener"}, True),
    "a store that is not there": ({LOCATION: "/nowhere/at/all.pem"}, False),
    "a password of a file": ({"listener.name.ssl.ssl.key.password": "${file:SECRETS:password}"}, True),
    "a login": (
        {
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="b";'
            )
        },
        True,
    ),
    "nothing of it": ({"log.retention.ms": "100000"}, True),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("validate_only", [False, True])
def test_no_file_that_a_change_names_is_opened_on_the_loop(files: Path, what: str, validate_only: bool) -> None:
    changes, is_good = CHANGES[what]
    wanted: dict[str, str | None] = {}
    for name, value in changes.items():
        if value in ("new", "listener"):
            value = stored(files, RENEWED, str(value)) if value == "new" else str(files / "listener.pem")
        wanted[name] = value and value.replace("SECRETS", str(files / "secrets.properties"))

    async def test(node: Node) -> None:
        client = await connected(node)
        with opened_by_this_thread(files) as met:
            code, message = await altered(client, wanted, validate_only=validate_only)
            assert (code == 0) is is_good, message
            seen = shown(await connected(node))
            assert seen == (RENEWED.leaf if what == "another store" and not validate_only else BROKER.leaf)
            for each in wanted if is_good and not validate_only else ():
                assert (await altered(client, {each: None}))[0] == 0
                assert shown(await connected(node)) == BROKER.leaf
        assert not met

    async def whole() -> None:
        node = await started(files)
        try:
            await test(node)
        finally:
            await node.stop()

    run(whole)


def test_stores_that_a_start_finds_in_the_metadata_are_in_use_before_anybody_comes_in(files: Path) -> None:
    new = stored(files, RENEWED, "new")

    async def whole() -> None:
        node = await started(files)
        assert (await altered(await connected(node), {LOCATION: new}))[0] == 0
        await node.stop()
        node = await started(files)
        try:
            assert shown(await connected(node)) == RENEWED.leaf
        finally:
            await node.stop()

    run(whole)


def test_the_stores_of_pages_are_not_opened_on_the_loop_either(files: Path) -> None:
    """A service over HTTPS follows its files by itself."""
    now = [0.0]
    context = serving_context(key_properties(files, BROKER, "pages"), lambda: now[0])
    before = context()
    with opened_by_this_thread(files) as met:
        now[0] += 2
        assert context() is before
        read = (files / "pages.pem").stat().st_mtime_ns
        path = Path(key_properties(files, RENEWED, "renewed")["ssl.keystore.location"])
        os.utime(path, ns=(read + 1, read + 1))
        path.rename(files / "pages.pem")
        met.clear()
        now[0] += 2
        assert context() is not before
    assert not met


def test_the_watch_sees_what_this_thread_opens(files: Path) -> None:
    with opened_by_this_thread(files) as met:
        (files / "secrets.properties").read_bytes()
        asyncio.run(asyncio.to_thread((files / "jaas.conf").read_bytes))
    assert met == [str(files / "secrets.properties")]

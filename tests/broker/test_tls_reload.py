"""Stores that change while their listener is open: by a dynamic configuration, and because their file was replaced."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Node
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.node_client import NodeClient, run, start_node
from tests.net.certificates import client_context
from tests.security.authority import Identity, authority, signed
from tests.security.tls_files import key_properties, listener_overrides, trust_properties

CA = authority()
BROKER, RENEWED, OTHER = signed(CA, "broker"), signed(CA, "broker"), signed(CA, "other")
UNKNOWN = signed(authority("Other Authority"), "broker")
LOCATION = "listener.name.ssl.ssl.keystore.location"
BROKER_RESOURCE, SET, DELETE = 4, 0, 1
INVALID_REQUEST = 42


async def connected(node: Node) -> NodeClient:
    context = client_context(CA)
    return NodeClient(node, *await asyncio.open_connection("127.0.0.1", node.listeners[0].port, ssl=context))


def shown(client: NodeClient) -> bytes:
    session: ssl.SSLObject = client.writer.get_extra_info("ssl_object")
    found = session.getpeercert(binary_form=True)
    assert found is not None
    return found


async def altered(
    client: NodeClient, changes: dict[str, str | None], *, validate_only: bool = False
) -> tuple[int, str]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=BROKER_RESOURCE,
                resource_name="1",
                configs=[
                    AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
                    for name, value in changes.items()
                ],
            )
        ],
        validate_only=validate_only,
    )
    (result,) = (await client.ask(request)).responses
    return result.error_code, result.error_message or ""


def stored(folder: Path, identity: Identity, name: str) -> str:
    return key_properties(folder, identity, name)["ssl.keystore.location"]


def run_node(folder: Path, test: Callable[[Node], Coroutine[Any, Any, None]], *more: str) -> None:
    async def whole() -> None:
        node = await start_node(folder / "data", *listener_overrides(folder, BROKER, CA, "node.id=1", *more))
        try:
            await test(node)
        finally:
            await node.stop()

    run(whole)


def test_the_next_connection_sees_new_keys_and_open_ones_keep_theirs(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        first = await connected(node)
        assert await altered(first, {LOCATION: stored(tmp_path, RENEWED, "new")}) == (0, "")
        second = await connected(node)
        assert (shown(first), shown(second)) == (BROKER.leaf, RENEWED.leaf)
        await first.ask(MetadataRequest(topics=[]))
        assert await altered(first, {LOCATION: None}) == (0, "")
        assert shown(await connected(node)) == BROKER.leaf

    run_node(tmp_path, test)


def test_new_keys_outlive_a_restart(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await altered(await connected(node), {LOCATION: stored(tmp_path, RENEWED, "new")})

    async def again(node: Node) -> None:
        assert shown(await connected(node)) == RENEWED.leaf

    run_node(tmp_path, test)
    run_node(tmp_path, again)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (OTHER, "Keystore DistinguishedName does not match"),
        (signed(CA, "broker", hosts=("localhost",)), "Keystore SubjectAltNames do not match"),
        (UNKNOWN, "can't connect to a server SSLEngine"),
    ],
)
def test_refused_keys_leave_the_old_ones_in_place(tmp_path: Path, identity: Identity, words: str) -> None:
    async def test(node: Node) -> None:
        client = await connected(node)
        code, message = await altered(client, {LOCATION: stored(tmp_path, identity, "new")})
        assert code == INVALID_REQUEST and words in message
        assert shown(await connected(node)) == BROKER.leaf

    run_node(tmp_path, test)


def test_a_replaced_file_counts_when_its_name_is_set_again(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        client = await connected(node)
        same = stored(tmp_path, RENEWED, "listener")
        assert shown(await connected(node)) == BROKER.leaf, "nobody has asked for it"
        assert await altered(client, {LOCATION: same}, validate_only=True) == (0, "")
        assert shown(await connected(node)) == BROKER.leaf, "it was only a question"
        assert await altered(client, {LOCATION: same}) == (0, "")
        assert shown(await connected(node)) == RENEWED.leaf
        stored(tmp_path, OTHER, "listener")
        assert (await altered(client, {LOCATION: same}))[0] == INVALID_REQUEST
        assert shown(await connected(node)) == RENEWED.leaf

    run_node(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ssl.keystore.location", "/x", "only per-listener using the listener prefix: [ssl.keystore.location]"),
        ("listener.name.ssl.ssl.client.auth", "required", "cannot be updated while it is open"),
        ("listener.name.ssl.ssl.principal.mapping.rules", "DEFAULT", "Cannot update these configs dynamically"),
    ],
)
def test_what_needs_a_restart_is_refused(tmp_path: Path, name: str, value: str, words: str) -> None:
    async def test(node: Node) -> None:
        code, message = await altered(await connected(node), {name: value})
        assert code == INVALID_REQUEST and words in message

    run_node(tmp_path, test)


def test_old_clients_change_keys_by_replacing_the_whole_configuration(tmp_path: Path) -> None:
    async def change(client: NodeClient, identity: Identity, name: str) -> int:
        config = legacy.AlterableConfig(name=LOCATION, value=stored(tmp_path, identity, name))
        resource = legacy.AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[config])
        (result,) = (await client.ask(legacy.AlterConfigsRequest(resources=[resource], validate_only=False))).responses
        return int(result.error_code)

    async def test(node: Node) -> None:
        client = await connected(node)
        assert await change(client, OTHER, "other") == INVALID_REQUEST
        assert await change(client, RENEWED, "new") == 0
        assert shown(await connected(node)) == RENEWED.leaf

    run_node(tmp_path, test)


def test_https_pages_show_new_keys_too(tmp_path: Path) -> None:
    async def shown_by_pages(node: Node) -> bytes:
        port = node.http_listeners[0].port
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(CA))
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bytes(found)

    async def test(node: Node) -> None:
        assert await shown_by_pages(node) == BROKER.leaf
        location = "listener.name.https.ssl.keystore.location"
        assert await altered(await connected(node), {location: stored(tmp_path, RENEWED, "new")}) == (0, "")
        assert await shown_by_pages(node) == RENEWED.leaf

    run_node(tmp_path, test, "ottla.http.listeners=https://127.0.0.1:0")


def test_keys_that_stand_elsewhere_are_looked_up_and_again_when_asked(tmp_path: Path) -> None:
    provider = "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    changes: dict[str, str | None] = {
        "listener.name.ssl.ssl.keystore.key": f"${{dir:{tmp_path}:key}}",
        "listener.name.ssl.ssl.keystore.certificate.chain": f"${{dir:{tmp_path}:chain}}",
    }

    def kept(identity: Identity) -> None:
        (tmp_path / "key").write_text(identity.key_pem())
        (tmp_path / "chain").write_text(identity.chain_pem())

    async def test(node: Node) -> None:
        client = await connected(node)
        assert shown(client) == BROKER.leaf
        kept(RENEWED)
        assert await altered(client, changes) == (0, "")
        assert shown(await connected(node)) == RENEWED.leaf
        kept(BROKER)
        assert await altered(client, changes) == (0, "")
        assert shown(await connected(node)) == BROKER.leaf
        (tmp_path / "key").unlink()
        code, message = await altered(client, changes)
        assert code == INVALID_REQUEST and f"${{dir:{tmp_path}:key}} is not there" in message
        kept(UNKNOWN)
        code, message = await altered(client, changes)
        assert code == INVALID_REQUEST and "PRIVATE KEY" not in message
        assert shown(await connected(node)) == BROKER.leaf

    kept(BROKER)
    trusted = key_properties(tmp_path, BROKER, "unused") | trust_properties(tmp_path, CA)
    trusted.pop("ssl.keystore.location")
    overrides = [f"{key}={value}" for key, value in trusted.items()]
    inline = [f"{name.removeprefix('listener.name.ssl.')}={value}" for name, value in changes.items()]

    async def whole() -> None:
        ports = ("listeners=SSL://127.0.0.1:0", "security.inter.broker.protocol=SSL", "node.id=1")
        node = await start_node(tmp_path / "data", *ports, *overrides, "config.providers=dir", provider, *inline)
        try:
            await test(node)
        finally:
            await node.stop()

    run(whole)


@pytest.mark.parametrize("damage", ["gone", "empty", "half", "pipe", "folder"])
def test_a_store_that_is_damaged_or_gone_leaves_the_old_one(tmp_path: Path, damage: str) -> None:
    async def test(node: Node) -> None:
        client = await connected(node)
        path = Path(stored(tmp_path, RENEWED, "listener"))
        text = path.read_text()
        path.unlink()
        if damage == "pipe":
            os.mkfifo(path)
        elif damage == "folder":
            path.mkdir()
        elif damage != "gone":
            path.write_text("" if damage == "empty" else text[: len(text) // 2])
        code, message = await altered(client, {LOCATION: str(path)})
        assert code == INVALID_REQUEST and "PRIVATE KEY" not in message
        assert shown(await connected(node)) == BROKER.leaf

    run_node(tmp_path, test)


def test_what_a_whole_configuration_leaves_out_is_looked_at_too(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        client = await connected(node)
        assert await altered(client, {LOCATION: stored(tmp_path, RENEWED, "new")}) == (0, "")
        stored(tmp_path, OTHER, "listener")
        resource = legacy.AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[])
        request = legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
        (result,) = (await client.ask(request)).responses
        assert result.error_code == INVALID_REQUEST
        assert shown(await connected(node)) == RENEWED.leaf

    run_node(tmp_path, test)

"""A broker's TLS listeners: who is let in, whom certificates stand for, and what does not start."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ottla.base import ConfigError
from ottla.broker import Node
from ottla.wire.messages import alter_client_quotas as aq
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.node_client import NodeClient, batch, run, start_node
from tests.net.certificates import client_context
from tests.security.authority import Identity, authority, signed
from tests.security.tls_files import key_properties, listener_overrides

CA = authority()
BROKER = signed(CA, "broker")
ANN = signed(CA, "Ann", hosts=())
STRANGER = signed(authority("Other Authority"), "Ann")
RULES = "ssl.principal.mapping.rules"
HTTP = "ottla.http.listeners=http://127.0.0.1:0"


async def connected(node: Node, identity: Identity | None = None, *, trusted: Identity = CA) -> NodeClient:
    listener = node.listeners[0]
    context = client_context(trusted, identity)
    return NodeClient(node, *await asyncio.open_connection("127.0.0.1", listener.port, ssl=context))


async def is_refused(node: Node, identity: Identity | None) -> bool:
    """In TLS 1.3 a client hears only after its own handshake that its certificate is refused."""
    try:
        client = await connected(node, identity)
        await client.ask(MetadataRequest(topics=[]))
    except (OSError, asyncio.IncompleteReadError):
        return True
    return False


async def seen_user(client: NodeClient, identity: Identity | None) -> str:
    """Return the user whom the broker counts somebody's records for."""
    every_user = [aq.EntityData(entity_type="user", entity_name=None)]
    quota = aq.RequestEntryData(entity=every_user, ops=[aq.OpData(key="producer_byte_rate", value=1e9)])
    await client.ask(aq.AlterClientQuotasRequest(entries=[quota]))
    producer = await connected(client.node, identity)
    producer.topic_ids.update(client.topic_ids)
    await producer.produce("t", batch(b"a"))
    users = re.findall(r'ottla_quota_limit\{quota="producer_byte_rate",user="([^"]*)"', await page(client.node))
    (user,) = users
    return str(user)


async def page(node: Node) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{node.http_listeners[0]}/metrics") as answer:
        return await answer.text()


def run_node(folder: Path, test: Callable[[Node], Coroutine[Any, Any, None]], *more: str) -> None:
    """Run a test of a node whose listener speaks TLS."""

    async def whole() -> None:
        node = await start_node(folder / "data", *listener_overrides(folder, BROKER, CA, HTTP, *more))
        try:
            await test(node)
        finally:
            await node.stop()

    run(whole)


def test_records_travel_through_a_tls_listener(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        client = await connected(node)
        await client.create("t")
        value = b"secret" * 100_000
        await client.produce("t", batch(value))
        assert value in bytes((await client.fetch("t", 0)).records)
        described = await client.ask(MetadataRequest(topics=[]))
        assert [each.port for each in described.brokers] == [node.listeners[0].port]

    run_node(tmp_path, test)


@pytest.mark.parametrize(
    ("identity", "rules", "user"),
    [
        (ANN, "", "CN=Ann,O=Acme"),
        (ANN, r"RULE:^CN=([^,]+),O=Acme$/$1/L", "ann"),
        (None, "DEFAULT", "ANONYMOUS"),
    ],
)
def test_a_certificate_stands_for_the_user_that_the_rules_make_of_its_name(
    tmp_path: Path, identity: Identity | None, rules: str, user: str
) -> None:
    async def test(node: Node) -> None:
        client = await connected(node, ANN)
        await client.create("t")
        assert await seen_user(client, identity) == user

    run_node(tmp_path, test, "ssl.client.auth=requested", *([f"{RULES}={rules}"] if rules else []))


def test_without_a_known_certificate_nobody_comes_in_where_one_is_required(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        assert await is_refused(node, None)
        assert await is_refused(node, STRANGER)
        assert not await is_refused(node, ANN)
        found = await page(node)
        assert 'socket_server_metrics_failed_authentication_total{listener="SSL"} 2' in found
        assert 'socket_server_metrics_successful_authentication_total{listener="SSL"} 1' in found
        ends = re.search(r'ottla_tls_certificate_end_seconds\{listener="SSL"\} (\S+)', found)
        assert ends is not None and 29 * 86400 < float(ends[1]) - time.time() < 31 * 86400

    run_node(tmp_path, test, "listener.name.ssl.ssl.client.auth=required")


def test_a_certificate_that_stands_for_nobody_ends_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: Node) -> None:
        assert await is_refused(node, ANN)

    run_node(tmp_path, test, "ssl.client.auth=required", f"{RULES}=RULE:^CN=nobody$/nobody/")
    assert "No rules apply to CN=Ann,O=Acme" in caplog.text


def test_a_client_in_clear_is_told_apart_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(node: Node) -> None:
        client = await NodeClient.connect(node)
        client.send(MetadataRequest(topics=[]), 0)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await client.frame()

    run_node(tmp_path, test)
    assert "a client that speaks PLAINTEXT or SASL_PLAINTEXT has come to a TLS listener" in caplog.text


def test_each_listener_shows_its_own_certificate(tmp_path: Path) -> None:
    """A key with the listener's name before it is stronger than the one without."""
    other = key_properties(tmp_path, signed(authority("Second Authority"), "broker"), "other")
    own = [f"listener.name.second.{key}={value}" for key, value in other.items()]

    async def test(node: Node) -> None:
        first, second = [await certificate_of(each.port) for each in node.listeners]
        assert b"Test Authority" in first
        assert b"Second Authority" in second

    async def certificate_of(port: int) -> bytes:
        blind = ssl.create_default_context()
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=blind)
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bytes(found)

    listeners = [
        "listeners=SSL://127.0.0.1:0,SECOND://127.0.0.1:0",
        "listener.security.protocol.map=SSL:SSL,SECOND:SSL",
    ]
    run_node(tmp_path, test, *listeners, *own)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ssl.keystore.location=/nowhere.pem", "listener SSL: ssl.keystore.location /nowhere.pem: No such file"),
        ("ssl.truststore.type=JKS", "its type is given as JKS"),
        ("ssl.enabled.protocols=TLSv1.1", "nothing older is spoken"),
        (f"{RULES}=RULE:(/x/", "Invalid rule"),
        ("ssl.client.auth=sometimes", "ssl.client.auth"),
        ("ssl.engine.factory.class=com.acme.Engine", "ssl.engine.factory.class"),
        ("inter.broker.listener.name=SSL", "Only one of inter.broker.listener.name and security.inter.broker.protocol"),
    ],
)
def test_a_listener_that_cannot_be_as_it_is_configured_does_not_start(tmp_path: Path, change: str, words: str) -> None:
    async def test(node: Node) -> None:
        raise AssertionError("it has started")

    with pytest.raises(ConfigError, match=re.escape(words)):
        run_node(tmp_path, test, change)
    assert not (tmp_path / "data").exists(), "nothing was begun"


def test_metrics_and_health_are_served_by_https_with_keys_of_their_own(tmp_path: Path) -> None:
    own = key_properties(tmp_path, signed(CA, "pages"), "pages") | {"ssl.client.auth": "required"}
    settings = [f"listener.name.https.{key}={value}" for key, value in own.items()]

    async def test(node: Node) -> None:
        (address,) = node.http_listeners
        assert str(address).startswith("https://127.0.0.1:")

        async def status(identity: Identity | None) -> int:
            connector = aiohttp.TCPConnector(ssl=client_context(CA, identity))
            async with aiohttp.ClientSession(connector=connector) as session, session.get(f"{address}/livez") as answer:
                return answer.status

        assert await status(ANN) == 200
        with pytest.raises(aiohttp.ClientError):
            await status(None)

    run_node(tmp_path, test, "ottla.http.listeners=https://127.0.0.1:0", *settings)


def test_https_without_keys_does_not_start(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=r"listener HTTPS: ssl\.keystore\.location is not set"):
            await start_node(tmp_path / "data", "ottla.http.listeners=https://127.0.0.1:0")

    run(test)


def test_handshakes_are_among_the_connections_that_are_nobodys_yet(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async def plain() -> NodeClient:
            return NodeClient(node, *await asyncio.open_connection("127.0.0.1", node.listeners[0].port))

        first = await connected(node, ANN)
        assert await pending(node) == 0
        silent = [await plain() for _ in range(3)]
        assert await pending(node) == 3
        assert await asyncio.wait_for(connected(node, ANN), 30)
        assert await silent[0].reader.read() == b"", "the oldest has made room"
        assert await pending(node) == 2
        silent[1].close()
        while await pending(node) != 1:  # the one that is gone is forgotten
            pass
        assert (await first.ask(MetadataRequest(topics=[]))).brokers

    run_node(tmp_path, test, "ssl.client.auth=required", "ottla.login.connections.max=3")


def test_a_handshake_is_over_when_a_logins_time_is_and_who_is_done_may_be_silent(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        done = await connected(node)
        silent = NodeClient(node, *await asyncio.open_connection("127.0.0.1", node.listeners[0].port))
        assert await silent.reader.read() == b""
        assert (await done.ask(MetadataRequest(topics=[]))).brokers

    run_node(tmp_path, test, "ottla.login.timeout.ms=500")


async def pending(node: Node) -> int:
    (line,) = [each for each in (await page(node)).splitlines() if each.startswith("ottla_logins_pending_connections ")]
    return int(float(line.split()[1]))

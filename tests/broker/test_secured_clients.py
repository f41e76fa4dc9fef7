"""Our own client on listeners that are encrypted and where one logs in: how it gets in, and how it says why it does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.broker import Node, SystemClock
from ottla.client import Client, FetchPosition, Limits, NewTopic, client_network, create_topics
from tests.broker.node_client import batch, run, start_node
from tests.broker.sasl_client import PLAIN, plain_settings
from tests.security.authority import authority, signed
from tests.security.tls_files import client_properties, key_properties, listener_overrides, trust_properties

CA = authority()
BROKER = signed(CA, "broker")
ANN = signed(CA, "ann", hosts=())
LIMITS = Limits(connect_s=60, call_s=60, unreachable_s=5)
Properties = dict[str, str]


class SetClock:
    """A broker's clock that tests move."""

    def __init__(self) -> None:
        self.ms = SystemClock().now_ms()

    def now_ms(self) -> Millis:
        return Millis(self.ms)


def run_node(
    test: Callable[[Node], Coroutine[Any, Any, None]], folder: Path, *settings: str, clock: SetClock | None = None
) -> None:
    async def whole() -> None:
        node = await start_node(folder / "data", *settings, clock=clock)
        try:
            await test(node)
        finally:
            await node.stop()

    run(whole)


def client(node: Node, properties: Properties, *, host: str = "127.0.0.1") -> Client:
    bootstrap = f"{host}:{node.listeners[0].port}"
    return Client(bootstrap, limits=LIMITS, network=client_network(properties))


async def error(node: Node, properties: Properties, *, host: str = "127.0.0.1") -> KafkaError:
    async with client(node, properties, host=host) as asking:
        with pytest.raises(KafkaError) as caught:
            await asking.metadata()
    return caught.value


def plain(user: str, password: str, protocol: str = "SASL_PLAINTEXT") -> Properties:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{password}";',
    }


def test_records_go_out_and_come_back_over_mutual_tls(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with client(node, client_properties(tmp_path, CA, ANN)) as asking:
            await create_topics(asking, [NewTopic("t", 1, 1)])
            value = b"x" * 300_000
            (done,) = await asking.produce({TopicPartition("t", 0): batch(value)})
            assert done.error is ErrorCode.NONE
            (found,) = await asking.fetch([FetchPosition(TopicPartition("t", 0), Offset(0))])
            assert value in bytes(found.records)

    run_node(test, tmp_path, *listener_overrides(tmp_path, BROKER, CA, "ssl.client.auth=required"))


def test_what_is_wrong_with_a_handshake_is_said_at_once_and_in_words(tmp_path: Path) -> None:
    strangers = authority("Strangers")

    async def test(node: Node) -> None:
        trusting = client_properties(tmp_path, CA, ANN)
        unknown = await error(node, trusting | trust_properties(tmp_path, strangers, "strangers"))
        assert unknown.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "SSL handshake failed: the peer's certificate is refused" in unknown.message
        elsewhere = await error(node, trusting, host="127.0.0.2")
        assert "IP address mismatch, certificate is not valid for '127.0.0.2'" in elsewhere.message
        async with client(node, trusting | {"ssl.endpoint.identification.algorithm": ""}, host="127.0.0.2") as asking:
            await asking.metadata()
        without = await error(node, client_properties(tmp_path, CA))
        assert without.code is ErrorCode.SASL_AUTHENTICATION_FAILED and "certificate required" in without.message
        in_clear = await error(node, {})
        assert "does it speak TLS" in in_clear.message

    run_node(
        test,
        tmp_path,
        *listener_overrides(tmp_path, BROKER, CA, "ssl.client.auth=required"),
        "listeners=SSL://0.0.0.0:0",
        "advertised.listeners=SSL://127.0.0.1:0",
    )


def test_tls_to_a_plain_listener_is_told_apart(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        said = await error(node, client_properties(tmp_path, CA))
        assert "the peer closed the connection in the middle of the TLS handshake" in said.message

    run_node(test, tmp_path)


def test_who_logs_in_by_plain_over_tls_is_let_in_and_a_wrong_password_is_not_tried_twice(tmp_path: Path) -> None:
    store = key_properties(tmp_path, BROKER, "listener")
    settings = plain_settings(*(f"{key}={value}" for key, value in store.items()), listener="SASL_SSL", ann="x")
    trust = trust_properties(tmp_path, CA)

    async def test(node: Node) -> None:
        async with client(node, plain("ann", "x", "SASL_SSL") | trust) as asking:
            assert (await asking.metadata()).nodes
        said = await error(node, plain("ann", "y", "SASL_SSL") | trust)
        assert said.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert said.message.endswith("Authentication failed: Invalid username or password")
        other = (
            plain("ann", "x", "SASL_SSL")
            | trust
            | {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{PLAIN.replace("plain.Plain", "scram.Scram")} required username="a" password="x";',
            }
        )
        said = await error(node, other)
        assert said.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "not enabled in the server, enabled mechanisms are [PLAIN]" in said.message

    run_node(test, tmp_path, *settings)


def test_a_login_that_ends_is_renewed_while_requests_go_on(tmp_path: Path) -> None:
    """KIP-368: the broker would close the connection with the first request after the end."""

    async def count(node: Node, name: str) -> float:
        async with aiohttp.ClientSession() as session, session.get(f"{node.http_listeners[0]}/metrics") as answer:
            found = re.search(rf"{name}\{{[^}}]*\}} (\d+)", await answer.text())
        return float(found[1]) if found else 0

    async def test(node: Node) -> None:
        async with client(node, plain("ann", "x")) as asking:
            await asking.metadata()
            clock.ms += 1100  # a login may be renewed after a second, and this one ends after 1.3
            while not await count(node, "successful_reauthentication_total"):
                await asyncio.gather(*(asking.metadata() for _ in range(5)))
            clock.ms += 1000
            await asking.metadata()
            assert await count(node, "successful_authentication_total") == 1, "over one connection"

    clock = SetClock()
    settings = ("connections.max.reauth.ms=1300", "ottla.http.listeners=http://127.0.0.1:0")
    run_node(test, tmp_path, *plain_settings(*settings, ann="x"), clock=clock)


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "name the mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        (plain("ann", ""), "sasl.jaas.config"),
        (plain("ann", "x") | {"sasl.login.callback.handler.class": "com.acme.Login"}, "sasl.login.callback"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "ssl.truststore.location"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_anything_is_opened(properties: Properties, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        client_network(properties)


def test_an_error_of_a_login_holds_no_password() -> None:
    wrong = plain("ann", "secret") | {"sasl.jaas.config": f'{PLAIN} required username="ann" password="secret'}
    with pytest.raises(ConfigError) as caught:
        client_network(wrong)
    assert "secret" not in str(caught.value)

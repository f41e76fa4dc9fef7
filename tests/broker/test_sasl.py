"""A listener where clients log in: what may be said before, who one is afterwards, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.base import ConfigError, ErrorCode, Millis
from ottla.broker import SystemClock
from ottla.broker.requests.connected import Connected
from ottla.config import BrokerConfig
from ottla.security import Operation, Resource
from ottla.wire import APIS, Message, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.node_client import NodeClient, parts, run, running_node
from tests.broker.sasl_client import authenticate, bare, handshake, is_closed, log_in, plain_settings

NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1")
FAST = "connection.failed.authentication.delay.ms=0"


class SetClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.ms = int(SystemClock().now_ms())

    def now_ms(self) -> Millis:
        return Millis(self.ms)


class Seen:
    """An `Authorizer` that allows everything and remembers who has asked; the compiled ones cannot be inherited from."""

    has_acls = False

    def __init__(self) -> None:
        self.peers: list[Connected] = []

    def allows(
        self,
        peer: Connected,
        operation: Operation,
        resource: Resource,
        name: str,
        api_key: int = -1,
        is_asked_for: bool = True,
        references: int = 1,
    ) -> bool:
        self.peers.append(peer)
        return True

    def allows_on_some(self, peer: Connected, operation: Operation, resource: Resource, api_key: int = -1) -> bool:
        return self.allows(peer, operation, resource, "", api_key)


@asynccontextmanager
async def secured(folder: Path, *more: str, clock: SetClock | None = None) -> AsyncIterator[NodeClient]:
    """Run a node where ann's password is x and bob's y; yields a client that has not logged in."""
    async with running_node(folder, *plain_settings(*more, ann="x", bob="y"), clock=clock) as client:
        yield client


async def principal(client: NodeClient) -> str:
    """Return who the broker takes the client for."""
    parts(client.node).authorizer = seen = Seen()
    answer = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.error_code == 0
    return seen.peers[-1].principal


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_logs_in_is_served_as_who_he_is(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            assert (await client.ask(NAMED)).error_code == 0
            answer = await log_in(client, "ann", "x", version=version)
            assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
            assert await principal(client) == "User:ann"

    run(test)


def test_after_a_handshake_of_version_0_tokens_are_bare(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            assert (await handshake(client, version=0)).mechanisms == ["PLAIN"]
            assert await bare(client, b"\0bob\0y") == b""
            assert await principal(client) == "User:bob"

    run(test)


def test_a_refused_bare_token_closes_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, FAST) as client:
            await handshake(client, version=0)
            client.writer.write(struct.pack(">i", 6) + b"\0bob\0x")
            assert await is_closed(client)

    run(test)


@pytest.mark.parametrize(
    "token", [b"\0ann\0y", b"\0nobody\0x", b"bob\0ann\0x", b"\0ann\0", b"\0\0x", b"ann", b"", b"\xff\0a\0b"]
)
def test_a_wrong_token_is_answered_after_a_while_and_closed(tmp_path: Path, token: bytes) -> None:
    async def test() -> None:
        async with secured(tmp_path, "connection.failed.authentication.delay.ms=120") as client:
            await handshake(client)
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            answer = await authenticate(client, token)
            assert loop.time() - began_s >= 0.1
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message.startswith("Authentication failed")
            assert await is_closed(client)

    run(test)


def test_a_client_that_goes_away_before_its_refusal_leaves_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, "connection.failed.authentication.delay.ms=60000") as client:
            await handshake(client)
            client.send(SaslAuthenticateRequest(auth_bytes=b"\0ann\0no"), 2)
            client.close()
            await client.writer.wait_closed()

    run(test)


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, FAST) as client:
            answer = await handshake(client, "SCRAM-SHA-256")
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM and answer.mechanisms == ["PLAIN"]
            assert await is_closed(client)

    run(test)


def test_nothing_else_is_read_or_answered_before_the_login(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            for key in sorted({*APIS} - {17, 18}):
                other = await NodeClient.connect(client.node)
                frame = struct.pack(">hhih", key, 0, 1, -1) + b"\xff" * 64
                other.writer.write(struct.pack(">i", len(frame)) + frame)
                assert await is_closed(other), key

    run(test)


def test_api_versions_is_answered_once_and_again_only_where_it_was_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path) as client:
            client.writer.write(struct.pack(">ihhih", 10, 18, 99, 1, -1))
            assert (await client.receive(NAMED, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (await client.ask(ApiVersionsRequest(), 3)).error_code == ErrorCode.INVALID_REQUEST
            assert (await client.ask(NAMED)).error_code == 0
            client.send(NAMED, 4)
            assert await is_closed(client)

    run(test)


def test_only_a_small_frame_is_taken_before_the_login_and_a_large_one_after_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, "sasl.server.max.receive.size=1000") as client:
            client.writer.write(struct.pack(">i", 1001))
            assert await is_closed(client)
            client = await NodeClient.connect(client.node)
            await log_in(client)
            large = MetadataRequest(topics=[]).replace(topics=None)
            frame = encode_request(large, 12, 7, "c" * 2000)
            client.writer.write(frame)
            assert (await client.receive(large, 12)).brokers

    run(test)


@pytest.mark.parametrize("request_", [SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest()])
def test_where_nobody_logs_in_and_after_a_login_both_requests_are_an_illegal_state(
    tmp_path: Path, request_: Message
) -> None:
    async def test() -> None:
        async with running_node(tmp_path / "plaintext") as client:
            assert (await client.ask(request_)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert (await client.ask(NAMED)).error_code == 0
        async with secured(tmp_path / "sasl") as client:
            await log_in(client)
            assert (await client.ask(request_)).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert await principal(client) == "User:ann"

    run(test)


def test_a_login_with_an_end_is_renewed_by_the_same_user_only(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SetClock()
        async with secured(tmp_path, FAST, "connections.max.reauth.ms=100000", clock=clock) as client:
            assert (await log_in(client)).session_lifetime_ms == 100_000
            assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE  # too soon
            clock.ms += 1000  # Kafka's own least time between two logins
            assert (await log_in(client)).session_lifetime_ms == 100_000
            assert await principal(client) == "User:ann"
            clock.ms += 1000
            refused = await log_in(client, "bob", "y")
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "Cannot change principals" in refused.error_message
            assert await is_closed(client)

    run(test)


def test_who_goes_on_after_the_end_of_his_login_is_closed_and_counted(tmp_path: Path) -> None:
    async def test() -> None:
        clock, own = SetClock(), "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=50000"
        async with secured(tmp_path, own, "connections.max.reauth.ms=9", clock=clock) as client:
            assert (await log_in(client)).session_lifetime_ms == 50_000
            clock.ms += 49_999
            assert (await client.ask(MetadataRequest(topics=[]), 12)).brokers
            clock.ms += 1
            client.send(MetadataRequest(topics=[]), 12)
            assert await is_closed(client)

    run(test)


def test_a_login_lasts_no_longer_because_a_clock_was_set_back(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SetClock()
        async with secured(tmp_path, "connections.max.reauth.ms=1500", clock=clock) as client:
            assert (await log_in(client)).session_lifetime_ms == 1500
            clock.ms -= 3_600_000
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                while True:
                    await client.ask(MetadataRequest(topics=[]), 12)

    run(test)


def test_a_refusal_is_one_line_and_holds_no_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with secured(tmp_path, FAST) as client:
            await handshake(client)
            await authenticate(client, b"\0ann\0s3cret-guess")

    with caplog.at_level(logging.DEBUG):
        run(test)
    lines = [each.getMessage() for each in caplog.records if "Closing the connection" in each.getMessage()]
    assert len(lines) == 1 and "Invalid username or password" in lines[0]
    assert "s3cret" not in caplog.text


JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
TICKETS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
GSSAPI = ["sasl.enabled.mechanisms=GSSAPI", "sasl.kerberos.service.name=kafka"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["sasl.enabled.mechanisms=GSSAPI"], "GSSAPI"),
        (["sasl.enabled.mechanisms="], "name one or more"),
        (["sasl.enabled.mechanisms=PLAIN,NTLM"], "NTLM"),
        (
            [f'{JAAS}=com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";'],
            "not allowed",
        ),
        ([f"{JAAS}={KERBEROS} required;"], "0 login modules are for PLAIN"),
        ([*GSSAPI, f"{TICKETS}={KERBEROS} required useTicketCache=true;"], "a listener needs useKeyTab=true"),
        ([*GSSAPI, f"{TICKETS}={KERBEROS} required useKeyTab=true principal=kafka;"], "unexpected format"),
        ([*GSSAPI[:1], f"{TICKETS}={KERBEROS} required;"], "No serviceName defined"),
        ([f'{JAAS}=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="x"'], "semi-colon"),
        ([f'{JAAS}=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="x;'], "does not end"),
        (["principal.builder.class=com.example.Builder"], "com.example.Builder"),
        (["listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class=com.example.H"], "com.example.H"),
        (["sasl.server.callback.handler.class=com.example.H"], "prefixed"),
    ],
)
def test_what_cannot_be_honoured_does_not_start(tmp_path: Path, settings: list[str], words: str) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=words) as found:
            async with secured(tmp_path, *settings):
                pass
        assert "user_ann" not in str(found.value) and "listener SASL_PLAINTEXT" in str(found.value)

    run(test)


def test_plain_without_users_says_where_they_belong(tmp_path: Path) -> None:
    async def test() -> None:
        settings = [each for each in plain_settings() if not each.startswith("listener.name")]
        with pytest.raises(ConfigError, match=r"listener\.name\.sasl_plaintext\.plain\.sasl\.jaas\.config is not set"):
            async with running_node(tmp_path, *settings):
                pass

    run(test)


def test_users_may_stand_in_the_file_that_the_process_names(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        'KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="x"; };', "utf-8"
    )
    environment = {"KAFKA_OPTS": f"-Xmx1G -Djava.security.auth.login.config={file}"}
    config = BrokerConfig.load(environment=environment)
    assert config.system_properties == {"java.security.auth.login.config": str(file)}


@pytest.mark.parametrize("before", ["nothing", "a handshake", "half a request"])
def test_who_does_not_log_in_in_time_is_closed(tmp_path: Path, before: str) -> None:
    async def test() -> None:
        async with secured(tmp_path, "ottla.login.timeout.ms=50") as client:
            if before == "a handshake":
                await handshake(client)
            elif before == "half a request":
                client.writer.write(b"\0\0\1\0\0\x11")
            assert await is_closed(client)

    run(test)


def test_who_has_logged_in_in_time_stays(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, "ottla.login.timeout.ms=2000") as client:
            await log_in(client)
            late = await NodeClient.connect(client.node)
            assert await is_closed(late)
            assert await principal(client) == "User:ann"

    run(test)


def test_where_too_many_have_not_logged_in_the_oldest_has_to_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with secured(tmp_path, "ottla.login.connections.max=3") as first:
            await log_in(first)
            others = [await NodeClient.connect(first.node) for _ in range(4)]
            assert await is_closed(others[0])
            for each in others[1:]:
                await log_in(each)
                assert await principal(each) == "User:ann"
            assert await principal(first) == "User:ann"

    run(test)

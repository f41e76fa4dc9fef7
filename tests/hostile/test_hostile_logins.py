"""What comes before a login, in every way it can be wrong: closed with one line, nothing kept, nobody else disturbed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.security import ScramMechanism
from ottla.security.sasl import OAuthBearerClient, PlainClient, ScramClient, unsecured_token
from ottla.wire import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.hostile.mutation import mutate
from tests.server import Server, running_server
from tests.waiting import until

MIB = 1 << 20
UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
OWN = "listener.name.sasl_plaintext."
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SETTINGS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol=SASL_PLAINTEXT",
    f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
    f'{OWN}plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="x";',
    f"{OWN}oauthbearer.sasl.server.callback.handler.class={UNSIGNED}",
    "connection.failed.authentication.delay.ms=0",
    "ottla.login.timeout.ms=3000",
)
FIRST = {
    "PLAIN": PlainClient("ann", "x").start(),
    "SCRAM-SHA-256": ScramClient(ScramMechanism.SHA_256, user="ann", password="x", nonce="n").start(),
    "SCRAM-SHA-512": ScramClient(ScramMechanism.SHA_512, user="ann", password="x", nonce="n").start(),
    "OAUTHBEARER": OAuthBearerClient(unsecured_token("ann", issued_ms=0)).start(),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("logins"), overrides=SETTINGS) as running:
        yield running


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def logs_in(server: Server) -> None:
    """Log in as anybody would, and be served."""
    with connected(server) as client:
        client.sendall(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "good"))
        assert answer(client)
        client.sendall(encode_request(SaslAuthenticateRequest(auth_bytes=FIRST["PLAIN"]), 2, 2, "good"))
        assert answer(client)[8:10] == b"\0\0"
        client.sendall(
            encode_request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3, 3, "")
        )
        assert answer(client)


def answer(client: socket.socket) -> bytes:
    """Return an answer with its length; nothing where the broker hung up."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        try:
            more = client.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            return b""
        data += more
    return data


def told(server: Server, *frames: bytes) -> None:
    """Send frames and hear what there is to hear; then the broker has hung up, or waits for more until it does."""
    with connected(server) as client, suppress(OSError):  # the broker has hung up already
        for frame in frames:
            client.sendall(frame)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def tracebacks(server: Server) -> list[str]:
    return [line for line in server.lines if "Traceback" in line or "could not be handled" in line]


frames = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(lambda data: struct.pack(">i", len(data)) + data),
    st.tuples(st.integers(0, 2**32), st.sampled_from(MECHANISMS)).map(
        lambda drawn: mutate(Random(drawn[0]), encode_request(SaslHandshakeRequest(mechanism=drawn[1]), 1, 1, "c"))
    ),
    st.tuples(st.integers(0, 2**32), st.sampled_from(MECHANISMS)).map(
        lambda drawn: mutate(
            Random(drawn[0]), encode_request(SaslAuthenticateRequest(auth_bytes=FIRST[drawn[1]]), 2, 1, "c")
        )
    ),
)


def test_each_hostile_connection_costs_one_line(server: Server) -> None:
    """The first of this server's tests: later ones use up what a second may have of such lines."""
    at = len(server.lines)
    for number in range(20):
        told(server, struct.pack(">ihhih", 10, 3, 12, number, -1))
    logs_in(server)
    until(lambda: sum("before the login" in line for line in server.lines[at:]) == 20)
    assert len(server.lines) - at <= 21


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mechanism=st.sampled_from(MECHANISMS), version=st.sampled_from([0, 1]), after=st.lists(frames, max_size=4))
def test_anything_may_come_before_a_login(server: Server, mechanism: str, version: int, after: list[bytes]) -> None:
    told(server, encode_request(SaslHandshakeRequest(mechanism=mechanism), version, 1, "c"), *after)
    told(server, *after)
    assert server.process.poll() is None and not tracebacks(server)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mechanism=st.sampled_from(MECHANISMS), seed=st.integers(0, 2**32), more=st.binary(max_size=50))
def test_any_token_may_come_in_a_login(server: Server, mechanism: str, seed: int, more: bytes) -> None:
    token = mutate(Random(seed), b"\0\0\0\0" + FIRST[mechanism])[4:] + more
    told(
        server,
        encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "c"),
        encode_request(SaslAuthenticateRequest(auth_bytes=token), 2, 2, "c"),
        encode_request(SaslAuthenticateRequest(auth_bytes=more), 2, 3, "c"),
    )
    assert server.process.poll() is None and not tracebacks(server)


def test_frames_that_announce_much_and_connections_that_wait_cost_next_to_nothing(server: Server) -> None:
    """CVE-2022-34917: by declared sizes, counts and unknown tagged fields nobody may make a broker take memory."""
    logs_in(server)
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    hostile = [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 524_288) + b"\0\x11\0\1",
        struct.pack(">ihhih", 20, 17, 1, 1, -1) + struct.pack(">h", 32767),
        struct.pack(">ihhih", 40, 36, 2, 1, -1) + b"\0" + b"\xff\xff\xff\xff\x0f",  # a token of four gigabytes
        struct.pack(">ihhih", 40, 18, 3, 1, -1) + b"\xff\xff\xff\xff\x07",  # as many tagged fields
    ]
    held = []
    for number in range(600):
        client = connected(server)
        client.sendall(hostile[number % len(hostile)])
        held.append(client)
    assert process.memory_info().rss - before < 48 * MIB
    logs_in(server)
    for client in held:
        client.close()
    until(lambda: psutil.Process(server.process.pid).num_fds() < 200)
    assert not tracebacks(server)

"""Kafka's own SASL clients log in at our servers, and our clients at Kafka's, and both refuse the same."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.security.sasl import (
    AuthenticationError,
    ClientExchange,
    OAuthBearerClient,
    OAuthBearerServer,
    PlainClient,
    PlainServer,
    PlainUsers,
    ScramClient,
    ScramLogin,
    ScramServer,
    ServerExchange,
    UnsecuredValidator,
    unsecured_token,
)
from ottla.security.scram_credentials import ScramMechanism, credential_of
from tests import peer
from tests.processes import end

pytestmark = pytest.mark.peer

SOURCE = Path(peer.__file__).with_name("SaslSides.java")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "ann,=b", 'pässword, = "x"'
FAR_MS = 1 << 50
TOKEN = unsecured_token(USER, issued_ms=0, lifetime_ms=FAR_MS)


class Kafka:
    """One side of an exchange, in Java."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.complete = False
        self.user: str | None = None

    def begin(self, side: str, mechanism: str, *, password: str = PASSWORD, by_token: bool = False) -> bytes | None:
        secret = password if mechanism != "OAUTHBEARER" else TOKEN if password == PASSWORD else "not.a.token"
        begun = {"side": side, "mechanism": mechanism, "user": USER, "password": secret, "by_token": by_token}
        self.complete, self.user = False, None
        return self._ask(begun)

    def respond(self, token: bytes) -> bytes | None:
        return self._ask({"token": b64encode(token).decode()})

    def _ask(self, asked: dict[str, Any]) -> bytes | None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise AuthenticationError(answer["error"])
        self.complete, self.user = answer["complete"], answer.get("user")
        return None if answer["token"] is None else b64decode(answer["token"])


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += peer.program(SOURCE)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        yield Kafka(process)
    finally:
        end(process, 10)


def our_server(mechanism: str, *, by_token: bool = False) -> ServerExchange:
    if mechanism == "PLAIN":
        return PlainServer(PlainUsers({USER: PASSWORD}).accepts)
    if mechanism == "OAUTHBEARER":
        return OAuthBearerServer(UnsecuredValidator(lambda: 1))
    scram = ScramMechanism.of_name(mechanism)
    assert scram is not None
    credential = credential_of(scram, PASSWORD, salt=b"salt" * 6, iterations=4096)
    login = ScramLogin(credential, "owner-of-" + USER if by_token else USER)
    known = {(USER, by_token): login}
    return ScramServer(scram, lambda *asked: known.get(asked), nonce="s3cr3tn0nce", decoy_key=b"k")


def our_client(mechanism: str, *, password: str = PASSWORD, by_token: bool = False) -> ClientExchange:
    if mechanism == "PLAIN":
        return PlainClient(USER, password)
    if mechanism == "OAUTHBEARER":
        return OAuthBearerClient(TOKEN if password == PASSWORD else "not.a.token", {"logicalCluster": "lkc-1"})
    scram = ScramMechanism.of_name(mechanism)
    assert scram is not None
    return ScramClient(scram, user=USER, password=password, nonce="cl13nt", by_token=by_token)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_client_logs_in_at_our_server(kafka: Kafka, mechanism: str) -> None:
    server = our_server(mechanism)
    token = kafka.begin("client", mechanism)
    while not (kafka.complete and server.logged_in):
        assert token is not None
        token = kafka.respond(server.respond(token)) if not kafka.complete else kafka_is_done(server, token)
    assert server.logged_in.user == USER


def kafka_is_done(server: ServerExchange, token: bytes) -> bytes | None:
    """PLAIN of the JDK is complete when it has sent its message."""
    assert server.respond(token) == b""
    return None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_logs_in_at_kafkas_server(kafka: Kafka, mechanism: str) -> None:
    client = our_client(mechanism)
    kafka.begin("server", mechanism)
    token: bytes | None = client.start()
    while token is not None:
        challenge = kafka.respond(token)
        token = client.respond(challenge or b"")
    assert client.complete and kafka.complete and kafka.user == USER


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_client_with_a_wrong_password_is_refused(kafka: Kafka, mechanism: str) -> None:
    server = our_server(mechanism)
    token = kafka.begin("client", mechanism, password="wrong")
    with pytest.raises(AuthenticationError):
        for _ in range(3):
            assert token is not None
            token = kafka.respond(server.respond(token))
    assert server.logged_in is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_with_a_wrong_password_is_refused_by_kafka(kafka: Kafka, mechanism: str) -> None:
    client = our_client(mechanism, password="wrong")
    kafka.begin("server", mechanism)
    token: bytes | None = client.start()
    with pytest.raises(AuthenticationError):
        while token is not None:
            token = client.respond(kafka.respond(token) or b"")
    assert not client.complete


@pytest.mark.parametrize("mechanism", MECHANISMS[1:3])
def test_delegation_tokens_log_in_between_ours_and_kafkas(kafka: Kafka, mechanism: str) -> None:
    server = our_server(mechanism, by_token=True)
    token = kafka.begin("client", mechanism, by_token=True)
    while not kafka.complete:
        assert token is not None
        token = kafka.respond(server.respond(token))
    assert server.logged_in is not None and server.logged_in.token_authenticated
    assert server.logged_in.user == "owner-of-" + USER
    client = our_client(mechanism, by_token=True)
    kafka.begin("server", mechanism, by_token=True)
    sent: bytes | None = client.start()
    while sent is not None:
        sent = client.respond(kafka.respond(sent) or b"")
    assert client.complete and kafka.user == "owner-of-" + USER


HOSTILE = {
    "PLAIN": [
        b"",
        b"a",
        b"a\0b",
        b"\0a\0b\0c",
        b"\0\0x",
        b"\0x\0",
        b"\0ann,=b\0wrong",
        b"other\0ann,=b\0" + PASSWORD.encode(),
    ],
    "SCRAM-SHA-256": [
        b"",
        b"n,,",
        b"y,,n=a,r=x",
        b"p=tls-unique,,n=a,r=x",
        b"n,,r=x,n=a",
        b"n,,n=,r=x",
        b"n,,n=a,r=",
        b"n,,n=a=b,r=x",
        b"n,,n=a,r=\xc3\xa9",
        b"n,,n=a,r=x,y",
        b"n,a=,n=a,r=x",
        b"n,b=a,n=a,r=x",
        b"n,a=bob,n=ann=2C=3Db,r=x",
    ],
    "OAUTHBEARER": [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01x1=y\x01auth=Bearer a\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,x,\x01auth=Bearer a\x01\x01",
        b"n,a=bob,\x01auth=Bearer " + TOKEN.encode() + b"\x01\x01",
    ],
}


@pytest.mark.parametrize(("mechanism", "token"), [(each, token) for each in HOSTILE for token in HOSTILE[each]])
def test_what_kafka_refuses_in_the_first_message_is_refused(kafka: Kafka, mechanism: str, token: bytes) -> None:
    kafka.begin("server", mechanism)
    with pytest.raises(AuthenticationError) as theirs:
        kafka.respond(token)
    with pytest.raises(AuthenticationError) as ours:
        our_server(mechanism).respond(token)
    assert ours.value.message == theirs.value.message or "due to invalid credentials" in ours.value.message

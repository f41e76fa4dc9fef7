"""Kerberos with a real KDC: clients of Java, C and Python log in to Ottla by GSSAPI, ours to it and to Kafka, brokers to
each other; whoever has no good ticket is refused, and nothing more happens.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka import KafkaProducer

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.base import TopicPartition as Place
from ottla.cli.main import main
from ottla.client import BlockingClient, Client, NewTopic, client_network, create_topics
from ottla.wire import APIS, encode_request, read_response
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests import kdc as kerberos
from tests import peer
from tests.broker.node_client import batch
from tests.cluster.nodes import LoopbackCluster
from tests.kdc import REALM, Kdc
from tests.ports import free_port
from tests.server import Server, running_server, start_server
from tests.waiting import until

gssapi = pytest.importorskip("gssapi", reason="gssapi is not installed: pip install '.[kerberos]'")

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(kerberos.missing() is not None, reason=kerberos.missing() or ""),
]
Tool = Callable[..., "subprocess.CompletedProcess[str]"]
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
RULES = f"RULE:[2:$1@$0](kafka@{REALM})s/.*/broker/,RULE:[2:$1-$2](svc-.*)/U,DEFAULT"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A realm of its own, which this process's Kerberos asks, too."""
    with kerberos.running_kdc(tmp_path_factory.mktemp("kdc")) as found, pytest.MonkeyPatch.context() as patched:
        for name, value in found.environment.items():
            patched.setenv(name, value)
        yield found


def by_keytab(principal: str, keytab: Path) -> str:
    """Return a JAAS entry."""
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


def listener(kdc: Kdc, keytab: Path, *more: str) -> list[str]:
    """Return the settings of a broker whose clients, and which itself, log in by GSSAPI."""
    return [
        "listeners=SASL_PLAINTEXT://localhost:0",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=GSSAPI",
        "sasl.mechanism.inter.broker.protocol=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        f"listener.name.sasl_plaintext.gssapi.sasl.jaas.config={by_keytab(f'kafka/localhost@{REALM}', keytab)}",
        f"sasl.kerberos.principal.to.local.rules={RULES}",
        "connection.failed.authentication.delay.ms=0",
        *more,
    ]


@dataclass(frozen=True)
class Realm:
    """A realm with a broker in it, and whose keytabs there are."""

    kdc: Kdc
    server: Server
    ann: Path

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def properties(self, jaas: str, **more: str) -> dict[str, str]:
        """Return a client's properties."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": jaas,
            **more,
        }


@pytest.fixture(scope="module")
def realm(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A broker that takes tickets."""
    keytab = kdc.keytab(f"kafka/localhost@{REALM}")
    ann = kdc.keytab(f"ann@{REALM}")
    settings = listener(kdc, keytab, "connections.max.reauth.ms=3000")
    with running_server(tmp_path_factory.mktemp("ottla"), overrides=settings) as server:
        yield Realm(kdc, server, ann)


@pytest.fixture
def ticket(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ann's ticket where Kerberos looks for one by itself."""
    cache = realm.kdc.ticket(f"ann@{REALM}", realm.ann)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    return cache


@pytest.fixture(scope="module")
def others(realm: Realm) -> dict[str, Path]:
    """Keytabs of more principals."""
    names = {"svc-a": f"team/svc-a@{REALM}", "shell": f"kafka/other@{REALM}", "odd": f"a/b/c@{REALM}"}
    return {short: realm.kdc.keytab(name) for short, name in names.items()}


@pytest.fixture
def jvm(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    """Java's tools in this realm."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={realm.kdc.conf}")
    with peer.one_jvm() as found:
        yield found


def connected(bootstrap: str, properties: dict[str, str]) -> BlockingClient:
    return BlockingClient(bootstrap, network=client_network(properties))


def who(realm: Realm, properties: dict[str, str]) -> None:
    """Ask as somebody; raises KafkaError where the login fails."""
    with connected(realm.bootstrap, properties) as client:
        assert client.metadata([]).nodes


def test_our_client_logs_in_with_a_keytab_and_with_a_ticket_cache(realm: Realm, ticket: Path) -> None:
    for jaas in (
        by_keytab(f"ann@{REALM}", realm.ann),
        by_keytab("ann", realm.ann),
        f'{MODULE} required useTicketCache=true ticketCache="{ticket}";',
        f"{MODULE} required useTicketCache=true;",
        f'{MODULE} required useTicketCache=true ticketCache="/nowhere" useKeyTab=true keyTab="{realm.ann}" principal=ann;',
    ):
        who(realm, realm.properties(jaas))


def test_the_command_line_logs_in(realm: Realm, topic: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    properties = realm.properties(by_keytab(f"ann@{REALM}", realm.ann))
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    at = ["--bootstrap-server", realm.bootstrap, "--command-config", str(path)]
    assert main(["topics", *at, "--create", "--topic", topic]) == 0
    assert main(["topics", *at, "--list"]) == 0
    assert topic in capfd.readouterr().out
    at = ["--bootstrap-server", realm.bootstrap, "--topic", topic, "--command-config", str(path)]
    assert main(["console-consumer", *at, "--timeout-ms", "500"]) == 0
    for command in (["console-producer"], ["console-consumer", "--group", "g"]):
        assert main([*command, *at]) == 1
        assert "librdkafka, which console producers" in capfd.readouterr().err


@pytest.mark.peer
@pytest.mark.slow
def test_java_writes_and_reads(realm: Realm, jvm: Tool, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    properties = realm.properties(by_keytab(f"ann@{REALM}", realm.ann))
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    at = ("--bootstrap-server", realm.bootstrap, "--command-config", str(path))
    done = jvm("topics", *at, "--create", "--topic", topic)
    assert done.returncode == 0, done.stdout + done.stderr
    written = ("--num-records", "500", "--record-size", "100", "--throughput", "100")  # longer than a login
    done = jvm("producer-perf", "--topic", topic, *written, *at)
    assert "500 records sent" in done.stdout, done.stdout + done.stderr
    assert jvm("get-offsets", *at, "--topic", topic).stdout.strip() == f"{topic}:0:500"
    assert "was not renewed" not in "".join(realm.server.lines)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_librdkafka_writes_and_reads(realm: Realm, topic: str, tmp_path: Path) -> None:
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"ann@{REALM}",
        "sasl.kerberos.keytab": str(realm.ann),
    }
    command = ["kcat", "-b", realm.bootstrap, "-t", topic]
    for key, value in options.items():
        command += ["-X", f"{key}={value}"]
    own = os.environ | {"KRB5CCNAME": f"FILE:{tmp_path}/cache"}
    for args, typed in ((["-P"], "a\nb\n"), (["-C", "-e", "-q"], "")):
        done = subprocess.run([*command, *args], input=typed, env=own, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "a\nb\n"


def test_clients_in_python_write_and_read(realm: Realm, ticket: Path, topic: str) -> None:
    settings = {
        "bootstrap_servers": realm.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    producer = KafkaProducer(**settings)
    producer.send(topic, b"value").get(30)
    producer.close(30)

    async def test() -> None:
        name = {"sasl_kerberos_domain_name": "localhost"}
        async with AIOKafkaConsumer(**settings, **name, group_id=None) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            assert (await consumer.getone()).value == b"value"

    asyncio.run(asyncio.wait_for(test(), 60))


class Raw:
    """A connection that sends what tokens a test wants."""

    def __init__(self, realm: Realm, version: int = 1) -> None:
        """Version 0 of the handshake has bare tokens come after it."""
        host, _, port = realm.bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        assert self._asked(SaslHandshakeRequest(mechanism="GSSAPI"), version).error_code == 0

    def _asked(self, message: Any, version: int) -> Any:
        self._socket.sendall(encode_request(message, version, 1, "raw"))
        size = int.from_bytes(self._read(4), "big")
        spec = APIS[message.API_KEY]
        return read_response(spec.response, self._read(size), spec.key, version)[1]

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    def send(self, token: bytes) -> Any:
        """Return the answer to a token."""
        return self._asked(SaslAuthenticateRequest(auth_bytes=token), 2)

    def send_bare(self, token: bytes) -> bytes:
        """Return the server's token for a client's, both without a request around them."""
        self._socket.sendall(len(token).to_bytes(4, "big") + token)
        return self._read(int.from_bytes(self._read(4), "big"))

    def has_ended(self) -> bool:
        """Ask for something: True where the connection ends instead."""
        try:
            self._asked(ApiVersionsRequest(), 0)
        except (EOFError, OSError):
            return True
        return False

    def is_closed(self) -> bool:
        return self._socket.recv(1) == b""

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def context(service: str = "kafka@localhost", **more: Any) -> gssapi.SecurityContext:
    """Return ann's context of Kerberos' library, as a client has it."""
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    flags = [gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity]
    return gssapi.SecurityContext(name=name, usage="initiate", **{"flags": flags, **more})


def established(raw: Raw) -> gssapi.SecurityContext:
    """Go as far as the server's offer, and return the context."""
    found = context()
    answer = raw.send(found.step(None))
    found.step(bytes(answer.auth_bytes))
    assert found.unwrap(bytes(raw.send(b"").auth_bytes)).message == b"\1\0\0\0"
    return found


def test_after_a_handshake_of_version_0_tokens_are_bare(realm: Realm, ticket: Path) -> None:
    with Raw(realm, 0) as raw:
        found = context()
        found.step(raw.send_bare(found.step(None)))
        assert found.unwrap(raw.send_bare(b"")).message == b"\1\0\0\0"
        assert raw.send_bare(found.wrap(b"\1\0\0\0", False).message) == b""
        assert not raw.has_ended()
    with Raw(realm, 0) as raw, pytest.raises(EOFError):
        raw.send_bare(b"garbage")


def check_refused(raw: Raw, answer: Any) -> None:
    """Check that an answer refuses, tells nothing of why, and that the connection is over."""
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )
    assert not answer.auth_bytes and raw.is_closed()


def counted(realm: Realm, what: str) -> int:
    return sum("Closing the connection" in line and what in line for line in realm.server.lines)


def flipped(token: bytes) -> bytes:
    return token[:-1] + bytes([token[-1] ^ 1])


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (lambda _: b"", "empty token"),
        (lambda _: b"garbage", "Invalid token"),
        (lambda token: token[: len(token) // 2], "failure"),
        (flipped, "integrity"),
        (lambda token: token + bytes(129 * 1024), "more than 131072"),
        (lambda _: b"\x60\x82\xff\xff" + bytes(1000), "token"),
        (lambda _: bytes(context(mech=gssapi.OID.from_int_seq("1.3.6.1.5.5.2")).step(None)), "redentials"),
        (lambda _: bytes(context("team@svc-a").step(None)), "ticket"),
    ],
    ids=["empty", "garbage", "cut", "changed", "oversized", "lies about its size", "SPNEGO", "for another service"],
)
def test_a_token_that_is_none_is_refused(
    realm: Realm, ticket: Path, others: dict[str, Path], token: Callable[[bytes], bytes], says: str
) -> None:
    before = counted(realm, says)
    with Raw(realm) as raw:
        check_refused(raw, raw.send(token(bytes(context().step(None)))))
    until(lambda: counted(realm, says) == before + 1, lambda: realm.server.lines[-3:], seconds=10)


def test_a_token_that_was_sent_before_is_refused(realm: Realm, ticket: Path) -> None:
    token = bytes(context().step(None))
    with Raw(realm) as first, Raw(realm) as second:
        assert first.send(token).error_code == 0
        check_refused(second, second.send(token))
    until(lambda: counted(realm, "replay"))


@pytest.mark.parametrize("layer", [0, 2, 3, 4, 7])
def test_a_security_layer_other_than_none_is_refused(realm: Realm, ticket: Path, layer: int) -> None:
    with Raw(realm) as raw:
        found = established(raw)
        check_refused(raw, raw.send(found.wrap(bytes((layer, 0, 16, 0)), False).message))


@pytest.mark.parametrize("choice", [b"", b"\1\0\0", b"\1\0\0\0\xff\xff", b"\1\0\0\0" + b"a" * 5000])
def test_a_choice_that_is_none_is_refused(realm: Realm, ticket: Path, choice: bytes) -> None:
    with Raw(realm) as raw:
        check_refused(raw, raw.send(established(raw).wrap(choice, False).message))


def test_a_choice_that_is_not_signed_is_refused(realm: Realm, ticket: Path) -> None:
    with Raw(realm) as raw:
        established(raw)
        check_refused(raw, raw.send(b"\1\0\0\0"))
    with Raw(realm) as raw:
        signed = established(raw).wrap(b"\1\0\0\0", False).message
        check_refused(raw, raw.send(flipped(bytes(signed))))


@pytest.mark.parametrize(
    ("authzid", "is_taken"),
    [
        ("", True),
        ("ann", True),
        (f"ann@{REALM}", True),
        ("kafka@localhost", True),
        ("bob", False),
        (f"bob@{REALM}", False),
        ("broker", False),
        ("kafka", False),
    ],
)
def test_nobody_becomes_another_by_an_authorization_id(
    realm: Realm, ticket: Path, authzid: str, is_taken: bool
) -> None:
    with Raw(realm) as raw:
        answer = raw.send(established(raw).wrap(b"\1\0\0\0" + authzid.encode(), False).message)
        if is_taken:
            assert answer.error_code == 0 and answer.session_lifetime_ms > 0
        else:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "authorization id" in answer.error_message and authzid not in answer.error_message


def test_a_login_of_many_tokens_comes_to_an_end(realm: Realm, ticket: Path) -> None:
    with Raw(realm) as raw:
        found = established(raw)
        for _ in range(20):
            answer = raw.send(found.wrap(b"\1\0\0\0x", False).message)
            if answer.error_code:
                break
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_keytab_that_takes_its_time_to_be_read_holds_nobody_else_up(realm: Realm, tmp_path: Path) -> None:
    slow = tmp_path / "slow.keytab"
    os.mkfifo(slow)
    name = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    wanted = AlterableConfig(name=name, config_operation=0, value=by_keytab(f"kafka/localhost@{REALM}", slow))
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[wanted])]
    )

    async def test() -> None:
        properties = realm.properties(by_keytab(f"ann@{REALM}", realm.ann))
        async with (
            Client(realm.bootstrap, network=client_network(properties)) as altering,
            Client(realm.bootstrap, network=client_network(properties)) as other,
        ):
            assert (await other.metadata([])).nodes
            change = asyncio.create_task(altering.request(request, node=NodeId(1)))
            with await asyncio.to_thread(slow.open, "wb"):  # opens once the broker does
                async with asyncio.timeout(10):
                    assert (await other.metadata([])).nodes
                assert not change.done()
            (answer,) = (await change).responses
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "the keytab cannot be used" in answer.error_message

    asyncio.run(test())


def test_who_has_no_rule_is_refused_and_who_has_one_is_whom_it_says(realm: Realm, others: dict[str, Path]) -> None:
    with pytest.raises(KafkaError) as found:
        who(realm, realm.properties(by_keytab(f"a/b/c@{REALM}", others["odd"])))
    assert found.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED and "rule" not in found.value.message
    until(lambda: counted(realm, f"a/b/c@{REALM}"))
    who(realm, realm.properties(by_keytab(f"team/svc-a@{REALM}", others["svc-a"])))


def test_a_login_without_a_ticket_says_what_is_missing(realm: Realm, tmp_path: Path, monkeypatch: Any) -> None:
    realm.kdc.keytab(f"gone@{REALM}")
    realm.kdc.run("kadmin.local", "-r", REALM, "-q", f"delprinc -force gone@{REALM}")
    gone = realm.kdc.folder / f"gone@{REALM}.keytab"
    cases = [
        (by_keytab(f"ann@{REALM}", tmp_path / "none.keytab"), {}, "not found"),
        (by_keytab(f"bob@{REALM}", realm.ann), {}, f"No key table entry found for bob@{REALM}"),
        (by_keytab(f"gone@{REALM}", gone), {}, f"'gone@{REALM}' not found in Kerberos database"),
        (by_keytab("ann@ELSEWHERE.TEST", realm.ann), {}, "No key table entry"),
        (f'{MODULE} required useTicketCache=true ticketCache="{tmp_path}/none";', {}, "No credentials cache found"),
        (
            by_keytab(f"ann@{REALM}", realm.ann),
            {"sasl.kerberos.service.name": "kavka"},
            "no ticket for kavka/localhost: Server kavka/localhost@OTTLA.TEST not found in Kerberos database",
        ),
    ]
    for jaas, more, says in cases:
        with pytest.raises(KafkaError) as found:
            who(realm, realm.properties(jaas, **more))
        assert found.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert says in found.value.message, found.value.message


def test_a_ticket_of_another_realm_is_refused(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kerberos.running_kdc(tmp_path / "other", "OTHER.TEST") as other:
        other.keytab("kafka/localhost@OTHER.TEST")
        cache = other.ticket("ann@OTHER.TEST", other.keytab("ann@OTHER.TEST"))
        for name, value in {**other.environment, "KRB5CCNAME": f"FILE:{cache}"}.items():
            monkeypatch.setenv(name, value)
        with Raw(realm) as raw:
            check_refused(raw, raw.send(bytes(context().step(None))))
    until(lambda: counted(realm, "OTHER.TEST"))


def test_where_no_kdc_answers_the_client_says_so_and_may_try_again(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keytab = shutil.copy(realm.ann, tmp_path / "ann.keytab")  # by another name: no ticket of another test serves
    monkeypatch.setenv("KRB5_CONFIG", str(realm.kdc.write_conf("nobody.conf", port=free_port())))
    with pytest.raises(KafkaError, match="Cannot contact any KDC") as found:
        who(realm, realm.properties(by_keytab(f"ann@{REALM}", keytab)))
    assert found.value.code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize(("principal", "says"), [("kafka/localhost", "not found"), ("kafka/elsewhere", "No key table")])
def test_a_keytab_that_cannot_be_used_keeps_the_broker_from_starting(
    realm: Realm, tmp_path: Path, principal: str, says: str
) -> None:
    keytab = tmp_path / "none" if says == "not found" else realm.ann
    entry = f"listener.name.sasl_plaintext.gssapi.sasl.jaas.config={by_keytab(f'{principal}@{REALM}', keytab)}"
    with pytest.raises(AssertionError, match=f"the keytab cannot be used: .*{says}"):
        start_server(tmp_path, overrides=[*listener(realm.kdc, keytab), entry])


@pytest.mark.slow
def test_a_ticket_that_has_ended_logs_nobody_in_and_a_login_ends_with_its_ticket(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.kdc.write_conf("strict.conf", clockskew=2)))
    cache = realm.kdc.ticket(f"ann@{REALM}", realm.ann, "-l", "4s")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    keytab = realm.kdc.folder / f"kafka-localhost@{REALM}.keytab"
    with running_server(tmp_path, overrides=listener(realm.kdc, keytab)) as server:
        brief = Realm(realm.kdc, server, realm.ann)
        with Raw(brief) as raw:
            answer = raw.send(established(raw).wrap(b"\1\0\0\0", False).message)
            assert 0 < answer.session_lifetime_ms <= 6000
            token = bytes(context().step(None))
            until(lambda: raw.has_ended())
        until(lambda: counted(brief, "was not renewed"))
        with Raw(brief) as raw:
            check_refused(raw, raw.send(token))
        with pytest.raises(KafkaError, match="has ended: run kinit") as found:
            who(brief, brief.properties(f'{MODULE} required useTicketCache=true ticketCache="{cache}";'))
        assert found.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.slow
def test_a_client_has_new_tickets_before_the_old_ones_end(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.kdc.write_conf("strict.conf", clockskew=2)))
    brief = realm.kdc.keytab(f"brief@{REALM}", life="6sec")
    keytab = realm.kdc.folder / f"kafka-localhost@{REALM}.keytab"
    settings = listener(realm.kdc, keytab, "connections.max.reauth.ms=2500")
    with running_server(tmp_path, overrides=settings) as server:
        found = Realm(realm.kdc, server, brief)
        begun = realm.kdc.issued(f"brief@{REALM}")
        with connected(server.bootstrap, found.properties(by_keytab(f"brief@{REALM}", brief))) as client:
            until(lambda: client.metadata([]).nodes and realm.kdc.issued(f"brief@{REALM}") >= begun + 4, every=0.1)
        assert not counted(found, "")


@pytest.mark.peer
@pytest.mark.slow
def test_our_client_logs_in_to_kafka(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={realm.kdc.conf}")
    keytab = realm.kdc.folder / f"kafka-localhost@{REALM}.keytab"
    port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://localhost:{port + 1}"
    overrides = [
        f"listeners={listeners},CONTROLLER://127.0.0.1:{port + peer.CONTROLLER_PORT_AFTER}",
        f"advertised.listeners={listeners}",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        "connections.max.reauth.ms=2000",
        f"listener.name.sasl_plaintext.gssapi.sasl.jaas.config={by_keytab(f'kafka/localhost@{REALM}', keytab)}",
    ]
    with peer.running_broker(tmp_path, port, overrides=overrides):
        properties = realm.properties(by_keytab(f"ann@{REALM}", realm.ann))
        with connected(f"localhost:{port + 1}", properties) as client:
            end = time.monotonic() + 4  # two logins' time
            until(lambda: client.metadata([]).nodes and time.monotonic() > end, every=0.1)
        realm.kdc.keytab(f"kavka/localhost@{REALM}")
        with (
            pytest.raises(KafkaError) as found,
            connected(f"localhost:{port + 1}", properties | {"sasl.kerberos.service.name": "kavka"}) as client,
        ):
            client.metadata([])
        assert found.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_nodes_log_in_to_each_other_and_to_controllers(kdc: Kdc, tmp_path: Path) -> None:
    keytab = kdc.keytab(f"kafka/127.0.0.1@{REALM}")
    entry = by_keytab(f"kafka/127.0.0.1@{REALM}", keytab)
    settings = [
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        "sasl.kerberos.principal.to.local.rules=RULE:[2:$1](kafka),DEFAULT",
        f"listener.name.plaintext.gssapi.sasl.jaas.config={entry}",
        f"listener.name.controller.gssapi.sasl.jaas.config={entry}",
        "min.insync.replicas=2",
    ]
    cluster = LoopbackCluster(tmp_path, settings)

    async def test(cluster: LoopbackCluster) -> None:
        cluster.static(2)
        await cluster.start()
        bootstrap = ",".join(cluster.client_address(each) for each in cluster.hosts)
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": entry.replace(";", " serviceName=kafka;"),
        }
        async with Client(bootstrap, network=client_network(properties)) as client:
            await create_topics(client, [NewTopic("t", 1, 2)])
            await client.produce({Place("t", 0): batch(b"on both nodes")})

    cluster.run(test)

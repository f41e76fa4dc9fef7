"""Our own client logs in with access tokens: of a file, and of an issuer that it asks with its secret."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
from joserfc import jwk, jwt

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.broker import Node
from ottla.broker.requests.links import Links
from ottla.client import Client, ClientSecurity, Limits, SecuredNetwork, client_network, librdkafka_security
from ottla.config import BrokerConfig
from ottla.net import TcpNetwork
from ottla.security.sasl import ClientExchange
from ottla.security.tls import Tls
from ottla.security.tls_settings import TlsSettings
from tests.broker.node_client import run
from tests.broker.test_oauthbearer import KEY, NEXT, RULES, publish, started, token
from tests.security.authority import authority, signed

CA = authority()
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={}"


BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
JWT = "urn:ietf:params:oauth:{}:jwt-bearer"


class Issuer(BaseHTTPRequestHandler):
    """Gives a token to whoever knows the secret or shows an assertion, and counts."""

    asked: ClassVar[list[dict[str, list[str]]]] = []

    def do_POST(self) -> None:
        known = base64.b64encode(b"app:never-shown").decode()
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        Issuer.asked.append(form)
        asserts = "assertion" in form or "client_assertion" in form
        is_known = self.headers["Authorization"] == (None if asserts else f"Basic {known}")
        body = json.dumps({"access_token": token()}).encode() if is_known else b"{}"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def issuer() -> Iterator[str]:
    identity = signed(CA, "issuer")
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
    }
    Issuer.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        server.socket = Tls(TlsSettings.of(keys), server=True).context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


def properties(url: str, **options: str) -> dict[str, str]:
    written = "".join(f' {key.replace("_", ".")}="{value}"' for key, value in options.items())
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": f"{MODULE} required{written};",
    }


async def run_client(node: Node, given: dict[str, str], connections: int = 1) -> None:
    """Log in so many times with one token's owner."""
    network = client_network(given)
    for _ in range(connections):
        limits = Limits(connect_s=30, unreachable_s=0)
        async with Client(f"127.0.0.1:{node.listeners[0].port}", limits=limits, network=network) as client:
            assert (await client.metadata()).nodes


async def node_at(folder: Path) -> Node:
    url = publish(folder / "keys.json", KEY)
    return await started(folder / "data", *RULES, f"sasl.oauthbearer.jwks.endpoint.url={url}", allowed=url)


def test_a_token_of_a_file_is_a_login_and_one_that_is_not_of_the_issuer_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv("KAFKA_OPTS", ALLOWED.format(f"file://{path}"))

    async def test() -> None:
        node = await node_at(tmp_path)
        try:
            path.write_text(token() + "\n")
            await run_client(node, properties(f"file://{path}"))
            path.write_text(token(NEXT))
            with pytest.raises(KafkaError, match="invalid_token") as caught:
                await run_client(node, properties(f"file://{path}"))
            assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        finally:
            await node.stop()

    run(test)


def test_an_issuer_is_asked_once_for_many_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: str
) -> None:
    trusted = tmp_path / "issuer.pem"
    trusted.write_text(CA.chain_pem())
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(trusted)}
    monkeypatch.setenv("KAFKA_OPTS", ALLOWED.format(issuer))

    async def test() -> None:
        node = await node_at(tmp_path)
        try:
            right = properties(issuer, clientId="app", clientSecret="never-shown", scope="logs", **trust)
            await run_client(node, right, connections=3)
            assert Issuer.asked == [{"grant_type": ["client_credentials"], "scope": ["logs"]}]
            with pytest.raises(KafkaError, match="401") as caught:
                await run_client(node, properties(issuer, clientId="app", clientSecret="mistaken", **trust))
            assert "mistaken" not in str(caught.value)
        finally:
            await node.stop()

    run(test)


def signing_key(folder: Path, algorithm: str, passphrase: str | None) -> tuple[Path, jwk.Key]:
    """Write a private key as a client has it, and return the key that an issuer knows."""
    made: Any = jwk.RSAKey.generate_key(2048) if algorithm == "RS256" else jwk.ECKey.generate_key("P-256")
    path = folder / "key.pem"
    path.write_bytes(made.as_pem(private=True, password=passphrase))
    return path, made


@pytest.mark.parametrize(("algorithm", "passphrase"), [("RS256", None), ("ES256", "opens-it")])
@pytest.mark.parametrize("retriever", ["", BEARER])
def test_an_issuer_is_asked_with_what_the_client_has_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: str, algorithm: str, passphrase: str | None, retriever: str
) -> None:
    path, key = signing_key(tmp_path, algorithm, passphrase)
    trusted, template = tmp_path / "issuer.pem", tmp_path / "template.json"
    trusted.write_text(CA.chain_pem())
    template.write_text(json.dumps({"header": {"kid": "mine", "alg": "none"}, "payload": {"tenant": "acme", "exp": 1}}))
    files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={path},{template}"
    monkeypatch.setenv("KAFKA_OPTS", f"{ALLOWED.format(issuer)} {files}")
    given = properties(issuer, scope="logs", ssl_truststore_type="PEM", ssl_truststore_location=str(trusted)) | {
        f"sasl.oauthbearer.assertion.{name}": value
        for name, value in {
            "algorithm": algorithm,
            "private.key.file": str(path),
            "claim.iss": "me",
            "claim.aud": "you",
            "claim.jti.include": "true",
            "template.file": str(template),
            **({"private.key.passphrase": passphrase} if passphrase else {}),
        }.items()
    }
    given |= {RETRIEVER: retriever} if retriever else {"sasl.oauthbearer.client.credentials.client.id": "app"}

    async def test() -> None:
        node = await node_at(tmp_path)
        try:
            await run_client(node, given, connections=2)
        finally:
            await node.stop()

    run(test)
    (form,) = Issuer.asked
    if retriever:
        (assertion,) = form.pop("assertion")
        assert form == {"grant_type": [JWT.format("grant-type")], "scope": ["logs"]}
    else:
        (assertion,) = form.pop("client_assertion")
        assert form.pop("client_assertion_type") == [JWT.format("client-assertion-type")]
        assert form == {"grant_type": ["client_credentials"], "client_id": ["app"], "scope": ["logs"]}
    found = jwt.decode(assertion, key, algorithms=[algorithm])
    assert found.header == {"kid": "mine", "alg": algorithm, "typ": "JWT"}
    assert {name: found.claims[name] for name in ("iss", "aud", "tenant")} == {
        "iss": "me",
        "aud": "you",
        "tenant": "acme",
    }
    assert found.claims["exp"] - found.claims["iat"] == 300 and found.claims["iat"] - found.claims["nbf"] == 60
    assert found.claims["jti"]


def test_an_assertion_may_be_what_a_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: str) -> None:
    path, trusted = tmp_path / "assertion", tmp_path / "issuer.pem"
    path.write_text("aa.bb.cc\n")
    trusted.write_text(CA.chain_pem())
    files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={path}"
    monkeypatch.setenv("KAFKA_OPTS", f"{ALLOWED.format(issuer)} {files}")
    given = properties(issuer, ssl_truststore_type="PEM", ssl_truststore_location=str(trusted))
    given |= {RETRIEVER: BEARER, "sasl.oauthbearer.assertion.file": str(path)}

    async def test() -> None:
        node = await node_at(tmp_path)
        try:
            await run_client(node, given)
        finally:
            await node.stop()

    run(test)
    assert Issuer.asked == [{"grant_type": [JWT.format("grant-type")], "assertion": ["aa.bb.cc"]}]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "private.key.file is not set"),
        ({"private.key.file": "/etc/passwd"}, "allowed.files"),
        ({"file": "/etc/passwd"}, "allowed.files"),
        ({"private.key.file": "KEY", "template.file": "/etc/passwd"}, "allowed.files"),
        ({"private.key.file": "KEY", "algorithm": "HS256"}, "algorithm"),
        ({"private.key.file": "KEY", "algorithm": "ES256"}, "its key is not one for ES256"),
        ({"private.key.file": "KEY", "private.key.passphrase": "never-shown"}, "no private key in PEM"),
        ({"private.key.file": "KEY", "claim.exp.seconds": "-1"}, "claim.exp.seconds"),
        ({"private.key.file": "KEY", "template.file": "KEY"}, "a file of JSON"),
    ],
)
def test_what_cannot_be_signed_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], words: str
) -> None:
    path, _ = signing_key(tmp_path, "RS256", None)
    files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={path}"
    monkeypatch.setenv("KAFKA_OPTS", f"{ALLOWED.format('https://known/token')} {files}")
    given = {f"sasl.oauthbearer.assertion.{name}": value.replace("KEY", str(path)) for name, value in more.items()}
    with pytest.raises(ConfigError) as caught:
        ClientSecurity.of(properties("https://known/token") | {RETRIEVER: BEARER} | given)
    assert (
        words in str(caught.value) and "never-shown" not in str(caught.value) and "PRIVATE KEY" not in str(caught.value)
    )


def test_librdkafka_is_given_tokens_and_no_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv("KAFKA_OPTS", ALLOWED.format(f"file://{path}"))
    given = properties(f"file://{path}") | {"sasl.jaas.config": f'{MODULE} required extension_tenant="acme";'}
    nan = "a." + base64.urlsafe_b64encode(b'{"exp": NaN}').decode() + ".c"
    for useless in ("no-token", token(exp=1), nan):
        path.write_text(useless)
        with pytest.raises(KafkaError, match="has ended, or does not say when"):
            librdkafka_security(given)
    path.write_text(first := token())
    give = librdkafka_security(given)["oauth_cb"]
    path.write_text(second := token(exp=4_000_000_000))
    text, ends_s, principal, extensions = give("")
    assert (text, principal, extensions) == (first, "", {"tenant": "acme"}) and ends_s < 4_000_000_000
    assert give("")[:2] == (second, 4_000_000_000)
    path.unlink()
    text, ends_s, *_ = give("")
    assert text == second and ends_s < 4_000_000_000, "it asks again soon"
    assert "no new access token" in caplog.text and second not in caplog.text


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("", {}, "token.endpoint.url is not set"),
        ("http://x/token", {}, "must be a URL of file: or https:"),
        ("https://elsewhere/token", {}, "allowed.urls"),
        ("file:///etc/passwd", {}, "allowed.urls"),
        ("https://known/token", {}, "client.credentials.client.id"),
        ("https://known/token", {"sasl.oauthbearer.jwt.retriever.class": "com.acme.Retriever"}, "retriever.class"),
        ("https://known/token", {"sasl.login.callback.handler.class": "com.acme.Handler"}, "callback.handler"),
    ],
)
def test_what_cannot_be_asked_for_a_token_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, url: str, more: dict[str, str], words: str
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", ALLOWED.format("https://known/token"))
    with pytest.raises(ConfigError) as caught:
        ClientSecurity.of(properties(url) | more)
    assert words in str(caught.value)


def test_a_nodes_links_log_in_with_the_token_that_their_listener_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("aa.bb.cc")
    monkeypatch.setenv("KAFKA_OPTS", ALLOWED.format(f"file://{path}"))
    own = "listener.name.sasl_plaintext.oauthbearer."
    config = BrokerConfig.load(
        overrides=[
            "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "security.inter.broker.protocol=SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
            f"{own}sasl.jaas.config={MODULE} required;",
            f"{own}sasl.oauthbearer.token.endpoint.url=file://{path}",
        ]
    )
    links = Links(config, TcpNetwork(), jaas={})
    assert isinstance(links.to_brokers, SecuredNetwork) and isinstance(links.to_controllers, TcpNetwork)
    begin = links.to_brokers.security.login("localhost")
    assert begin is not None
    assert b"auth=Bearer aa.bb.cc" in asyncio.run(_begun(begin)).start()


async def _begun(begin: Callable[[], Awaitable[ClientExchange]]) -> ClientExchange:
    return await begin()

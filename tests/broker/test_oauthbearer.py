"""Access tokens as logins: an issuer's keys from a file, good tokens, bad ones, and what does not start."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import SystemRandom
from typing import Any, ClassVar

import pytest
from joserfc import jwk, jws

from ottla.base import ConfigError, ErrorCode
from ottla.broker import Node, SystemClock, ThreadsAndProcess
from ottla.config import BrokerConfig
from ottla.log import OsDisk
from ottla.net import TcpNetwork
from ottla.security import Tls, TlsSettings
from ottla.security.sasl import OAuthBearerClient, unsecured_token
from tests.broker.node_client import NodeClient, run, running_node
from tests.broker.sasl_client import authenticate, handshake, is_closed, log_in_by
from tests.security.authority import Identity, authority, signed

ISSUER = "https://issuer.example"
KEY = jwk.RSAKey.generate_key(2048, {"kid": "one"})
NEXT = jwk.RSAKey.generate_key(2048, {"kid": "two"})
UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
OWN = "listener.name.sasl_plaintext.oauthbearer."
BASE = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol=SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=OAUTHBEARER",
    "connection.failed.authentication.delay.ms=0",
)
RULES = (f"{OWN}sasl.oauthbearer.expected.audience=kafka", f"sasl.oauthbearer.expected.issuer={ISSUER}")


def publish(path: Path, *keys: Any) -> str:
    """Write an issuer's keys, and return where they are."""
    path.write_text(json.dumps({"keys": [each.as_dict(private=False) for each in keys]}))
    return f"file://{path}"


def token(key: Any = KEY, *, algorithm: str = "RS256", **claims: Any) -> str:
    now_s = SystemClock().now_ms() / 1000
    said = {"sub": "ann", "iat": now_s, "exp": now_s + 60, "iss": ISSUER, "aud": "kafka", **claims}
    header = {"alg": algorithm, "kid": key.kid}
    return jws.serialize_compact(header, json.dumps(said).encode(), key, algorithms=["RS256", "HS256"])


async def started(folder: Path, *settings: str, allowed: str = "") -> Node:
    """Start a node whose process was allowed to read these URLs."""
    environment = {"KAFKA_OPTS": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"}
    config = BrokerConfig.load(overrides=[f"log.dirs={folder}", *BASE, *settings], environment=environment)
    node = Node(config, OsDisk(), TcpNetwork(), SystemClock(), SystemRandom(), ThreadsAndProcess())
    await node.start()
    return node


async def answer_to(node: Node, text: str) -> Any:
    client = await NodeClient.connect(node)
    found = await log_in_by(client, OAuthBearerClient(text))
    if not found.error_code:
        client.close()
        return found.session_lifetime_ms
    assert await is_closed(client)
    return ErrorCode(found.error_code), found.error_message


CA = authority()
RETRY = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=1"


def trusting(folder: Path, trusted: Identity) -> tuple[str, ...]:
    """Return the setting that names whom the listener takes for its issuer's host."""
    path = folder / "issuer.pem"
    path.write_text(trusted.chain_pem())
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return (f'{OWN}sasl.jaas.config={module} required ssl.truststore.type="PEM" ssl.truststore.location="{path}";',)


REFUSED = (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}')


def test_a_token_of_the_issuer_is_a_login_until_it_ends_and_no_other_is(tmp_path: Path) -> None:
    async def test() -> None:
        url = publish(tmp_path / "jwks.json", KEY)
        node = await started(tmp_path / "d", *RULES, f"{OWN}sasl.oauthbearer.jwks.endpoint.url={url}", allowed=url)
        try:
            lifetime_ms = await answer_to(node, token())
            assert 50_000 < lifetime_ms <= 60_000
            secret = jwk.OctKey.import_key(
                "secret" * 8, {"kid": "one"}
            )  # HS256 by the public key: security/sasl/test_jwt.py
            for bad in (
                token(NEXT),
                token(secret, algorithm="HS256"),
                token(exp=1, iat=0),
                token(iss="https://other"),
                token(aud="other"),
                token(sub=""),
                unsecured_token("ann", issued_ms=SystemClock().now_ms()),
                token()[:-4] + "AAAA",
            ):
                assert await answer_to(node, bad) == REFUSED
        finally:
            await node.stop()

    run(test)


def test_a_key_that_was_published_later_is_found_once_a_token_names_it(tmp_path: Path) -> None:
    async def test() -> None:
        url = publish(tmp_path / "jwks.json", KEY)
        retry = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=1"
        node = await started(
            tmp_path / "d", *RULES, retry, f"sasl.oauthbearer.jwks.endpoint.url={url}", allowed=f"https://x,{url}"
        )
        try:
            publish(tmp_path / "jwks.json", KEY, NEXT)
            assert await answer_to(node, token(NEXT)) == REFUSED
            for _ in range(200):
                if isinstance(await answer_to(node, token(NEXT)), int):
                    break
            else:
                raise AssertionError("the new key was never fetched")
        finally:
            await node.stop()

    run(test)


class Publisher(BaseHTTPRequestHandler):
    """Serves an issuer's keys, and sends whoever asks elsewhere somewhere else."""

    keys: ClassVar[list[Any]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Publisher.asked.append(self.path)
        body = json.dumps({"keys": [each.as_dict(private=False) for each in Publisher.keys]}).encode()
        self.send_response(200 if self.path == "/keys" else 302)
        self.send_header("Location", "/keys")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def publisher(identity: Identity) -> Iterator[str]:
    own = {"ssl.keystore.key": identity.key_pem(), "ssl.keystore.certificate.chain": identity.chain_pem()}
    context = Tls(TlsSettings.of({"ssl.keystore.type": "PEM", **own}), server=True).context
    Publisher.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Publisher) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_keys_come_by_https_of_a_trusted_issuer_and_new_ones_when_a_token_names_them(tmp_path: Path) -> None:
    async def test(base: str) -> None:
        Publisher.keys = [KEY]
        url = f"{base}/keys"
        settings = (*RULES, *trusting(tmp_path, CA), f"sasl.oauthbearer.jwks.endpoint.url={url}", RETRY)
        node = await started(tmp_path / "d", *settings, allowed=url)
        try:
            assert isinstance(await answer_to(node, token()), int)
            Publisher.keys = [KEY, NEXT]
            while not isinstance(await answer_to(node, token(NEXT)), int):
                pass
            assert isinstance(await answer_to(node, token()), int)
        finally:
            await node.stop()

    with publisher(signed(CA, "issuer")) as base:
        run(lambda: test(base))


@pytest.mark.parametrize(("path", "trusts"), [("/keys", False), ("/elsewhere", True)])
def test_keys_of_an_issuer_that_is_not_trusted_or_that_sends_on_are_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, trusts: bool
) -> None:
    async def test(base: str) -> None:
        Publisher.keys = [KEY]
        url = f"{base}{path}"
        trusted = CA if trusts else authority("Other Authority")
        settings = (*RULES, *trusting(tmp_path, trusted), f"sasl.oauthbearer.jwks.endpoint.url={url}")
        node = await started(tmp_path / "d", *settings, allowed=url)
        try:
            assert await answer_to(node, token()) == REFUSED
        finally:
            await node.stop()
        assert "/keys" not in Publisher.asked
        assert "has no new keys of its issuer" in caplog.text

    with publisher(signed(CA, "issuer")) as base, caplog.at_level("WARNING"):
        run(lambda: test(base))


def test_unsigned_tokens_are_taken_by_kafkas_handler_for_them_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *BASE, f"{OWN}sasl.server.callback.handler.class={UNSIGNED}") as client:
            text = unsecured_token("ann", issued_ms=SystemClock().now_ms())
            assert (await log_in_by(client, OAuthBearerClient(text))).error_code == 0

    run(test)


def test_a_foreign_authorization_id_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *BASE, f"{OWN}sasl.server.callback.handler.class={UNSIGNED}") as client:
            text = unsecured_token("ann", issued_ms=SystemClock().now_ms())
            await handshake(client, "OAUTHBEARER")
            found = await authenticate(client, f"n,a=bob,\x01auth=Bearer {text}\x01\x01".encode())
            assert found.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run(test)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RULES, "jwks.endpoint.url is not set"),
        ((*RULES, "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere"), "allowed.urls"),
        ((*RULES, "sasl.oauthbearer.jwks.endpoint.url=http://allowed"), "https: or a file:"),
        ((*RULES, "sasl.oauthbearer.jwks.endpoint.url=file:///allowed"), "No such file"),
        ((RULES[0], "sasl.oauthbearer.jwks.endpoint.url=file:///allowed"), "expected.issuer"),
        ((RULES[1], "sasl.oauthbearer.jwks.endpoint.url=file:///allowed"), "expected.audience"),
        ((*RULES, f"{OWN}sasl.server.callback.handler.class=com.example.H"), "com.example.H"),
        ((*RULES, "sasl.oauthbearer.jwt.validator.class=com.example.V"), "com.example.V"),
    ],
)
def test_what_would_take_tokens_of_anybody_does_not_start(
    tmp_path: Path, settings: tuple[str, ...], words: str
) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=words):
            await started(tmp_path, *settings, allowed="file:///allowed,http://allowed")

    run(test)


def test_any_issuer_and_audience_are_taken_where_that_is_asked_for_by_name(tmp_path: Path) -> None:
    async def test() -> None:
        url = publish(tmp_path / "jwks.json", KEY)
        anybody = ("sasl.oauthbearer.expected.audience=*", "sasl.oauthbearer.expected.issuer=*")
        node = await started(tmp_path / "d", *anybody, f"sasl.oauthbearer.jwks.endpoint.url={url}", allowed=url)
        try:
            assert isinstance(await answer_to(node, token(iss="https://other", aud="other")), int)
        finally:
            await node.stop()

    run(test)

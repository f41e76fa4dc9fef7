"""Clients that nobody here wrote log in by an issuer's access tokens."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaProvider
from confluent_kafka import KafkaError, Producer
from joserfc import jwk, jws
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.server import Server, running_server

pytestmark = pytest.mark.compat
KEY = jwk.RSAKey.generate_key(2048, {"kid": "one"})


TOKEN_SECONDS = 12
"""librdkafka looks once a second whether a token's 80 % are over, and renews a login after 90 %."""


def token(user: str = "ann", seconds: float = TOKEN_SECONDS) -> str:
    claims = {"sub": user, "iat": time.time(), "exp": time.time() + seconds, "iss": "https://issuer", "aud": "kafka"}
    return jws.serialize_compact({"alg": "RS256", "kid": "one"}, json.dumps(claims).encode(), KEY)


class KafkaPythonTokens(AbstractTokenProvider):
    def token(self) -> str:
        return token()


class AiokafkaTokens(AiokafkaProvider):
    async def token(self) -> str:
        return token()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that takes tokens of one issuer, each for some seconds."""
    folder: Path = tmp_path_factory.mktemp("oauth")
    (folder / "jwks.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    url = f"file://{folder / 'jwks.json'}"
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer=https://issuer",
        "sasl.oauthbearer.expected.audience=kafka",
        f"sasl.oauthbearer.jwks.endpoint.url={url}",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
        with running_server(folder, overrides=settings) as running:
            yield running


@pytest.mark.slow
def test_confluent_kafka_writes_past_the_end_of_its_first_token(server: Server, topic: str) -> None:
    asked: list[float] = []
    failed: list[KafkaError] = []

    def give(config: str) -> tuple[str, float]:
        asked.append(time.time())
        return token(), time.time() + TOKEN_SECONDS

    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": give,
            "error_cb": failed.append,
        }
    )
    end = time.monotonic() + TOKEN_SECONDS + 2
    while time.monotonic() < end:
        producer.produce(topic, b"value", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.2)
    assert producer.flush(30) == 0 and not failed and len(asked) > 1


def test_confluent_kafka_writes(server: Server, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda config: (token(), time.time() + TOKEN_SECONDS),
        }
    )
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def test_the_console_commands_write_and_read_with_tokens_of_a_file(
    server: Server, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, config = tmp_path / "token", tmp_path / "client.properties"
    monkeypatch.setenv("KAFKA_OPTS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{text}")
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{text}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )

    def ottla(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        text.write_text(token(seconds=60))
        at = ("--bootstrap-server", server.bootstrap, "--command-config", str(config))
        command = [sys.executable, "-m", "ottla.cli.main", *arguments, *at]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    assert ottla("produce", topic, stdin="one\ntwo\n").returncode == 0
    assert ottla("consume", topic, "--group", "g", "--number", "2").stdout == "one\ntwo\n"
    said = ottla("console-producer", "--topic", topic, stdin="three\n")
    assert (said.returncode, said.stderr) == (0, "")
    assert ottla("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3").stdout.split() == [
        *("one", "two", "three"),
    ]
    monkeypatch.setenv("KAFKA_OPTS", "")
    refused = ottla("produce", topic, stdin="four\n")
    assert refused.returncode == 1 and "allowed.urls" in refused.stderr and refused.stderr.count("\n") == 1


def test_kafka_python_writes(server: Server, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=server.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=KafkaPythonTokens(),
    )
    assert producer.send(topic, b"value").get(30).offset == 0
    producer.close(30)


def test_aiokafka_writes(server: Server, topic: str) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=server.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=AiokafkaTokens(),
        ) as producer:
            assert (await producer.send_and_wait(topic, b"value")).offset == 0

    asyncio.run(asyncio.wait_for(test(), 60))
    assert not any(part in "".join(server.lines) for part in (token()[:20], "Traceback"))

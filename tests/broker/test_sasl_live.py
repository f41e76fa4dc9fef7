"""Logins that change while a listener is open, and secrets that are shown to nobody."""

from __future__ import annotations

import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ottla.base import ErrorCode
from ottla.security.sasl import OAuthBearerClient, ScramClient, unsecured_token
from ottla.security.scram_credentials import ScramMechanism, salted_password
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.node_client import NodeClient, run, running_node
from tests.broker.sasl_client import PLAIN, log_in, log_in_by, plain_settings
from tests.broker.test_delegation_tokens import created
from tests.broker.test_oauthbearer import UNSIGNED
from tests.broker.test_scram import SALT, upsertion

BROKER, SET, DELETE = 4, 0, 1
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SETTINGS = plain_settings("connection.failed.authentication.delay.ms=0", ann="x")


async def altered(client: NodeClient, name: str, value: str | None, *, validate_only: bool = False) -> Any:
    config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return (await client.ask(request)).responses[0]


async def comes_in(client: NodeClient, user: str, password: str) -> bool:
    other = await NodeClient.connect(client.node)
    found = await log_in(other, user, password)
    other.close()
    return not found.error_code


def test_users_of_plain_change_while_the_listener_is_open_and_stay_changed(tmp_path: Path) -> None:
    users = f'{PLAIN} required user_bob="s3cret";'

    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await log_in(client)
            assert (await altered(client, JAAS, users, validate_only=True)).error_code == 0
            assert await comes_in(client, "ann", "x")
            assert (await altered(client, JAAS, users)).error_code == 0
            assert await comes_in(client, "bob", "s3cret") and not await comes_in(client, "ann", "x")
        async with running_node(tmp_path, *SETTINGS) as client:
            await log_in(client, "bob", "s3cret")
            assert (await altered(client, JAAS, None)).error_code == 0
            assert await comes_in(client, "ann", "x") and not await comes_in(client, "bob", "s3cret")

    run(test)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (JAAS, f'{PLAIN} required user_bob="s3cret"'),
        (JAAS, 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://s3cret";'),
        ("sasl.jaas.config", f'{PLAIN} required user_bob="s3cret";'),
        ("listener.name.sasl_plaintext.sasl.jaas.config", f'{PLAIN} required user_bob="s3cret";'),
        ("listener.name.sasl_plaintext.sasl.enabled.mechanisms", "PLAIN,GSSAPI"),
        ("listener.name.sasl_plaintext.sasl.enabled.mechanisms", "OAUTHBEARER"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(tmp_path: Path, name: str, value: str) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await log_in(client)
            refused = await altered(client, name, value)
            assert refused.error_code == ErrorCode.INVALID_REQUEST and "s3cret" not in refused.error_message
            assert await comes_in(client, "ann", "x")

    run(test)


def test_no_secret_of_a_login_is_logged_described_or_measured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2026-33558: at DEBUG, Kafka logged salts, HMACs and tokens."""
    own = "listener.name.sasl_plaintext."
    settings = plain_settings(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{own}oauthbearer.sasl.server.callback.handler.class={UNSIGNED}",
        "delegation.token.secret.key=S3CRET-key",
        "connection.failed.authentication.delay.ms=0",
        "ottla.http.listeners=http://127.0.0.1:0",
        ann="S3CRET-plain",
    )
    secrets = ["S3CRET"]

    async def test() -> str:
        async with running_node(tmp_path, *settings) as client:
            await log_in(client, "ann", "S3CRET-plain")
            await log_in(await NodeClient.connect(client.node), "ann", "S3CRET-wrong")
            await client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion("bob", "S3CRET-scram")]))
            salted = salted_password(ScramMechanism.SHA_256, "S3CRET-scram", salt=SALT, iterations=4096)
            for password in ("S3CRET-scram", "S3CRET-other"):
                exchange = ScramClient(ScramMechanism.SHA_256, user="bob", password=password, nonce="n")
                await log_in_by(await NodeClient.connect(client.node), exchange)
            jwt = unsecured_token("S3CRET-nobody", issued_ms=0)
            await log_in_by(await NodeClient.connect(client.node), OAuthBearerClient(jwt))
            token = await created(client)
            for data in (salted, SALT, bytes(token.hmac)):
                secrets.extend((data.hex(), b64encode(data).decode(), repr(data)[2:-1]))
            secrets.append(jwt.split(".")[1])
            wanted = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
            described = await client.ask(DescribeConfigsRequest(resources=[wanted], include_synonyms=True))
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{client.node.http_listeners[0]}/metrics") as page,
            ):
                return str(described) + await page.text()

    shown: list[str] = []

    async def kept() -> None:
        shown.append(await test())

    with caplog.at_level(logging.DEBUG):
        run(kept)
    assert "failed_authentication_total" in shown[0]
    for secret in secrets:
        assert secret not in caplog.text and secret not in shown[0], secret

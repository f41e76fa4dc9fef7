"""Users of SCRAM: set and removed in the metadata, and logging in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.security import ScramMechanism
from ottla.security.sasl import ScramClient
from ottla.security.scram_credentials import salted_password
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.broker.node_client import NodeClient, run, running_node
from tests.broker.sasl_client import authenticate, handshake, is_closed, log_in, log_in_by, plain_settings

SCRAM = (
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms=0",
)
SETTINGS = plain_settings(*SCRAM, ann="x")
SALT = b"salt" * 8


def upsertion(user: str, password: str = "secret", *, mechanism: int = 1, iterations: int = 4096) -> Any:
    found = ScramMechanism.of_code(mechanism) or ScramMechanism.SHA_256
    salted = salted_password(found, password, salt=SALT, iterations=max(1, iterations))
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def deletion(user: str, mechanism: int = 1) -> Any:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


async def altered(client: NodeClient, *, upsert: tuple[Any, ...] = (), delete: tuple[Any, ...] = ()) -> dict[str, int]:
    answer = await client.ask(AlterUserScramCredentialsRequest(deletions=delete, upsertions=upsert))
    return {each.user: each.error_code for each in answer.results}


async def described(client: NodeClient, *users: str) -> dict[str, Any]:
    wanted = [UserName(name=each) for each in users]
    answer = await client.ask(DescribeUserScramCredentialsRequest(users=wanted or None))
    return {
        each.user: each.error_code or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


def exchange(user: str, password: str, mechanism: ScramMechanism, nonce: str = "n0") -> ScramClient:
    return ScramClient(mechanism, user=user, password=password, nonce=nonce)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_who_was_set_logs_in_with_his_password_until_he_is_removed(tmp_path: Path, mechanism: ScramMechanism) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as admin:
            await log_in(admin)
            assert await altered(admin, upsert=(upsertion("bob=,", mechanism=mechanism.code),)) == {"bob=,": 0}
            bob = await NodeClient.connect(admin.node)
            answer = await log_in_by(bob, exchange("bob=,", "secret", mechanism))
            assert answer.error_code == 0
            assert (await described(bob))["bob=,"] == {mechanism.code: 4096}
            assert await altered(bob, upsert=(upsertion("bob=,", "other", mechanism=mechanism.code),)) == {"bob=,": 0}
            for password, code in (("secret", ErrorCode.SASL_AUTHENTICATION_FAILED), ("other", 0)):
                again = await NodeClient.connect(admin.node)
                assert (await log_in_by(again, exchange("bob=,", password, mechanism))).error_code == code
            assert await altered(admin, delete=(deletion("bob=,", mechanism.code),)) == {"bob=,": 0}
            gone = await NodeClient.connect(admin.node)
            answer = await log_in_by(gone, exchange("bob=,", "other", mechanism))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED and await is_closed(gone)
            assert (await described(bob, "bob=,"))["bob=,"] == ErrorCode.RESOURCE_NOT_FOUND

    run(test)


def test_a_credential_is_for_its_mechanism_alone_and_outlives_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as admin:
            await log_in(admin)
            await altered(admin, upsert=(upsertion("bob", mechanism=2, iterations=8192),))
        async with running_node(tmp_path, *SETTINGS) as client:
            answer = await log_in_by(client, exchange("bob", "secret", ScramMechanism.SHA_256))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            client = await NodeClient.connect(client.node)
            assert (await log_in_by(client, exchange("bob", "secret", ScramMechanism.SHA_512))).error_code == 0
            assert await described(client) == {"bob": {2: 8192}}

    run(test)


def test_what_cannot_be_set_or_removed_is_refused_for_its_user_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as admin:
            await log_in(admin)
            upsert = (
                upsertion("good"),
                upsertion("both"),
                upsertion("both", mechanism=2),
                upsertion("few", iterations=4095),
                upsertion("many", iterations=16385),
                upsertion("unknown", mechanism=3),
                upsertion("twice"),
                upsertion("twice", "other"),
                upsertion(""),
            )
            assert await altered(admin, upsert=upsert, delete=(deletion("nobody"), deletion("none", 0))) == {
                "good": 0,
                "both": ErrorCode.DUPLICATE_RESOURCE,
                "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
                "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
                "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                "twice": ErrorCode.DUPLICATE_RESOURCE,
                "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
                "nobody": ErrorCode.RESOURCE_NOT_FOUND,
                "none": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            }
            await altered(admin, upsert=(upsertion("good", mechanism=2, iterations=5000),))
            assert await described(admin) == {"good": {1: 4096, 2: 5000}}
            assert await described(admin, "good", "nobody", "both", "both") == {
                "good": {1: 4096, 2: 5000},
                "nobody": ErrorCode.RESOURCE_NOT_FOUND,
                "both": ErrorCode.DUPLICATE_RESOURCE,
            }
            assert await altered(admin) == {}

    run(test)


async def first_answer(admin: NodeClient, user: str, nonce: str) -> dict[str, str]:
    """Return what a client that names a user is asked, as attributes of the server's first message."""
    client = await NodeClient.connect(admin.node)
    await handshake(client, "SCRAM-SHA-256")
    answer = await authenticate(client, f"n,,n={user},r={nonce}".encode())
    assert answer.error_code == 0
    return dict(part.split("=", 1) for part in bytes(answer.auth_bytes).decode().split(","))


def test_a_user_whom_there_is_not_is_asked_and_refused_like_any_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as admin:
            await log_in(admin)
            await altered(admin, upsert=(upsertion("bob"),))
            asked = [await first_answer(admin, user, nonce) for user in ("nobody", "bob") for nonce in ("one", "two")]
            assert asked[0]["s"] == asked[1]["s"] != asked[2]["s"] == asked[3]["s"]
            assert {each["i"] for each in asked} == {"4096"} and {len(each["s"]) for each in asked} == {44}
            told = set()
            for user in ("nobody", "bob"):
                client = await NodeClient.connect(admin.node)
                told.add((await log_in_by(client, exchange(user, "no", ScramMechanism.SHA_256))).error_message)
            assert told == {
                "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
            }

    run(test)


def test_with_a_secret_of_the_cluster_unknown_users_look_the_same_on_all_of_its_nodes(tmp_path: Path) -> None:
    salts = []

    async def test() -> None:
        for folder, secret in (("a", "one"), ("b", "one"), ("c", "other")):
            async with running_node(tmp_path / folder, *SETTINGS, f"delegation.token.secret.key={secret}") as client:
                salts.append((await first_answer(client, "nobody", "n"))["s"])

    run(test)
    assert salts[0] == salts[1] != salts[2]


def test_a_controller_listener_cannot_use_scram(tmp_path: Path) -> None:
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
    )

    async def test() -> None:
        with pytest.raises(ConfigError, match="cannot use SCRAM"):
            async with running_node(tmp_path, *settings):
                pass

    run(test)

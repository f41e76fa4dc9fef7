"""Delegation tokens: made, shown, renewed, ended, swept away, and logged in with."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.security import ScramMechanism
from ottla.security.sasl import ScramClient
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.node_client import NodeClient, parts, run, running_node
from tests.broker.sasl_client import is_closed, log_in, log_in_by, plain_settings
from tests.broker.test_sasl import SetClock, principal
from tests.waiting import until_async

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SETTINGS = (
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key=the cluster's own",
    "connection.failed.authentication.delay.ms=0",
)
STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@asynccontextmanager
async def cluster(folder: Path, *more: str, clock: SetClock | None = None) -> AsyncIterator[NodeClient]:
    """Run a node where ann, bob and cat may have tokens; yields ann's connection."""
    settings = plain_settings(*SETTINGS, *more, ann="x", bob="x", cat="x")
    async with running_node(folder, *settings, clock=clock) as client:
        await log_in(client)
        yield client


async def as_user(client: NodeClient, user: str) -> NodeClient:
    found = await NodeClient.connect(client.node)
    await log_in(found, user)
    return found


async def created(client: NodeClient, *renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> Any:
    wanted = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, _, name in map(split, renewers)]
    return await client.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=wanted,
            max_lifetime_ms=lifetime_ms,
        )
    )


def split(principal: str) -> tuple[str, str, str]:
    return principal.partition(":")


async def described(client: NodeClient, *owners: str, none: bool = False) -> Any:
    wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    found = await client.ask(DescribeDelegationTokenRequest(owners=wanted if owners or none else None))
    return found.error_code or [each.token_id for each in found.tokens]


async def renewed(client: NodeClient, hmac: bytes, period_ms: int = -1) -> Any:
    return await client.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))


async def ended(client: NodeClient, hmac: bytes, period_ms: int = -1) -> Any:
    return await client.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))


async def by_token(client: NodeClient, token: Any, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> NodeClient:
    found = await NodeClient.connect(client.node)
    password = b64encode(bytes(token.hmac)).decode()
    exchange = ScramClient(mechanism, user=token.token_id, password=password, nonce="n", by_token=True)
    answer = await log_in_by(found, exchange)
    found.error_code, found.lifetime_ms = answer.error_code, answer.session_lifetime_ms  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_logs_in_as_its_owner_and_makes_no_further_one(tmp_path: Path, mechanism: ScramMechanism) -> None:
    async def test() -> None:
        clock = SetClock()
        async with cluster(tmp_path, clock=clock) as ann:
            token = await created(ann, "User:bob")
            assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "ann")
            assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS
            assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS and len(token.hmac) == 64
            bearer: Any = await by_token(ann, token, mechanism)
            assert bearer.error_code == 0 and bearer.lifetime_ms == DAY_MS
            assert await principal(bearer) == "User:ann"
            no = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert (await created(bearer)).error_code == no and await described(bearer) == no
            assert (await renewed(bearer, token.hmac)).error_code == no
            assert (await ended(bearer, token.hmac)).error_code == no
            clock.ms += DAY_MS
            bearer.send(MetadataRequest(topics=[]), 12)
            assert await is_closed(bearer)

    run(test)


def test_a_token_ends_for_logins_when_its_time_is_over_swept_away_or_not(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SetClock()
        async with cluster(tmp_path, clock=clock) as ann:
            token = await created(ann, lifetime_ms=HOUR_MS)
            assert token.max_timestamp_ms == token.expiry_timestamp_ms == token.issue_timestamp_ms + HOUR_MS
            clock.ms += HOUR_MS + 1
            refused: Any = await by_token(ann, token)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert (await renewed(ann, token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
            assert await described(ann) == [token.token_id]  # until it is swept away

    run(test)


def test_ended_tokens_are_swept_out_of_the_metadata(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SetClock()
        async with cluster(tmp_path, "delegation.token.expiry.check.interval.ms=20", clock=clock) as ann:
            short, long = await created(ann, lifetime_ms=HOUR_MS), await created(ann)
            clock.ms += HOUR_MS + 1
            image = parts(ann.node)
            await until_async(lambda: short.token_id not in image.image.delegation_tokens)
            assert await described(ann) == [long.token_id]

    run(test)


def test_owner_and_renewers_give_it_another_end_and_nobody_else(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SetClock()
        async with cluster(tmp_path, clock=clock) as ann:
            token = await created(ann, "User:bob")
            bob, cat = await as_user(ann, "bob"), await as_user(ann, "cat")
            clock.ms += HOUR_MS
            assert (await renewed(bob, token.hmac)).expiry_timestamp_ms == clock.ms + DAY_MS
            assert (await renewed(ann, token.hmac, HOUR_MS)).expiry_timestamp_ms == clock.ms + HOUR_MS
            mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            assert (await renewed(cat, token.hmac)).error_code == (await ended(cat, token.hmac)).error_code == mismatch
            unknown = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            assert (await renewed(ann, b"no")).error_code == (await ended(ann, b"no")).error_code == unknown
            assert (await ended(bob, token.hmac, 1000)).expiry_timestamp_ms == clock.ms + 1000
            assert (await ended(bob, token.hmac)).error_code == 0
            assert await described(ann) == [] and (await ended(ann, token.hmac)).error_code == unknown
            refused: Any = await by_token(ann, token)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run(test)


def test_tokens_are_shown_to_who_may_use_them_and_others_as_rights_say(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path, STANDARD, "super.users=User:cat;User:ANONYMOUS") as ann:
            bob, cat = await as_user(ann, "bob"), await as_user(ann, "cat")
            token, other = await created(ann, "User:bob"), await created(ann)
            assert await described(ann) == [token.token_id, other.token_id] == await described(cat)
            assert await described(bob) == [token.token_id] == await described(bob, "ann")
            assert await described(ann, "bob") == [token.token_id]  # which bob may renew
            assert await described(ann, "cat") == await described(ann, none=True) == []
            refused = await created(bob, owner="ann")
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED and not refused.hmac
            given = await created(cat, owner="bob")
            assert (given.principal_name, given.token_requester_principal_name) == ("bob", "cat")
            bearer: Any = await by_token(ann, given)
            assert bearer.error_code == 0
            assert (await created(ann, "Group:g")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE

    run(test)


def test_where_nobody_logs_in_and_without_a_secret_there_are_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path / "plain", SETTINGS[1]) as client:
            no = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert (await created(client)).error_code == no and await described(client) == no
        async with running_node(tmp_path / "sasl", *plain_settings(ann="x")) as client:
            await log_in(client)
            no = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
            assert (await created(client)).error_code == no and await described(client) == no
            assert (await renewed(client, b"x")).error_code == (await ended(client, b"x")).error_code == no

    run(test)


def test_tokens_outlive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with cluster(tmp_path) as ann:
            token = await created(ann)
        async with cluster(tmp_path) as ann:
            assert await described(ann) == [token.token_id]
            bearer: Any = await by_token(ann, token)
            assert bearer.error_code == 0

    run(test)

"""Delegation tokens (KIP-48): logins that somebody hands to others, for a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.admin.errors import AdminError, raise_code

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = [
    "DelegationToken",
    "create_delegation_token",
    "describe_delegation_tokens",
    "expire_delegation_token",
    "renew_delegation_token",
]


@dataclass(frozen=True)
class DelegationToken:
    """A token; times are milliseconds since 1970. With the HMAC anybody logs in as its owner."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


def create_delegation_token(
    client: BlockingClient, *, owner: str | None, renewers: Sequence[str], lifetime_ms: int
) -> DelegationToken:
    """Have a token made, for oneself without an owner; a lifetime of 0 or less is the longest one.

    Raises AdminError for what is no principal, KafkaError where it is refused.
    """
    from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest

    named = [_parsed(each) for each in renewers]
    kind, name = (None, None) if owner is None else _parsed(owner)
    answer: Any = client.request(
        CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in named],
            max_lifetime_ms=lifetime_ms,
        )
    )
    raise_code(answer.error_code)
    return DelegationToken(
        answer.token_id,
        bytes(answer.hmac),
        f"{answer.principal_type}:{answer.principal_name}",
        f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        tuple(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


def renew_delegation_token(client: BlockingClient, hmac: bytes, period_ms: int) -> int:
    """Give a token a later end, and return it; raises KafkaError."""
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

    answer: Any = client.request(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
    raise_code(answer.error_code)
    return int(answer.expiry_timestamp_ms)


def expire_delegation_token(client: BlockingClient, hmac: bytes, period_ms: int) -> int:
    """Give a token another end, now where the period is less than 0, and return it; raises KafkaError."""
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

    answer: Any = client.request(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    raise_code(answer.error_code)
    return int(answer.expiry_timestamp_ms)


def describe_delegation_tokens(client: BlockingClient, owners: Sequence[str] = ()) -> list[DelegationToken]:
    """Return the tokens that one may see, or those of them that these own, asked for or may renew; raises KafkaError."""
    from ottla.wire.messages.describe_delegation_token import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
    )

    named = [_parsed(each) for each in owners]
    wanted = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in named]
    answer: Any = client.request(DescribeDelegationTokenRequest(owners=wanted or None))
    raise_code(answer.error_code)
    return [
        DelegationToken(
            each.token_id,
            bytes(each.hmac),
            f"{each.principal_type}:{each.principal_name}",
            f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]


def _parsed(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise AdminError(f"expected a string in format principalType:principalName but got {principal}")
    return kind, name

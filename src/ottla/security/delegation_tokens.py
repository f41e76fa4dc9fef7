"""Delegation tokens: a login that somebody hands to others, for a time (KIP-48, KIP-373).

A token is an id and an HMAC of it under a secret that all brokers share. Its record holds no secret: whoever has the secret
makes the HMAC anew. With it one logs in by SCRAM, as a user whose name is the id and whose password is the HMAC in base64.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ottla.base import ErrorCode, KafkaError
from ottla.security.sasl.scram import ScramLogin
from ottla.security.scram_credentials import SCRAM_ITERATIONS_MIN, ScramCredential, ScramMechanism, credential_of

__all__ = [
    "DelegationTokens",
    "TokenFields",
    "TokenInfo",
    "TokenLimits",
    "new_token",
    "renewed_token",
    "shortened_token",
]

ALGORITHM = "sha512"
_USER = "User:"
_SALT_BYTES = 32


class TokenFields(Protocol):
    """What has a token's fields: its record in the metadata log, and the image that it was folded into."""

    @property
    def owner(self) -> str:
        """Whose rights the token gives: type and name."""
        ...

    @property
    def requester(self) -> str:
        """Who asked for it."""
        ...

    @property
    def issue_timestamp(self) -> int:
        """When it was made, in milliseconds since 1970."""
        ...

    @property
    def max_timestamp(self) -> int:
        """Up to when it may be renewed."""
        ...

    @property
    def expiration_timestamp(self) -> int:
        """Up to when it is good, unless it is renewed."""
        ...


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token without its secret; times are milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int

    @classmethod
    def of(cls, token_id: str, fields: TokenFields, renewers: tuple[str, ...]) -> TokenInfo:
        """Return the token that a record or an image holds."""
        times = (fields.issue_timestamp, fields.max_timestamp, fields.expiration_timestamp)
        return cls(token_id, fields.owner, fields.requester, renewers, *times)

    def is_of(self, principal: str) -> bool:
        """Return whether the principal may renew, shorten and see it without further rights."""
        return principal in (self.owner, self.requester) or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        """True where it is good no longer, be it swept away yet or not."""
        return now_ms > min(self.expiration_timestamp, self.max_timestamp)


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """`delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    lifetime_ms: int = 604_800_000
    expiry_ms: int = 86_400_000


def new_token(
    token_id: str,
    *,
    owner: str,
    requester: str,
    renewers: tuple[str, ...],
    lifetime_ms: int,
    limits: TokenLimits,
    now_ms: int,
) -> TokenInfo:
    """Return a token that CreateDelegationToken makes; a lifetime of 0 or less is the longest one.

    Raises INVALID_PRINCIPAL_TYPE for a renewer who is no user.
    """
    for renewer in renewers:
        if not renewer.startswith(_USER):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"The renewer {renewer} must have the type User")
    longest_ms = limits.lifetime_ms if lifetime_ms <= 0 else min(lifetime_ms, limits.lifetime_ms)
    end_ms = now_ms + longest_ms
    return TokenInfo(token_id, owner, requester, renewers, now_ms, end_ms, min(end_ms, now_ms + limits.expiry_ms))


def renewed_token(token: TokenInfo | None, *, by: str, period_ms: int, limits: TokenLimits, now_ms: int) -> TokenInfo:
    """Return a token with a later end; a period of 0 or less is the longest one.

    Raises DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, or DELEGATION_TOKEN_OWNER_MISMATCH, in this order.
    """
    found = _there(token)
    if found.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_right(found, by)
    longer_ms = limits.expiry_ms if period_ms <= 0 else min(period_ms, limits.expiry_ms)
    return replace(found, expiration_timestamp=min(found.max_timestamp, now_ms + longer_ms))


def shortened_token(token: TokenInfo | None, *, by: str, period_ms: int, now_ms: int) -> TokenInfo | None:
    """Return a token with another end, as ExpireDelegationToken sets it, or None where it is to go now (less than 0).

    Raises DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, or DELEGATION_TOKEN_EXPIRED, in this order.
    """
    found = _there(token)
    _check_right(found, by)
    if period_ms < 0:
        return None
    if found.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return replace(found, expiration_timestamp=min(found.max_timestamp, now_ms + period_ms))


def _there(token: TokenInfo | None) -> TokenInfo:
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_right(token: TokenInfo, principal: str) -> None:
    if not token.is_of(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


class DelegationTokens:
    """The one owner of the tokens in force on this node, found by id or by HMAC."""

    def __init__(self, secret_key: str) -> None:
        """`secret_key` is `delegation.token.secret.key`."""
        self._secret = secret_key.encode()
        self._tokens: dict[str, TokenInfo] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[TokenInfo]:
        return iter(self._tokens.values())

    def hmac_of(self, token_id: str) -> bytes:
        """Return a token's HMAC: with it anybody may log in."""
        return hmac.digest(self._secret, token_id.encode(), ALGORITHM)

    def load(self, tokens: Mapping[str, TokenInfo]) -> None:
        """Take over a snapshot's tokens in place of all that were there."""
        self._tokens.clear()
        self._ids.clear()
        self._credentials.clear()
        for token in tokens.values():
            self.put(token)

    def put(self, token: TokenInfo) -> None:
        """Take in an applied DelegationTokenRecord: a new token, or new times of one."""
        if token.token_id not in self._tokens:
            self._ids[self.hmac_of(token.token_id)] = token.token_id
        self._tokens[token.token_id] = token

    def remove(self, token_id: str) -> None:
        """Drop what an applied RemoveDelegationTokenRecord names, if it is there."""
        if self._tokens.pop(token_id, None) is not None:
            del self._ids[self.hmac_of(token_id)]
            for mechanism in ScramMechanism:
                self._credentials.pop((token_id, mechanism), None)

    def by_hmac(self, data: bytes) -> TokenInfo | None:
        """Return the token of an HMAC, which requests to renew and to expire name it by."""
        token_id = self._ids.get(data)
        return None if token_id is None else self._tokens[token_id]

    def expired(self, now_ms: int) -> list[TokenInfo]:
        """Return the tokens that are to be swept away."""
        return [each for each in self._tokens.values() if each.has_expired(now_ms)]

    def login(self, mechanism: ScramMechanism, token_id: str, now_ms: int) -> ScramLogin | None:
        """Return what SCRAM needs to let a token's bearer in as its owner; None where it is not there or has expired."""
        token = self._tokens.get(token_id)
        if token is None or token.has_expired(now_ms) or not token.owner.startswith(_USER):
            return None
        end_ms = min(token.expiration_timestamp, token.max_timestamp)
        return ScramLogin(self._credential(mechanism, token_id), token.owner.removeprefix(_USER), end_ms)

    def _credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return a token's credential, made when it first logs in: it costs milliseconds."""
        found = self._credentials.get((token_id, mechanism))
        if found is None:
            label = f"{mechanism.mechanism_name}\0{token_id}\0salt".encode()
            salt = hmac.digest(self._secret, label, ALGORITHM)[:_SALT_BYTES]
            password = b64encode(self.hmac_of(token_id)).decode()
            found = credential_of(mechanism, password, salt=salt, iterations=SCRAM_ITERATIONS_MIN)
            self._credentials[(token_id, mechanism)] = found
        return found

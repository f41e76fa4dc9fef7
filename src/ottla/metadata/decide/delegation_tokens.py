"""Delegation tokens in the metadata: made, given another end, and swept away (KIP-48, KIP-900)."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.metadata.apply import Record
from ottla.metadata.decide.decision import Decision
from ottla.metadata.features import TOKENS_SINCE
from ottla.metadata.image import Image
from ottla.security import TokenInfo, TokenLimits, renewed_token, shortened_token
from ottla.wire.messages.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord

__all__ = ["create_token", "expire_token", "renew_token", "sweep_tokens", "token_of"]

SWEPT_MAX = 1000
"""Tokens that one decision sweeps away."""


def token_of(image: Image, token_id: str | None) -> TokenInfo | None:
    """Return a token of the metadata; None where there is none of this id."""
    kept = None if token_id is None else image.delegation_tokens.get(token_id)
    return None if kept is None or token_id is None else TokenInfo.of(token_id, kept, kept.renewers)


def create_token(image: Image, token: TokenInfo) -> Decision[TokenInfo]:
    """Keep a new token; raises UNSUPPORTED_VERSION while the metadata is too old for it."""
    _check_version(image)
    return Decision((_record(token),), token)


def renew_token(
    image: Image, token_id: str | None, *, by: str, period_ms: int, limits: TokenLimits, now_ms: int
) -> Decision[int]:
    """Give a token a later end, and return it; raises what `renewed_token` raises."""
    _check_version(image)
    token = renewed_token(token_of(image, token_id), by=by, period_ms=period_ms, limits=limits, now_ms=now_ms)
    return Decision((_record(token),), token.expiration_timestamp)


def expire_token(image: Image, token_id: str | None, *, by: str, period_ms: int, now_ms: int) -> Decision[int]:
    """Give a token another end, or remove it, and return its end; raises what `shortened_token` raises."""
    _check_version(image)
    token = shortened_token(token_of(image, token_id), by=by, period_ms=period_ms, now_ms=now_ms)
    if token is None:
        assert token_id is not None
        return Decision((RemoveDelegationTokenRecord(token_id=token_id),), now_ms)
    return Decision((_record(token),), token.expiration_timestamp)


def sweep_tokens(image: Image, now_ms: int) -> Decision[bool]:
    """Remove tokens that are good no longer; the response is True where there are more of them."""
    ended = [
        token_id
        for token_id, kept in image.delegation_tokens.items()
        if TokenInfo.of(token_id, kept, kept.renewers).has_expired(now_ms)
    ]
    records: tuple[Record, ...] = tuple(
        RemoveDelegationTokenRecord(token_id=token_id) for token_id in sorted(ended)[:SWEPT_MAX]
    )
    return Decision(records, len(ended) > SWEPT_MAX)


def _check_version(image: Image) -> None:
    if image.metadata_version < TOKENS_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata version does not support delegation tokens"
        )


def _record(token: TokenInfo) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token.token_id,
    )

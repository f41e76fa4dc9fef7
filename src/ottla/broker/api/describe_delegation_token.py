"""DescribeDelegationToken (KIP-48): the tokens that a client may see, with what is needed to log in by them."""

from __future__ import annotations

from ottla.broker.parts import TokenParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.token_requests import check_asker
from ottla.security import Needs, Operation, Resource, TokenInfo
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

__all__ = ["HANDLER"]


def describe_delegation_token(
    context: RequestContext[TokenParts], request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """List one's own tokens and those that one may renew, and others' as far as that is allowed."""
    check_asker(context)
    index = context.services.tokens.index
    owners = (
        None if request.owners is None else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    )
    found = [each for each in index if (owners is None or any(map(each.is_of, owners))) and _may_see(context, each)]
    found.sort(key=lambda each: (each.issue_timestamp, each.token_id))
    return DescribeDelegationTokenResponse(tokens=[_described(each, index.hmac_of(each.token_id)) for each in found])


def _may_see(context: RequestContext[TokenParts], token: TokenInfo) -> bool:
    return (
        token.is_of(context.connected.principal)
        or context.would_allow(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or context.would_allow(Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _described(token: TokenInfo, hmac: bytes) -> DescribedDelegationToken:
    owner, requester = token.owner.partition(":"), token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[2],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )


HANDLER = Handler(
    DescribeDelegationTokenRequest,
    versions=(1, 3),
    needs=Needs(Operation.DESCRIBE, Resource.DELEGATION_TOKEN),
    handle=describe_delegation_token,
)

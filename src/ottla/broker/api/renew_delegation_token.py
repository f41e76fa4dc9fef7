"""RenewDelegationToken (KIP-48): give a token, named by its HMAC, another end."""

from __future__ import annotations

from ottla.broker.parts import TokenParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.token_requests import decided
from ottla.metadata import Image, decide
from ottla.security import NEEDS_NOTHING
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

__all__ = ["HANDLER"]


async def renew_delegation_token(
    context: RequestContext[TokenParts], request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Have the controller decide, where the client may ask for it."""
    answer: RenewDelegationTokenResponse = await decided(DECIDES, context, request)
    return answer


async def renew(
    context: RequestContext[TokenParts], request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Give it a later end, and answer once that is committed."""
    tokens, by, now_ms = context.services.tokens, context.connected.principal, context.now_ms()
    token = tokens.index.by_hmac(bytes(request.hmac))
    token_id = None if token is None else token.token_id

    def decision(image: Image) -> decide.Decision[int]:
        return decide.renew_token(
            image, token_id, by=by, period_ms=request.renew_period_ms, limits=tokens.limits, now_ms=now_ms
        )

    return RenewDelegationTokenResponse(expiry_timestamp_ms=await context.services.quorum.submit(decision))


DECIDES = Handler(RenewDelegationTokenRequest, versions=(1, 2), needs=NEEDS_NOTHING, handle=renew, forwards=True)
HANDLER = Handler(
    RenewDelegationTokenRequest,
    versions=(1, 2),
    needs=NEEDS_NOTHING,
    handle=renew_delegation_token,
    forwards=True,
    splits=True,
)

"""ExpireDelegationToken (KIP-48): give a token, named by its HMAC, another end."""

from __future__ import annotations

from ottla.broker.parts import TokenParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.token_requests import decided
from ottla.metadata import Image, decide
from ottla.security import NEEDS_NOTHING
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

__all__ = ["HANDLER"]


async def expire_delegation_token(
    context: RequestContext[TokenParts], request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Have the controller decide, where the client may ask for it."""
    answer: ExpireDelegationTokenResponse = await decided(DECIDES, context, request)
    return answer


async def expire(
    context: RequestContext[TokenParts], request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Give it another end, or remove it now, and answer once that is committed."""
    tokens, by, now_ms = context.services.tokens, context.connected.principal, context.now_ms()
    token = tokens.index.by_hmac(bytes(request.hmac))
    token_id = None if token is None else token.token_id

    def decision(image: Image) -> decide.Decision[int]:
        return decide.expire_token(image, token_id, by=by, period_ms=request.expiry_time_period_ms, now_ms=now_ms)

    return ExpireDelegationTokenResponse(expiry_timestamp_ms=await context.services.quorum.submit(decision))


DECIDES = Handler(ExpireDelegationTokenRequest, versions=(1, 2), needs=NEEDS_NOTHING, handle=expire, forwards=True)
HANDLER = Handler(
    ExpireDelegationTokenRequest,
    versions=(1, 2),
    needs=NEEDS_NOTHING,
    handle=expire_delegation_token,
    forwards=True,
    splits=True,
)

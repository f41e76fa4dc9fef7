"""CreateDelegationToken (KIP-48, KIP-373): a login to hand on, of one's own or, where that is allowed, of somebody else."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError, random_uuid, uuid_text
from ottla.broker.parts import TokenParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.token_requests import decided
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource, TokenInfo, new_token
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

__all__ = ["HANDLER"]

NO_TIME = -1
NEEDS = Needs(Operation.CREATE_TOKENS, Resource.USER)


REQUESTER_FROM = 3
"""The first version in which the owner and who asks may be two."""


async def create_delegation_token(
    context: RequestContext[TokenParts], request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Have the controller make one, where the client may ask for it; who would have been whose is said of a refusal, too."""
    try:
        answer: CreateDelegationTokenResponse = await decided(DECIDES, context, request)
    except KafkaError as error:
        answer = CreateDelegationTokenResponse(error_code=int(error.code))
    if not answer.error_code:
        return answer
    requester = context.connected.principal
    nothing = TokenInfo("", _owner(request, requester), requester, (), *[NO_TIME] * 3)
    return _answer(context, nothing, b"").replace(error_code=answer.error_code)


async def create(
    context: RequestContext[TokenParts], request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Make one, and answer once it is committed."""
    requester = context.connected.principal
    owner = _owner(request, requester)
    if owner != requester and not context.allows(Operation.CREATE_TOKENS, Resource.USER, owner):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    tokens = context.services.tokens
    index = tokens.index
    token = new_token(
        uuid_text(random_uuid(context.services.rng)),
        owner=owner,
        requester=requester,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        lifetime_ms=request.max_lifetime_ms,
        limits=tokens.limits,
        now_ms=context.now_ms(),
    )

    def decision(image: Image) -> decide.Decision[TokenInfo]:
        return decide.create_token(image, token)

    return _answer(context, await context.services.quorum.submit(decision), index.hmac_of(token.token_id))


def _owner(request: CreateDelegationTokenRequest, requester: str) -> str:
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def _answer(context: RequestContext[TokenParts], token: TokenInfo, hmac: bytes) -> CreateDelegationTokenResponse:
    """Return what is told of a token; who asked for it is told where the version has a field for that."""
    owner = token.owner.partition(":")
    requester = token.requester.partition(":") if context.api_version >= REQUESTER_FROM else ("", "", "")
    return CreateDelegationTokenResponse(
        principal_type=owner[0],
        principal_name=owner[2],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
    )


DECIDES = Handler(CreateDelegationTokenRequest, versions=(1, 3), needs=NEEDS, handle=create, forwards=True)
HANDLER = Handler(
    CreateDelegationTokenRequest,
    versions=(1, 3),
    needs=NEEDS,
    handle=create_delegation_token,
    forwards=True,
    splits=True,
)

"""AlterUserScramCredentials (KIP-554): set and remove what SCRAM keeps of users' passwords."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

__all__ = ["HANDLER"]


async def alter_user_scram_credentials(
    context: RequestContext[ControllerParts], request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user by itself, and answer once that is committed."""

    def decision(image: Image) -> decide.Decision[list[tuple[str, KafkaError | None]]]:
        return decide.alter_scram_credentials(image, request)

    altered = await context.services.quorum.submit(decision)
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user, error in altered])


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=int(error.code) if error else 0,
        error_message=error.message if error else None,
    )


def refuse(request: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    """Say of every user that the request failed."""
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])


HANDLER = Handler(
    AlterUserScramCredentialsRequest,
    versions=(0, 0),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=alter_user_scram_credentials,
    error_response=refuse,
    forwards=True,
)

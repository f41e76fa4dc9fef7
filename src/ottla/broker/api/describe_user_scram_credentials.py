"""DescribeUserScramCredentials (KIP-554): who has which SCRAM credentials, without anything of them that is secret."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ImageParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

__all__ = ["HANDLER"]


def describe_user_scram_credentials(
    context: RequestContext[ImageParts], request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Tell mechanisms and iterations."""
    users = None if request.users is None else [each.name for each in request.users]
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_result(each) for each in decide.found_scram_credentials(context.services.image, users)],
    )


def _result(found: decide.FoundCredentials) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=found.user,
        error_code=int(found.error.code) if found.error else 0,
        error_message=found.error.message if found.error else "",
        credential_infos=[
            CredentialInfo(mechanism=mechanism.code, iterations=iterations)
            for mechanism, iterations in found.iterations
        ],
    )


def refuse(request: DescribeUserScramCredentialsRequest, error: KafkaError) -> DescribeUserScramCredentialsResponse:
    """Say of each user who was named, and of the whole, that the request failed."""
    code, text = int(error.code), error.message
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=text,
        results=[DescribeUserScramCredentialsResult(error_code=code, error_message=text) for _ in request.users or ()],
    )


HANDLER = Handler(
    DescribeUserScramCredentialsRequest,
    versions=(0, 0),
    needs=Needs(Operation.DESCRIBE, Resource.CLUSTER),
    handle=describe_user_scram_credentials,
    error_response=refuse,
)

"""CreateAcls (KIP-140): without an authorizer nothing is created, and each result says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base import KafkaError
from ottla.broker.requests.acls import disabled, reader
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

__all__ = ["HANDLER"]


def create_acls(context: RequestContext[AccessParts], request: CreateAclsRequest) -> CreateAclsResponse:
    """Raise SECURITY_DISABLED."""
    raise disabled("No Authorizer is configured.")


def refuse(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """Say of every ACL that the request failed."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=int(error.code), error_message=error.message) for _ in request.creations]
    )


def codes(request: CreateAclsRequest) -> Iterator[int]:
    """Yield what must not be UNKNOWN."""
    for each in request.creations:
        yield from (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)


HANDLER = Handler(
    CreateAclsRequest,
    versions=(1, 3),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=create_acls,
    read=reader(CreateAclsRequest, codes),
    error_response=refuse,
    forwards=True,
)

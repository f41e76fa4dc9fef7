"""CreateAcls (KIP-140): new access control entries, each by itself; without an authorizer each result says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.acls import check_has_acls, known_code, reader
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, decide
from ottla.security import Acl, Needs, Operation, PatternType, PermissionType, Resource
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

__all__ = ["HANDLER"]


async def create_acls(context: RequestContext[ControllerParts], request: CreateAclsRequest) -> CreateAclsResponse:
    """Make those that are valid and not there yet, and answer once they are committed."""
    check_has_acls(context, "No Authorizer is configured.")
    rng = context.services.rng
    entries = [_entry(each) for each in request.creations]

    def decision(image: Image) -> decide.Decision[list[KafkaError | None]]:
        return decide.create_acls(image, entries, rng=rng)

    return CreateAclsResponse(results=[_result(each) for each in await context.services.quorum.submit(decision)])


def _entry(asked: AclCreation) -> Acl:
    return Acl(
        known_code(Resource, asked.resource_type),
        asked.resource_name,
        known_code(PatternType, asked.resource_pattern_type),
        asked.principal,
        asked.host,
        known_code(Operation, asked.operation),
        known_code(PermissionType, asked.permission_type),
    )


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    return AclCreationResult(error_code=int(error.code), error_message=error.message)


def refuse(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """Say of every ACL that the request failed."""
    return CreateAclsResponse(results=[_result(error) for _ in request.creations])


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

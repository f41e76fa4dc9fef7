"""DeleteAcls (KIP-140): remove the entries that filters find; without an authorizer each result says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.acls import asked_filter, check_has_acls, reader
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import in_slices
from ottla.metadata import Image, decide
from ottla.security import Acl, Needs, Operation, Resource
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

__all__ = ["HANDLER"]


async def delete_acls(context: RequestContext[ControllerParts], request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Remove what is found, and answer once that is committed."""
    check_has_acls(context, "No Authorizer is configured.")
    filters = [asked_filter(each) for each in request.filters]
    found = await in_slices(context, decide.find_acls(context.services.image.acls, filters))

    def decision(image: Image) -> decide.Decision[list[decide.RemovedAcls]]:
        return decide.delete_acls(image, filters, found)

    return DeleteAclsResponse(filter_results=[_result(each) for each in await context.services.quorum.submit(decision)])


def _result(removed: decide.RemovedAcls) -> DeleteAclsFilterResult:
    if isinstance(removed, KafkaError):
        return DeleteAclsFilterResult(error_code=int(removed.code), error_message=removed.message)
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(each) for each in removed])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=int(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission_type),
        error_message=None,
    )


def refuse(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """Say of every filter that the request failed."""
    return DeleteAclsResponse(filter_results=[_result(error) for _ in request.filters])


def codes(request: DeleteAclsRequest) -> Iterator[int]:
    """Yield what must not be UNKNOWN."""
    for each in request.filters:
        yield from (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)


HANDLER = Handler(
    DeleteAclsRequest,
    versions=(1, 3),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=delete_acls,
    read=reader(DeleteAclsRequest, codes),
    error_response=refuse,
    forwards=True,
)

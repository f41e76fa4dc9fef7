"""DeleteAcls (KIP-140): without an authorizer nothing is deleted, and each result says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base import KafkaError
from ottla.broker.requests.acls import disabled, reader
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

__all__ = ["HANDLER"]


def delete_acls(context: RequestContext[AccessParts], request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Raise SECURITY_DISABLED."""
    raise disabled("No Authorizer is configured.")


def refuse(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """Say of every filter that the request failed."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=int(error.code), error_message=error.message) for _ in request.filters
        ]
    )


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

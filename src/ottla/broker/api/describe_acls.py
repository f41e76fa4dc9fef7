"""DescribeAcls (KIP-140): without an authorizer there are none, and the answer says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.requests.acls import disabled, reader
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

__all__ = ["HANDLER"]


def describe_acls(context: RequestContext[AccessParts], request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Raise SECURITY_DISABLED."""
    raise disabled("No Authorizer is configured on the broker")


def codes(request: DescribeAclsRequest) -> Iterator[int]:
    """Yield what must not be UNKNOWN."""
    yield from (request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)


HANDLER = Handler(
    DescribeAclsRequest,
    versions=(1, 3),
    needs=Needs(Operation.DESCRIBE, Resource.CLUSTER),
    handle=describe_acls,
    read=reader(DescribeAclsRequest, codes),
)

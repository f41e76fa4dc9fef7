"""DescribeAcls (KIP-140): the entries that a filter finds; without an authorizer there are none, and the answer says so."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.parts import ImageParts
from ottla.broker.requests.acls import asked_filter, check_has_acls, reader
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Acl, Needs, Operation, PatternType, Resource
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["HANDLER"]


def describe_acls(context: RequestContext[ImageParts], request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer with what is committed, by resource pattern."""
    check_has_acls(context, "No Authorizer is configured on the broker")
    by_pattern: dict[tuple[Resource, str, PatternType], list[Acl]] = {}
    for _, acl in decide.found_acls(context.services.image, asked_filter(request)):
        by_pattern.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=int(resource),
                resource_name=name,
                pattern_type=int(pattern),
                acls=[_description(each) for each in dict.fromkeys(acls)],
            )
            for (resource, name, pattern), acls in by_pattern.items()
        ]
    )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission_type),
    )


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

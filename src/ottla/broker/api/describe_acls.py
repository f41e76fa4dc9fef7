"""DescribeAcls (KIP-140): the entries that a filter finds; without an authorizer there are none, and the answer says so."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import groupby

from ottla.base import Uuid
from ottla.broker.parts import ImageParts
from ottla.broker.requests.acls import asked_filter, check_has_acls, reader
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import in_slices
from ottla.metadata import Image, decide
from ottla.security import Acl, AclFilter, Needs, Operation, PatternType, Resource
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["HANDLER"]

DESCRIBED = 100
"""Resources that are described between two yields."""


async def describe_acls(context: RequestContext[ImageParts], request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer with what is committed, by resource pattern."""
    check_has_acls(context, "No Authorizer is configured on the broker")
    return await in_slices(context, _answer(context.services.image, asked_filter(request)))


def _answer(image: Image, wanted: AclFilter) -> Generator[None, None, DescribeAclsResponse]:
    found = yield from decide.found_acls(image.acls, wanted)
    resources: list[DescribeAclsResource] = []
    for (resource, name, pattern), entries in groupby(found, _pattern):
        acls = dict.fromkeys(acl for _, acl in entries)
        described = DescribeAclsResource(
            resource_type=int(resource),
            resource_name=name,
            pattern_type=int(pattern),
            acls=[_description(each) for each in acls],
        )
        resources.append(described)
        if len(resources) % DESCRIBED == 0:
            yield
    return DescribeAclsResponse(resources=resources)


def _pattern(found: tuple[Uuid, Acl]) -> tuple[Resource, str, PatternType]:
    acl = found[1]
    return acl.resource_type, acl.resource_name, acl.pattern_type


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

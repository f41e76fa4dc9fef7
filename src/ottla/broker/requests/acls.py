"""What the three APIs of ACLs share: how a filter is read, what a request must not hold, and who keeps no ACLs.

Kafka offers them without an authorizer too and answers SECURITY_DISABLED; where they are missing, clients take the broker
for one that is too old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ottla.base import ErrorCode, KafkaError, WireError
from ottla.broker.requests.handler import AccessParts, RequestContext
from ottla.security import AclFilter, Operation, PatternType, PermissionType, Resource
from ottla.wire import Message, decode

__all__ = ["asked_filter", "check_has_acls", "known_code", "reader"]

M = TypeVar("M", bound=Message)
UNKNOWN = 0
"""The code of UNKNOWN in each of Kafka's four enumerations: resources, patterns, operations, permissions."""


def reader(request: type[M], codes: Callable[[M], Iterable[int]]) -> Callable[[memoryview, int, int], M]:
    """Return a handler's `read`; it raises WireError for a request with an UNKNOWN among its `codes`.

    Kafka's classes cannot hold such a request, so its broker closes the connection before it looks for an authorizer.
    """

    def read(frame: memoryview, version: int, position: int) -> M:
        message, _ = decode(request, frame, version, position)
        if UNKNOWN in codes(message):
            raise WireError(f"{request.__name__} contains UNKNOWN elements")
        return message

    return read


def check_has_acls(context: RequestContext[AccessParts], text: str) -> None:
    """Raise SECURITY_DISABLED, with Kafka's words, where no entries decide."""
    if not context.services.authorizer.has_acls:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, text)


Code = TypeVar("Code", Resource, PatternType, Operation, PermissionType)


def known_code(kind: type[Code], code: int) -> Code:
    """Return what a code stands for, UNKNOWN where that is nothing that is known here."""
    try:
        return kind(code)
    except ValueError:
        return kind(UNKNOWN)


class FilterFields(Protocol):
    """What has a filter's fields: DescribeAcls, and each filter of DeleteAcls."""

    @property
    def resource_type_filter(self) -> int:
        """The code of a `Resource`."""
        ...

    @property
    def resource_name_filter(self) -> str | None:
        """A name; None stands for every one."""
        ...

    @property
    def pattern_type_filter(self) -> int:
        """The code of a `PatternType`."""
        ...

    @property
    def principal_filter(self) -> str | None:
        """A principal; None stands for everyone."""
        ...

    @property
    def host_filter(self) -> str | None:
        """An address or `*`; None stands for every one."""
        ...

    @property
    def operation(self) -> int:
        """The code of an `Operation`."""
        ...

    @property
    def permission_type(self) -> int:
        """The code of a `PermissionType`."""
        ...


def asked_filter(asked: FilterFields) -> AclFilter:
    """Return the filter that a request holds."""
    return AclFilter(
        known_code(Resource, asked.resource_type_filter),
        asked.resource_name_filter,
        known_code(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        known_code(Operation, asked.operation),
        known_code(PermissionType, asked.permission_type),
    )

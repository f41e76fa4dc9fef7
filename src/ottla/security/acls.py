"""Access control entries as values: what an entry says, what a filter finds, and which entries may be made.

The codes are the protocol's (KIP-11, KIP-290). An entry that a newer version wrote may hold codes that are not known here:
they become UNKNOWN, which matches no operation, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Protocol, TypeVar

from ottla.base import ErrorCode, KafkaError
from ottla.security.access import CLUSTER_NAME, Operation, Resource

__all__ = [
    "ANYTHING",
    "ANY_HOST",
    "ANY_PRINCIPAL",
    "Acl",
    "AclFields",
    "AclFilter",
    "PatternType",
    "PermissionType",
    "acl_of",
    "check_acl",
    "check_filter",
    "java_host",
    "one_host",
]


class PatternType(IntEnum):
    """How an entry's resource name is meant: the codes of Kafka's `PatternType`."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an entry denies or allows: the codes of Kafka's `AclPermissionType`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


ANYTHING = "*"
"""The name of a LITERAL entry that is about every resource of its type."""
ANY_PRINCIPAL = "User:*"
"""The principal of an entry that is about everybody."""
ANY_HOST = "*"
"""The host of an entry that is about every address."""


class AclFields(Protocol):
    """What has an entry's fields: a record of the metadata log, and the image that it was folded into."""

    @property
    def resource_type(self) -> int:
        """The code of a `Resource`."""
        ...

    @property
    def resource_name(self) -> str:
        """The name, its beginning, or `*`."""
        ...

    @property
    def pattern_type(self) -> int:
        """The code of a `PatternType`."""
        ...

    @property
    def principal(self) -> str:
        """Type and name, with a colon between."""
        ...

    @property
    def host(self) -> str:
        """An address or `*`."""
        ...

    @property
    def operation(self) -> int:
        """The code of an `Operation`."""
        ...

    @property
    def permission_type(self) -> int:
        """The code of a `PermissionType`."""
        ...


@dataclass(frozen=True, slots=True)
class Acl:
    """One entry: who may or may not do what to which resources, coming from where."""

    resource_type: Resource
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType

    @property
    def pattern_text(self) -> str:
        """The resources as Kafka's tools print them."""
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.resource_name}, "
            f"patternType={self.pattern_type.name})"
        )

    @property
    def entry_text(self) -> str:
        """The rest as Kafka's tools print it."""
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


_Code = TypeVar("_Code", Resource, PatternType, Operation, PermissionType)


def _known(kind: type[_Code], code: int) -> _Code:
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def acl_of(fields: AclFields) -> Acl:
    """Return the entry that a record or an image holds."""
    return Acl(
        _known(Resource, fields.resource_type),
        fields.resource_name,
        _known(PatternType, fields.pattern_type),
        fields.principal,
        fields.host,
        _known(Operation, fields.operation),
        _known(PermissionType, fields.permission_type),
    )


_OPEN_PATTERNS = (PatternType.ANY, PatternType.MATCH)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """What DescribeAcls and DeleteAcls look for; None and ANY stand for everything.

    A pattern type of MATCH finds all entries that affect the named resource; ANY finds entries with exactly that name,
    whatever their type is. The operation ALL finds entries for ALL only.
    """

    resource_type: Resource = Resource.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: PermissionType = PermissionType.ANY

    def finds(self, acl: AclFields) -> bool:
        """Return whether the entry is among what is looked for."""
        return (
            self.resource_type in (Resource.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
            and self._finds_pattern(acl)
        )

    def _finds_pattern(self, acl: AclFields) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted is not PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, ANYTHING)

    @property
    def only(self) -> Acl | None:
        """The one entry that can be found, where nothing is left open."""
        resource, principal, host = self.resource_name, self.principal, self.host
        if resource is None or principal is None or host is None or self.pattern_type in _OPEN_PATTERNS:
            return None
        if Resource.ANY is self.resource_type or Operation.ANY is self.operation:
            return None
        if self.permission_type is PermissionType.ANY:
            return None
        what = self.resource_type, resource, self.pattern_type
        return Acl(*what, principal, host, self.operation, self.permission_type)


def check_acl(acl: Acl) -> None:
    """Raise INVALID_REQUEST, in Kafka's words where it has some, for an entry that CreateAcls must not make."""
    if acl.resource_type in (Resource.UNKNOWN, Resource.ANY):
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission_type.name}")
    if acl.resource_type is Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )


def check_filter(wanted: AclFilter) -> None:
    """Raise INVALID_REQUEST, in Kafka's words, for a filter with codes that are not known here."""
    if wanted.resource_type is Resource.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        raise _invalid("Unknown patternFilter.")
    if wanted.operation is Operation.UNKNOWN or wanted.permission_type is PermissionType.UNKNOWN:
        raise _invalid("Unknown entryFilter.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def one_host(host: str) -> str:
    """Return an address in one spelling, since version 6 has many, and version 4 inside of version 6 is version 4.

    What is no address, such as `*` and a host's name, stays as it is. A name is never met: nobody looks names up here.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def java_host(host: str) -> str:
    """Return an address as Java prints it, which is what Kafka's log lines hold: version 6 without `::`."""
    try:
        address = ip_address(one_host(host))
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    groups = (int.from_bytes(address.packed[at : at + 2], "big") for at in range(0, 16, 2))
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return ":".join(f"{each:x}" for each in groups) + scope

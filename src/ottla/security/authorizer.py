"""Who may do what, as Kafka's StandardAuthorizer decides it (KIP-801).

1. A super user may do everything.
2. Entries concern a resource of their type whose name is theirs, or begins with it (PREFIXED), or all of them (LITERAL `*`).
3. They concern their principal, or everybody (`User:*`), from their host, or from everywhere (`*`).
4. They concern their operation, or every one (ALL). What is *allowed* to READ, WRITE, DELETE or ALTER may be described, and
   configurations that may be altered may be described.
5. What an entry denies is denied; else what one allows is allowed; else a resource that any entry touches is denied, whoever
   that entry is about; the rest is as `allow.everyone.if.no.acl.found` says.

Decisions are kept until an entry changes that may have a say in them (`kept_decisions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.security.access import Operation, Resource
from ottla.security.acl_index import AclIndex
from ottla.security.acls import ANY_HOST, ANY_PRINCIPAL, ANYTHING, Acl, AclFilter, PatternType, PermissionType, one_host
from ottla.security.kept_decisions import Decision, KeptDecisions, Question

__all__ = ["AuthorizerNotReadyError", "StandardAuthorizer", "super_users"]

_IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


class AuthorizerNotReadyError(KafkaError):
    """The entries are still being loaded: nobody but super users may do anything yet."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, "The authorizer has not loaded its ACLs yet; try again later.")

    def __reduce__(self) -> tuple[type[AuthorizerNotReadyError], tuple[object, ...]]:
        return type(self), ()


SUPER_USER = Decision(True, "SuperUser")
DEFAULT_ALLOW = Decision(True, "DefaultAllow")
DEFAULT_DENY = Decision(False, "DefaultDeny")
_BY_ENTRY = "MatchingAcl"


def super_users(value: str) -> frozenset[str]:
    """Return the principals that `super.users` names; a `;` divides them, because names hold commas.

    Raises ConfigError for one without a type.
    """
    names = [each.strip() for each in value.split(";")]
    for name in names:
        if name and ":" not in name:
            raise ConfigError(
                "super.users", value, f"expected a string in format principalType:principalName but got {name}"
            )
    return frozenset(name for name in names if name)


class StandardAuthorizer:
    """The one owner of the entries in force on this node, and of what was decided by them."""

    def __init__(self, *, super_users: Iterable[str] = (), allow_everyone_if_no_acl_is_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = DEFAULT_ALLOW if allow_everyone_if_no_acl_is_found else DEFAULT_DENY
        self._acls = AclIndex()
        self._ready = False
        self._kept = KeptDecisions()
        self._decided = self._kept.by_question

    def __len__(self) -> int:
        return len(self._acls)

    @property
    def ready(self) -> bool:
        """True when entries have been loaded; before that only super users are let through."""
        return self._ready

    @property
    def decided(self) -> Mapping[Question, Decision]:
        """What was decided by the entries as they are: one and the same mapping, from which what a change touches goes."""
        return self._decided

    def load(self, acls: Mapping[bytes, Acl]) -> None:
        """Take over a snapshot's entries, by id, in place of all that were there."""
        self._acls = AclIndex(acls)
        self._ready = True
        self._kept.forget_all()

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Take in an applied AccessControlEntryRecord."""
        replaced = self._acls.get(acl_id)
        self._acls.add(acl_id, acl)
        for each in (acl, replaced):
            if each is not None:
                self._kept.forget(each)

    def remove(self, acl_id: bytes) -> None:
        """Drop what an applied RemoveAccessControlEntryRecord names; raises KeyError where there is no such entry."""
        self._kept.forget(self._acls.remove(acl_id))

    def has(self, acl: Acl) -> bool:
        """Return whether an equal entry is in force."""
        return self._acls.has(acl)

    def found(self, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
        """Return ids and entries that a filter finds."""
        return self._acls.found(wanted)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether a principal, asking from an address, may do this; raises AuthorizerNotReadyError."""
        return self.decide(principal, host, operation, resource, name).allowed

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        """Return whether it is allowed and why; raises AuthorizerNotReadyError while entries are being loaded."""
        key = (principal, host, operation, resource, name)
        known = self._decided.get(key)
        if known is not None:
            return known
        if principal in self._super_users:
            return SUPER_USER
        if not self._ready:
            raise AuthorizerNotReadyError
        found = self._by_entries(principal, one_host(host), operation, resource, name)
        self._kept.keep(key, found)
        return found

    def _by_entries(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        touched = False
        allowed_by: Acl | None = None
        for by_principal in self._acls.touching(resource, name):
            touched = True
            for each in (principal, ANY_PRINCIPAL):
                for acl, acl_host in by_principal.get(each, {}).items():
                    if acl_host not in (ANY_HOST, host) or not _concerns(acl, operation):
                        continue
                    if acl.permission_type is not PermissionType.ALLOW:
                        return Decision(False, _BY_ENTRY, acl)
                    allowed_by = acl
        if allowed_by is not None:
            return Decision(True, _BY_ENTRY, allowed_by)
        return DEFAULT_DENY if touched else self._default

    def allows_on_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether some resource of the type may be so used, be there one or not; raises AuthorizerNotReadyError.

        InitProducerId asks it (KIP-679). An allowing entry counts unless one that denies covers all that it is about: `*`,
        the same name, or a beginning of it.
        """
        if principal in self._super_users:
            return True
        if not self._ready:
            raise AuthorizerNotReadyError
        allowing: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        address = one_host(host)
        for acl, acl_host in self._acls.of_principals(resource, *{principal, ANY_PRINCIPAL}):
            if acl_host not in (ANY_HOST, address) or not _concerns(acl, operation):
                continue
            if acl.permission_type is PermissionType.ALLOW:
                allowing.append(acl)
            else:
                denied.add((acl.pattern_type, acl.resource_name))
        if (PatternType.LITERAL, ANYTHING) in denied:
            return False
        if any(not _is_covered(acl, denied) for acl in allowing):
            return True
        return self._default.allowed and not self._acls.touches_everything(resource)


def _concerns(acl: Acl, operation: Operation) -> bool:
    """Return whether an entry is about an operation."""
    if acl.operation in (Operation.ALL, operation):
        return True
    return acl.permission_type is PermissionType.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_covered(allowing: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether nothing is left of what an entry allows."""
    name = allowing.resource_name
    if allowing.pattern_type is PatternType.LITERAL and name == ANYTHING:
        return False
    if allowing.pattern_type is PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))

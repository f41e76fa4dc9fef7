"""Access control entries arranged so that those which concern one name and one principal are found without the others.

A name has few candidates: its own LITERAL entries, those of `*`, and the PREFIXED entries of its beginnings, of which only
lengths are tried that some entry has. Under each name entries stand by principal. So a decision costs the same beside ten
thousand entries as beside ten, unless they are about the same name and the same principal.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping

from ottla.security.access import Resource
from ottla.security.acls import ANYTHING, Acl, AclFilter, PatternType, one_host

__all__ = ["AclIndex"]

_ByPrincipal = dict[str, dict[Acl, str]]
"""Principal -> its entries, each with its host in the one spelling in which addresses are compared."""


class _Type:
    """The entries of one type of resource."""

    __slots__ = ("lengths", "literal", "names_of_length", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _ByPrincipal] = {}
        self.prefixed: dict[str, _ByPrincipal] = {}
        self.lengths: list[int] = []
        """The lengths of prefixes, ascending, each once."""
        self.names_of_length: dict[int, int] = {}

    def add(self, acl: Acl) -> None:
        names = self._names(acl)
        if acl.resource_name not in names:
            names[acl.resource_name] = {}
            if names is self.prefixed:
                self._count(len(acl.resource_name), 1)
        names[acl.resource_name].setdefault(acl.principal, {})[acl] = one_host(acl.host)

    def remove(self, acl: Acl) -> None:
        names = self._names(acl)
        principals = names[acl.resource_name]
        entries = principals[acl.principal]
        del entries[acl]
        if not entries:
            del principals[acl.principal]
        if not principals:
            del names[acl.resource_name]
            if names is self.prefixed:
                self._count(len(acl.resource_name), -1)

    def _names(self, acl: Acl) -> dict[str, _ByPrincipal]:
        return self.prefixed if acl.pattern_type is PatternType.PREFIXED else self.literal

    def _count(self, length: int, change: int) -> None:
        count = self.names_of_length.get(length, 0) + change
        if not count:
            del self.names_of_length[length]
            self.lengths.remove(length)
            return
        if length not in self.names_of_length:
            insort(self.lengths, length)
        self.names_of_length[length] = count

    def touching(self, name: str) -> Iterator[_ByPrincipal]:
        own = self.literal.get(name)
        if own is not None:
            yield own
        everything = self.literal.get(ANYTHING)
        if everything is not None and name != ANYTHING:
            yield everything
        most = len(name)
        for length in self.lengths:
            if length > most:
                return
            found = self.prefixed.get(name[:length])
            if found is not None:
                yield found


class AclIndex:
    """Entries by id, the one place that changes them; of equal entries under several ids one is in force until all went."""

    def __init__(self, acls: Mapping[bytes, Acl] | None = None) -> None:
        self._by_id: dict[bytes, Acl] = {}
        self._ids: dict[Acl, dict[bytes, None]] = {}
        self._types: dict[Resource, _Type] = {}
        for acl_id, acl in (acls or {}).items():
            self.add(acl_id, acl)

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Take an entry in, in place of what had the id before."""
        if acl_id in self._by_id:
            self.remove(acl_id)
        self._by_id[acl_id] = acl
        ids = self._ids.setdefault(acl, {})
        if not ids:
            self._types.setdefault(acl.resource_type, _Type()).add(acl)
        ids[acl_id] = None

    def get(self, acl_id: bytes) -> Acl | None:
        """Return the entry with this id, None where there is none."""
        return self._by_id.get(acl_id)

    def remove(self, acl_id: bytes) -> Acl:
        """Drop the entry with this id and return it; raises KeyError where there is none."""
        acl = self._by_id.pop(acl_id)
        ids = self._ids[acl]
        del ids[acl_id]
        if not ids:
            del self._ids[acl]
            self._types[acl.resource_type].remove(acl)
        return acl

    def has(self, acl: Acl) -> bool:
        """Return whether an equal entry is there: to make it again needs no record."""
        return acl in self._ids

    def found(self, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
        """Return ids and entries that a filter finds."""
        return [(acl_id, acl) for acl_id, acl in self._by_id.items() if wanted.finds(acl)]

    def touching(self, resource: Resource, name: str) -> Iterator[Mapping[str, Mapping[Acl, str]]]:
        """Yield, by principal and with their hosts, the entries whose pattern matches the name: whatever they are about."""
        entries = self._types.get(resource)
        return iter(()) if entries is None else entries.touching(name)

    def touches_everything(self, resource: Resource) -> bool:
        """Return whether some entry is about every resource of a type."""
        entries = self._types.get(resource)
        return entries is not None and ANYTHING in entries.literal

    def of_principals(self, resource: Resource, *principals: str) -> Iterator[tuple[Acl, str]]:
        """Yield every entry of a type of resource that is about one of the principals, with its host."""
        entries = self._types.get(resource)
        if entries is None:
            return
        for names in (entries.literal, entries.prefixed):
            for by_principal in names.values():
                for principal in principals:
                    yield from by_principal.get(principal, {}).items()

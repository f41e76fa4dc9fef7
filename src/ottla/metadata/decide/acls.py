"""Access control entries: which may be made, and which a filter removes (KIP-140, KIP-801)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from heapq import merge

from ottla.base import ErrorCode, KafkaError, Rng, Uuid, random_uuid
from ottla.metadata.acls import Acl, Acls
from ottla.metadata.decide.decision import Decision
from ottla.metadata.image import Image
from ottla.security import ANYTHING, AclFilter, PatternType, acl_of, check_acl, check_filter
from ottla.security import Acl as Entry
from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

__all__ = ["FoundAcls", "RemovedAcls", "create_acls", "delete_acls", "find_acls", "found_acls"]

CHANGES_MAX = 10_000
"""Entries that one request may make or remove."""
FOUND_MAX = 2 * CHANGES_MAX
"""What filters that find the same may find together: more is refused before it is sorted out."""
LOOKED_AT = 500
"""Entries that are looked at between two yields."""
RemovedAcls = Sequence[Entry] | KafkaError
"""What one filter removed, or why it could not be asked."""


def create_acls(image: Image, acls: Sequence[Entry], *, rng: Rng) -> Decision[list[KafkaError | None]]:
    """Choose the records that make these entries, each by itself; one that is there needs no record.

    Raises POLICY_VIOLATION for too many at once.
    """
    records: dict[Acl, AccessControlEntryRecord] = {}
    results: list[KafkaError | None] = []
    for entry in acls:
        try:
            check_acl(entry)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        acl = _kept(entry)
        if not image.acls.ids_of(acl) and acl not in records:
            records[acl] = _record(image, acl, rng)
            if len(records) > CHANGES_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return Decision(tuple(records.values()), results)


def _kept(entry: Entry) -> Acl:
    """Return an entry as an image holds it."""
    what = int(entry.resource_type), entry.resource_name, int(entry.pattern_type)
    return Acl(*what, entry.principal, entry.host, int(entry.operation), int(entry.permission_type))


def _record(image: Image, acl: Acl, rng: Rng) -> AccessControlEntryRecord:
    acl_id = random_uuid(rng)
    while acl_id in image.acls:
        acl_id = random_uuid(rng)
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


@dataclass(frozen=True, slots=True)
class FoundAcls:
    """What filters have found among entries, which may have changed by the time that it is used."""

    among: Acls
    ids: tuple[frozenset[Uuid], ...]
    """By filter."""

    def now(self, acls: Acls, at: int, wanted: AclFilter) -> set[Uuid]:
        """Return what a filter finds among other entries; only what differs is looked at."""
        if acls is self.among:
            return set(self.ids[at])
        changes = acls.changes_since(self.among)
        return set(self.ids[at]).difference(changes.removed) | {
            acl_id for acl_id in changes.added if wanted.finds(acls[acl_id])
        }


class _Index:
    """Entries by each field whose values are without number, so that many filters need not look at all entries each.

    Filters that leave all three fields open differ in Kafka's codes only: there are not many of these.
    """

    def __init__(self) -> None:
        self._all: list[tuple[Uuid, Acl]] = []
        self._by_name: dict[str, list[tuple[Uuid, Acl]]] = {}
        self._by_principal: dict[str, list[tuple[Uuid, Acl]]] = {}
        self._by_host: dict[str, list[tuple[Uuid, Acl]]] = {}
        self._lengths: tuple[int, ...] = ()

    def fill(self, acls: Acls) -> Generator[None, None, None]:
        """Take in all entries; yields now and then."""
        for looked, each in enumerate(acls.items()):
            acl = each[1]
            self._all.append(each)
            self._by_name.setdefault(acl.resource_name, []).append(each)
            self._by_principal.setdefault(acl.principal, []).append(each)
            self._by_host.setdefault(acl.host, []).append(each)
            if looked % LOOKED_AT == 0:
                yield
        self._lengths = tuple(sorted({len(name) for name in self._by_name}))

    def among(self, wanted: AclFilter) -> Sequence[tuple[Uuid, Acl]]:
        """Return the fewest entries among which are all that a filter finds."""
        found = [self._all]
        if wanted.principal is not None:
            found.append(self._by_principal.get(wanted.principal, []))
        if wanted.host is not None:
            found.append(self._by_host.get(wanted.host, []))
        if wanted.resource_name is not None:
            found.append(self._named(wanted, wanted.resource_name))
        return min(found, key=len)

    def _named(self, wanted: AclFilter, name: str) -> list[tuple[Uuid, Acl]]:
        if wanted.pattern_type is not PatternType.MATCH:
            return self._by_name.get(name, [])
        begun = {name[:length] for length in self._lengths if length <= len(name)}
        return [each for one in (*begun, *({ANYTHING} - begun)) for each in self._by_name.get(one, ())]


def find_acls(acls: Acls, filters: Sequence[AclFilter]) -> Generator[None, None, FoundAcls]:
    """Look for what filters find; yields now and then, since there may be many of both."""
    found: list[frozenset[Uuid]] = []
    known: dict[AclFilter, frozenset[Uuid]] = {}
    index: _Index | None = None
    count = 0
    for wanted in filters:
        yield
        only = wanted.only
        if only is not None:
            found.append(frozenset(acls.ids_of(_kept(only))))
            continue
        if wanted not in known:
            if index is None:
                index = _Index()
                yield from index.fill(acls)
            known[wanted] = yield from _found(index.among(wanted), wanted)
        found.append(known[wanted])
        count += len(found[-1])
        if count > FOUND_MAX:
            text = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    return FoundAcls(acls, tuple(found))


def _found(among: Sequence[tuple[Uuid, Acl]], wanted: AclFilter) -> Generator[None, None, frozenset[Uuid]]:
    ids = set()
    for looked, (acl_id, acl) in enumerate(among):
        if wanted.finds(acl):
            ids.add(acl_id)
        if looked % LOOKED_AT == 0:
            yield
    return frozenset(ids)


def delete_acls(image: Image, filters: Sequence[AclFilter], found: FoundAcls) -> Decision[list[RemovedAcls]]:
    """Choose the records that remove what these filters find; what several find is removed once and told of by each.

    Raises POLICY_VIOLATION where they find too many.
    """
    removed: dict[Uuid, None] = {}
    results: list[RemovedAcls] = []
    for at, wanted in enumerate(filters):
        try:
            check_filter(wanted)
        except KafkaError as error:
            results.append(error)
            continue
        entries = sorted(
            ((acl_id, acl_of(image.acls[acl_id])) for acl_id in found.now(image.acls, at, wanted)), key=_in_order
        )
        removed.update((acl_id, None) for acl_id, _ in entries)
        results.append([entry for _, entry in entries])
        if len(removed) > CHANGES_MAX:
            text = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    return Decision(tuple(RemoveAccessControlEntryRecord(id=each) for each in removed), results)


def found_acls(acls: Acls, wanted: AclFilter) -> Generator[None, None, list[tuple[Uuid, Entry]]]:
    """Return ids and entries that a filter finds, in an order that is always the same; yields now and then."""
    only = wanted.only
    if only is not None:
        return [(acl_id, only) for acl_id in acls.ids_of(_kept(only))]
    parts: list[list[tuple[Uuid, Entry]]] = [[]]
    for looked, (acl_id, acl) in enumerate(acls.items()):
        if wanted.finds(acl):
            parts[-1].append((acl_id, acl_of(acl)))
        if looked % LOOKED_AT == 0:
            parts[-1].sort(key=_in_order)
            parts.append([])
            yield
    parts[-1].sort(key=_in_order)
    found = []
    for at, each in enumerate(merge(*parts, key=_in_order)):
        found.append(each)
        if at % LOOKED_AT == 0:
            yield
    return found


def _in_order(found: tuple[Uuid, Entry]) -> tuple[int, str, int, Uuid]:
    acl_id, acl = found
    return acl.resource_type, acl.resource_name, acl.pattern_type, acl_id

"""The access control entries of an image: by id, by what they say, and what differs between two images.

An authorizer follows a hundred changes a second beside ten thousand entries, so entries know by what they differ from those
that they were made of, others are compared without a walk over what is the same in both, and an entry that is to be made is
found without a walk over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from immutables import Map

from ottla.base import Uuid

__all__ = ["NO_ACLS", "Acl", "AclChanges", "Acls"]

BUCKETS = 256
"""Maps into which entries are put, by their ids' first byte."""


@dataclass(frozen=True, slots=True)
class Acl:
    """One access control entry, in the protocol's codes."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclChanges(NamedTuple):
    """What came and what went from one image to another; an id whose entry says something else now is in both."""

    added: tuple[Uuid, ...]
    removed: tuple[Uuid, ...]


_NO_CHANGES = AclChanges((), ())
_Bucket = Map[Uuid, Acl]
_NO_IDS: Map[Acl, tuple[Uuid, ...]] = Map()


class Acls:
    """Entries by id, immutable: `with_acl` and `without` return another value."""

    __slots__ = ("_buckets", "_ids", "_made_of", "_size", "_step")

    def __init__(
        self,
        buckets: tuple[_Bucket, ...] = (Map(),) * BUCKETS,
        ids: Map[Acl, tuple[Uuid, ...]] = _NO_IDS,
        size: int = 0,
        *,
        made_of: tuple[_Bucket, ...] | None = None,
        step: AclChanges = _NO_CHANGES,
    ) -> None:
        self._buckets = buckets
        self._ids = ids
        self._size = size
        self._made_of, self._step = made_of, step
        """The buckets one step before, none of which but one is kept alive by that, and the step."""

    def __len__(self) -> int:
        return self._size

    def __contains__(self, acl_id: object) -> bool:
        return isinstance(acl_id, bytes) and acl_id in self._buckets[acl_id[0]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acls) and self._buckets == other._buckets

    def __hash__(self) -> int:
        return hash(self._buckets)

    def __getitem__(self, acl_id: Uuid) -> Acl:
        return self._buckets[acl_id[0]][acl_id]

    def items(self) -> Iterator[tuple[Uuid, Acl]]:
        """Yield ids and entries, in no order."""
        for bucket in self._buckets:
            yield from bucket.items()

    def ids_of(self, acl: Acl) -> tuple[Uuid, ...]:
        """Return the ids of the entries that say exactly this."""
        return self._ids.get(acl, ())

    def with_acl(self, acl_id: Uuid, acl: Acl) -> Acls:
        """Return these with an entry, in place of what had the id."""
        if acl_id in self and self[acl_id] == acl:
            return self
        base = self.without(acl_id) if acl_id in self else self
        ids = base._ids.set(acl, (*base.ids_of(acl), acl_id))
        buckets = base._with_bucket(acl_id, base._buckets[acl_id[0]].set(acl_id, acl))
        step = AclChanges((acl_id,), (acl_id,) if base is not self else ())
        return Acls(buckets, ids, base._size + 1, made_of=self._buckets, step=step)

    def without(self, acl_id: Uuid) -> Acls:
        """Return these without an entry; raises KeyError where there is none of this id."""
        acl = self[acl_id]
        left = tuple(each for each in self._ids[acl] if each != acl_id)
        ids = self._ids.set(acl, left) if left else self._ids.delete(acl)
        buckets = self._with_bucket(acl_id, self._buckets[acl_id[0]].delete(acl_id))
        return Acls(buckets, ids, self._size - 1, made_of=self._buckets, step=AclChanges((), (acl_id,)))

    def _with_bucket(self, acl_id: Uuid, bucket: _Bucket) -> tuple[_Bucket, ...]:
        at = acl_id[0]
        return (*self._buckets[:at], bucket, *self._buckets[at + 1 :])

    def changes_since(self, old: Acls) -> AclChanges:
        """Return what these have and `old` has not, and the reverse."""
        if old._buckets is self._made_of:
            return self._step
        added: list[Uuid] = []
        removed: list[Uuid] = []
        for before, after in zip(old._buckets, self._buckets, strict=True):
            if before is not after:
                added += _differing(after, before)
                removed += _differing(before, after)
        return AclChanges(tuple(added), tuple(removed))


def _differing(these: _Bucket, those: _Bucket) -> list[Uuid]:
    """Return the ids of what the others lack, or have otherwise; hardly any entry but the very same has to be compared."""
    found = []
    for acl_id, acl in these.items():
        other = those.get(acl_id)
        if other is not acl and other != acl:
            found.append(acl_id)
    return found


NO_ACLS = Acls()
"""Before the first entry."""

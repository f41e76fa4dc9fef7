"""GTIDs: what has been executed, as MySQL and MariaDB write it. Pure.

MySQL's is a set: by source (a UUID, with a tag since 8.3) the intervals of transactions. MariaDB's has for each domain the
last transaction, `domain-server-sequence`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.connect import DataError

__all__ = ["GtidState", "MariaDbGtids", "MySqlGtids"]

_SOURCE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}$")
_INTERVAL: Final = re.compile(r"(\d+)(?:-(\d+))?$")
_MARIADB: Final = re.compile(r"(\d+)-(\d+)-(\d+)$")
Intervals = tuple[tuple[int, int], ...]
"""First and last transactions, in order, with gaps between."""


class GtidState(Protocol):
    """What has been executed."""

    def plus(self, gtid: str) -> GtidState:
        """Return it with one more transaction."""
        ...

    def holds(self, other: str) -> bool:
        """Whether all of another state, as text, was executed."""
        ...


def _merged(intervals: list[tuple[int, int]]) -> Intervals:
    found: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MySqlGtids:
    """A set of MySQL's GTIDs; sources are `uuid` or `uuid:tag`."""

    sources: Mapping[str, Intervals]

    @classmethod
    def of(cls, text: str) -> MySqlGtids:
        """Read `uuid:1-5:7,uuid:tag:1`; raises DataError for what is none."""
        found: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, (each.strip().lower() for each in text.split(","))):
            source, *rest = (each.strip() for each in part.split(":"))
            if not _SOURCE.match(source) or not rest:
                raise DataError(f"{part!r} is no GTID of MySQL's")
            name = source
            for each in rest:
                match = _INTERVAL.match(each)
                if match is None:
                    if not _TAG.match(each):
                        raise DataError(f"{part!r} is no GTID of MySQL's")
                    name = f"{source}:{each}"
                    continue
                first, last = int(match[1]), int(match[2] or match[1])
                if first < 1 or last < first:
                    raise DataError(f"{part!r} has an interval that ends before it begins")
                found.setdefault(name, []).append((first, last))
        return cls({name: _merged(intervals) for name, intervals in found.items()})

    def plus(self, gtid: str) -> MySqlGtids:
        """Return it with one more transaction."""
        more = MySqlGtids.of(gtid)
        names = {**self.sources, **more.sources}
        return MySqlGtids({name: _merged([*self.sources.get(name, ()), *more.sources.get(name, ())]) for name in names})

    def holds(self, other: str) -> bool:
        """Whether all of another set was executed."""
        return all(
            any(low <= first and last <= high for low, high in self.sources.get(name, ()))
            for name, intervals in MySqlGtids.of(other).sources.items()
            for first, last in intervals
        )

    def __str__(self) -> str:
        parts = []
        for name, intervals in self.sources.items():
            texts = (str(first) if first == last else f"{first}-{last}" for first, last in intervals)
            parts.append(":".join((name, *texts)))
        return ",".join(parts)


@dataclass(frozen=True, slots=True)
class MariaDbGtids:
    """MariaDB's position: by domain the server and the number of its last transaction."""

    domains: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> MariaDbGtids:
        """Read `0-1-100,1-2-7`; raises DataError for what is none."""
        found: dict[int, tuple[int, int]] = {}
        for part in filter(None, (each.strip() for each in text.split(","))):
            match = _MARIADB.match(part)
            if match is None:
                raise DataError(f"{part!r} is no GTID of MariaDB's")
            domain, server, number = map(int, match.groups())
            if number >= found.get(domain, (0, 0))[1]:
                found[domain] = (server, number)
        return cls(found)

    def plus(self, gtid: str) -> MariaDbGtids:
        """Return it with one more transaction."""
        return MariaDbGtids({**self.domains, **MariaDbGtids.of(gtid).domains})

    def holds(self, other: str) -> bool:
        """Whether another position is this one or before it."""
        return all(
            number <= self.domains.get(domain, (0, 0))[1]
            for domain, (_, number) in MariaDbGtids.of(other).domains.items()
        )

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.domains.items()))

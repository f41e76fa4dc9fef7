"""GTIDs: what has been executed, as MySQL and MariaDB write it. Pure.

MySQL's is a set: by source (a UUID, with a tag since 8.3) the intervals of transactions. MariaDB's has for each domain the
last transaction, `domain-server-sequence`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.connect import ConnectError, DataError, compile_java

__all__ = ["Executed", "GtidFilter", "GtidState", "MariaDbGtids", "MySqlGtids", "gtid_state"]

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

    def only(self, wanted: Callable[[str], bool]) -> GtidState:
        """Return the transactions of some sources: a server's UUID, or MariaDB's `domain-server`."""
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

    def only(self, wanted: Callable[[str], bool]) -> MySqlGtids:
        """Return the transactions of some sources."""
        return MySqlGtids({name: each for name, each in self.sources.items() if wanted(name.partition(":")[0])})

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

    @staticmethod
    def last_of_servers(text: str) -> dict[tuple[int, int], int]:
        """Read `gtid_binlog_state`: by domain and server the number of its last transaction; raises DataError."""
        parts = filter(None, (each.strip() for each in text.split(",")))
        return {
            (domain, server): number
            for each in parts
            for domain, (server, number) in MariaDbGtids.of(each).domains.items()
        }

    def plus(self, gtid: str) -> MariaDbGtids:
        """Return it with one more transaction."""
        return MariaDbGtids({**self.domains, **MariaDbGtids.of(gtid).domains})

    def holds(self, other: str) -> bool:
        """Whether another position is this one or before it."""
        return all(
            number <= self.domains.get(domain, (0, 0))[1]
            for domain, (_, number) in MariaDbGtids.of(other).domains.items()
        )

    def only(self, wanted: Callable[[str], bool]) -> MariaDbGtids:
        """Return the domains whose last transactions are of some sources."""
        return MariaDbGtids({domain: last for domain, last in self.domains.items() if wanted(f"{domain}-{last[0]}")})

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.domains.items()))


def gtid_state(text: str) -> GtidState:
    """Return GTIDs of either server; raises DataError for what is none."""
    return MySqlGtids.of(text) if ":" in text else MariaDbGtids.of(text)


@dataclass(frozen=True, slots=True)
class Executed:
    """What a server can go on behind."""

    state: str
    """MySQL's set of all transactions; with MariaDB the last of each server in each domain that the binlog ever had."""
    replicated: str = ""
    """With MariaDB the last of each domain that came from another server, where the binlog has all that come next."""
    own: str = ""
    """MySQL's UUID of the server, whose transactions the binlog may have while they are not executed yet."""

    def without(self, mine: GtidState) -> str:
        """Return what of a state it is not behind, '' where it can go on behind all of it."""
        if isinstance(mine, MySqlGtids):
            whole = MySqlGtids.of(self.state)
            others = {name: each for name, each in mine.sources.items() if name.partition(":")[0] != self.own.lower()}
            found = {name: each for name, each in others.items() if not whole.holds(str(MySqlGtids({name: each})))}
            return str(MySqlGtids(found))
        assert isinstance(mine, MariaDbGtids)
        last = MariaDbGtids.last_of_servers(self.state)
        known = MariaDbGtids.of(self.replicated).domains
        return str(
            MariaDbGtids(
                {
                    domain: (server, number)
                    for domain, (server, number) in mine.domains.items()
                    if last.get((domain, server), -1) < number and known.get(domain) != (server, number)
                }
            )
        )


class GtidFilter:
    """Which sources of transactions are looked at (`gtid.source.includes`, `excludes`); raises ConnectError for both."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        included, excluded = (
            [
                compile_java(f"(?i){each.strip()}")
                for each in (settings[f"gtid.source.{how}"] or "").split(",")
                if each.strip()
            ]
            for how in ("includes", "excludes")
        )
        if included and excluded:
            raise ConnectError("gtid.source.includes and gtid.source.excludes cannot both be given")
        self._included, self._excluded = included, excluded
        self._filters_rows = bool(settings["gtid.source.filter.dml.events"])

    def _has(self, source: str) -> bool:
        if self._included:
            return any(each.fullmatch(source) for each in self._included)
        return not any(each.fullmatch(source) for each in self._excluded)

    def has_rows(self, gtid: str) -> bool:
        """Whether the rows of a transaction are told."""
        if not gtid or not self._filters_rows or not (self._included or self._excluded):
            return True
        return self._has(gtid.lower().partition(":")[0] if ":" in gtid else gtid.rpartition("-")[0])

    def holds(self, mine: str, oldest: str) -> bool:
        """Whether nothing that matters is missing between what was read and the beginning of the binlog."""
        return gtid_state(mine).holds(str(gtid_state(oldest).only(self._has)))

    def missing(self, mine: str, executed: Executed) -> str:
        """Return what matters of what was read and a server has not executed, '' where it has it all."""
        return executed.without(gtid_state(mine).only(self._has))

    def start(self, mine: str, oldest: str) -> str:
        """Return behind which transactions to read, of what was read and what the binlog begins behind.

        What a server has no more of sources that are not looked at is not asked for.
        """
        missing = str(gtid_state(oldest).only(lambda each: not self._has(each)))
        if not missing or gtid_state(mine).holds(missing):
            return mine
        return str(gtid_state(mine).plus(missing))

"""What a server knows from its commands: the catalogue, the queries, the settings that ALTER SYSTEM has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.errors import SqlError
from ottla.sql.plan import QueryPlan
from ottla.sql.tree import queries as q

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A query that runs until it is ended: what it reads and writes, and the statement that made it."""

    id: str
    statement: str
    plan: QueryPlan
    tree: q.Query
    sink: Source
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_paused: bool = False
    makes_sink: bool = True
    """False for INSERT INTO, which writes a stream that is another's."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the streams and tables that it reads, each once."""
        return sources_of(self.tree)


def sources_of(query: q.Query) -> tuple[str, ...]:
    """The names of the streams and tables of a query, each once."""
    return tuple(dict.fromkeys([query.source.name, *(each.right.name for each in query.joins)]))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A command that could not be carried out: why, and the id of the query that does not run."""

    words: str
    query_id: str | None


@dataclass(frozen=True, slots=True)
class ServerState:
    """Never changed, only replaced."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    queries: Mapping[str, PersistentQuery] = field(default_factory=lambda: MappingProxyType({}))
    statements: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By source, the statement that made it as it is now."""
    system: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What ALTER SYSTEM has set, which holds for queries that begin afterwards."""
    left_out: Mapping[str, LeftOut] = field(default_factory=lambda: MappingProxyType({}))
    """By what it is about, what could not be carried out, and is not dropped, terminated or made again since."""

    def query(self, id_: str) -> PersistentQuery:
        """The query of an id; raises SqlError where there is none."""
        found = self.queries.get(id_)
        if found is None:
            raise SqlError(f"Unknown queryId: {id_}")
        return found

    def readers(self, name: str) -> tuple[str, ...]:
        """The ids of the queries that read a source, in order."""
        return tuple(sorted(each.id for each in self.queries.values() if name in each.sources))

    def writers(self, name: str) -> tuple[str, ...]:
        """The ids of the queries that write a source, in order."""
        return tuple(sorted(each.id for each in self.queries.values() if each.sink.name == name))

    def with_query(self, query: PersistentQuery) -> ServerState:
        """The state with a query, in the place of the one of its id."""
        return replace(self, queries=_with(self.queries, query.id, query))

    def without_queries(self, ids: Iterable[str]) -> ServerState:
        """The state without some queries."""
        return replace(self, queries=_without(self.queries, ids))

    def with_statement(self, name: str, statement: str) -> ServerState:
        """The state with what made a source."""
        return replace(self, statements=_with(self.statements, name, statement))

    def without_source(self, name: str) -> ServerState:
        """The state without a source."""
        return replace(
            self, catalogue=self.catalogue.without_source(name), statements=_without(self.statements, (name,))
        )

    def with_system(self, name: str, value: str) -> ServerState:
        """The state with a setting of ALTER SYSTEM, behind those before it."""
        return replace(self, system=_with(_without(self.system, (name,)), name, value))

    def is_left_out(self, about: str) -> bool:
        """Whether a command about a thing could not be carried out, and counts still."""
        return about in self.left_out

    def leaving_out(self, about: str, found: LeftOut) -> ServerState:
        """The state with a command that could not be carried out; of several about one thing the first is told."""
        return self if about in self.left_out else replace(self, left_out=_with(self.left_out, about, found))

    def without_left_out(self, abouts: Iterable[str]) -> ServerState:
        """The state where nothing of these is missing any more."""
        return replace(self, left_out=_without(self.left_out, abouts)) if self.left_out else self

    def settings_under(self, properties: Mapping[str, str]) -> dict[str, str]:
        """What ALTER SYSTEM has set, and a session's own behind it: of two spellings of one property the last one counts."""
        return {**_without(self.system, properties), **properties}


def _with(found: Mapping[str, V], key: str, value: V) -> Mapping[str, V]:
    return MappingProxyType({**found, key: value})


def _without(found: Mapping[str, V], keys: Iterable[str]) -> Mapping[str, V]:
    gone = set(keys)
    return MappingProxyType({key: value for key, value in found.items() if key not in gone})

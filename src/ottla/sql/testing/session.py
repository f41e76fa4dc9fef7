"""What the statements of a case have made so far: sources, settings, queries, and the records of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.errors import SqlError
from ottla.sql.formats import SchemaRegistry
from ottla.sql.plan import QueryPlan
from ottla.streams import Record

PARTITIONS_DEFAULT = 4
"""How many partitions a topic has where nothing is said, as in ksqlDB's test runner."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of a topic: whether a statement or a query wrote it, and which."""

    record: Record
    was_written: bool
    by_query: bool = False
    turn: int = 0
    """Where it stands among all that was given, over all topics."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A record that a statement expects next of a query that writes a source, its time in milliseconds."""

    source: str
    row: Mapping[str, object]
    tombstone: bool
    time: int | None


@dataclass(slots=True)
class Session:
    """What the statements so far have made."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    queries: list[QueryPlan] = field(default_factory=list)
    topics: dict[str, list[Stored]] = field(default_factory=dict)

    numbered: int = 0
    """How many queries there have been."""
    turns: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions topics have that are there before the statements."""
    paused: set[str] = field(default_factory=set)
    """The queries that read nothing."""
    expected: list[Expected] = field(default_factory=list)

    @property
    def registry(self) -> SchemaRegistry | None:
        """The case's schemas."""
        return self.catalogue.registry

    def partition(self, name: str) -> None:
        """Have a source know how many partitions its topic has, where its statement has not said it."""
        source = self.catalogue.source(name)
        if source.partitions is None:
            known = self.partitions.get(source.topic, PARTITIONS_DEFAULT)
            self.catalogue = self.catalogue.with_source(replace(source, partitions=known))

    def known_topics(self) -> dict[str, int | None]:
        """The topics that there are, and how many partitions each has."""
        made = {source.topic: source.partitions for source in self.catalogue.sources.values()}
        return {**made, **self.partitions}

    def query(self, id_: str) -> QueryPlan:
        """A query by its id, in any case of letters; raises SqlError where there is none."""
        found = next((each for each in self.queries if each.id.upper() == id_.upper()), None)
        if found is None:
            raise SqlError(f"Query with id:{id_} does not exist, use SHOW QUERIES to view the full set of queries.")
        return found

    def control(self, action: str, id_: str | None) -> None:
        """TERMINATE, PAUSE or RESUME a query, or all; raises SqlError for an id that is not known."""
        known = [each for each in self.queries if id_ is None or each.id.upper() == id_.upper()]
        if not known and id_ is not None:
            raise SqlError(f"Unknown queryId: {id_}")
        for each in known:
            if action == "TERMINATE":
                self.queries.remove(each)
            elif action == "PAUSE":
                self.paused.add(each.id)
            else:
                self.paused.discard(each.id)

    def end(self, name: str) -> None:
        """End the query that makes a source which is dropped; raises SqlError where others need the source."""
        source = self.catalogue.sources.get(name)
        readers = [each for each in self.queries if any(of.name == name for of in each.sources)]
        writers = [each for each in self.queries if each.sink.name == name and each.id != each.sink.made_by]
        made = sorted({each.sink.name for each in readers if each.id == each.sink.made_by and each.sink.name != name})
        if made:
            raise SqlError(
                f"Cannot drop {name}.\nThe following streams and/or tables read from this source: [{', '.join(made)}].\n"
                f"You need to drop them before dropping {name}."
            )
        others = [each for each in (*readers, *writers) if each.sink.name != name or each in writers]
        if others:
            lists = [", ".join(dict.fromkeys(each.id for each in listed)) for listed in (readers, writers)]
            raise SqlError(
                f"Cannot drop {name}.\nThe following queries read from this source: [{lists[0]}].\n"
                f"The following queries write into this source: [{lists[1]}].\n"
                f"You need to terminate them before dropping {name}."
            )
        self.queries = [each for each in self.queries if source is None or each.id != source.made_by]

    def add(self, topic: str, record: Record, *, was_written: bool, by_query: bool = False) -> None:
        """Put a record behind those of a topic."""
        held = self.topics.setdefault(topic, [])
        placed = record._replace(topic=topic, partition=0, offset=len(held))
        self.turns += 1
        held.append(Stored(placed, was_written, by_query, self.turns))

    def read_by(self, plan: QueryPlan) -> list[Record]:
        """What a query reads: what was given, in one order over its topics, then what queries wrote, topic by topic."""
        topics = dict.fromkeys(source.topic for source in plan.sources)
        held = [stored for topic in topics for stored in self.topics.get(topic, ())]
        given = sorted((each for each in held if not each.by_query), key=lambda each: each.turn)
        return [each.record for each in (*given, *(each for each in held if each.by_query))]

    def source_over(self, topic: str) -> Source | None:
        """The source whose layout says what a topic's bytes are: the first one over it."""
        return next((source for source in self.catalogue.sources.values() if source.topic == topic), None)

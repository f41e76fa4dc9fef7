"""Runs a case: statements one after the other, then each query over its topic, in Python and without caches."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.commands.replacing import check_replacement
from ottla.sql.definitions import define
from ottla.sql.errors import ParseError, SqlError, UnsupportedError
from ottla.sql.formats import SchemaRegistry
from ottla.sql.inserting import inserted
from ottla.sql.lowering import application_id, topology_of
from ottla.sql.parser.texts import split_statements
from ottla.sql.plan import QueryPlan
from ottla.sql.planning import check_upgrade, plan_create_as, plan_insert
from ottla.sql.registration import with_registered
from ottla.sql.testing.payloads import Window, bytes_of, key_and_window, value_of, windowed_bytes
from ottla.sql.testing.topics import LazyRegistry
from ottla.sql.tree import statements as s
from ottla.streams import EngineSettings, Executor, ProcessingError, Record, SourceNode

SERVICE_ID = "default_"
Headers = tuple[tuple[str, bytes | None], ...]
Category = Literal["parse", "statement", "runtime"]


PARTITIONS_DEFAULT = 4
"""How many partitions a topic has where nothing is said, as in ksqlDB's test runner."""


_TOO_DEEP = (
    "Error processing statement: Statement is too large to parse. This may be caused by having too many nested "
    "expressions in the statement."
)


class Refused(SqlError):
    """A case that was refused: when, and in which words."""

    def __init__(self, category: Category, message: str) -> None:
        super().__init__(message)
        self.category = category


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """A record as a case shows it: a key and a value in JSON's terms, decimals with their scale."""

    topic: str
    key: object
    value: object
    timestamp: int
    headers: Headers = ()
    window: Window | None = None

    def shown(self) -> dict[str, object]:
        """The record as one of output.json's."""
        headers = [
            {"KEY": name, "VALUE": None if value is None else base64.b64encode(value).decode()}
            for name, value in self.headers
        ]
        return {
            "topic": self.topic,
            "key": self.key,
            "value": self.value,
            "timestamp": self.timestamp,
            "window": None if self.window is None else self.window.shown(),
            "headers": headers,
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    record: Record
    was_written: bool
    by_query: bool = False
    turn: int = 0
    """Where it stands among all that was given, over all topics."""


@dataclass(slots=True)
class _Session:
    """What the statements so far have made."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    queries: list[QueryPlan] = field(default_factory=list)
    topics: dict[str, list[_Stored]] = field(default_factory=dict)

    numbered: int = 0
    """How many queries there have been."""
    turns: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many partitions topics have that are there before the statements."""

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
        held = self.topics.setdefault(topic, [])
        placed = record._replace(topic=topic, partition=0, offset=len(held))
        self.turns += 1
        held.append(_Stored(placed, was_written, by_query, self.turns))

    def read_by(self, plan: QueryPlan) -> list[Record]:
        """What a query reads: what was given, in one order over its topics, then what queries wrote, topic by topic."""
        topics = dict.fromkeys(source.topic for source in plan.sources)
        held = [stored for topic in topics for stored in self.topics.get(topic, ())]
        given = sorted((each for each in held if not each.by_query), key=lambda each: each.turn)
        return [each.record for each in (*given, *(each for each in held if each.by_query))]

    def source_over(self, topic: str) -> Source | None:
        """The source whose layout says what a topic's bytes are: the first one over it."""
        return next((source for source in self.catalogue.sources.values() if source.topic == topic), None)


def run_case(
    text: str, inputs: Iterable[Mapping[str, object]], topics: Iterable[Mapping[str, object]] = ()
) -> list[CaseRecord]:
    """Run statements over input records, and return what was written, topic by topic.

    `inputs` are input.json's records, decimals as `Decimal`; `topics` are those of case.json, which are there with their
    schemas before the statements. Raises `Refused` with ksqlDB's words, and UnsupportedError for
    what does not run yet.
    """
    try:
        return _run_case(text, inputs, list(topics))
    except RecursionError:
        raise Refused("statement", _TOO_DEEP) from None


def _run_case(
    text: str, inputs: Iterable[Mapping[str, object]], listed: Sequence[Mapping[str, object]]
) -> list[CaseRecord]:
    session = _Session(Catalogue(registry=LazyRegistry(listed)), partitions=_partitions(listed))
    _carry_out(text, session)
    for given in inputs:
        _take_in(given, session)
    try:
        for plan in session.queries:
            _run(plan, session)
    except UnsupportedError:
        raise
    except SqlError as error:
        raise Refused("runtime", str(error)) from None
    except ProcessingError as error:
        raise Refused("runtime", str(error.__cause__ or error)) from error
    return list(_written(session))


def _partitions(topics: Iterable[Mapping[str, object]]) -> dict[str, int]:
    found = {str(each.get("name")): each.get("partitions") for each in topics}
    return {name: count for name, count in found.items() if isinstance(count, int)}


def _carry_out(text: str, session: _Session) -> None:
    try:
        statements = split_statements(text)
    except ParseError as error:
        raise Refused("parse", str(error)) from None
    except SqlError as error:
        raise Refused("statement", str(error)) from None
    for each in statements:
        try:
            _execute(each.parse(session.catalogue.types, session.variables), session)
        except UnsupportedError:
            raise
        except ParseError as error:
            raise Refused("parse", str(error)) from None
        except SqlError as error:
            raise Refused("statement", str(error)) from None


def _execute(statement: s.Statement, session: _Session) -> None:
    match statement:
        case s.SetProperty(name, value):
            session.settings[name] = value
        case s.UnsetProperty(name):
            session.settings.pop(name, None)
        case s.DefineVariable(name, value):
            session.variables[name] = value
        case s.UndefineVariable(name):
            session.variables.pop(name, None)
        case s.CreateSource(name=name):
            before = session.catalogue
            session.catalogue = define(statement, before, session.settings)
            if statement.or_replace and name in before.sources:
                check_replacement(before.source(name), session.catalogue.source(name))
            session.partition(name)
        case s.DropSource(name=name):
            catalogue = define(statement, session.catalogue, session.settings)
            session.end(name)
            session.catalogue = catalogue
        case s.AlterSource() | s.CreateType() | s.DropType():
            session.catalogue = define(statement, session.catalogue, session.settings)
        case s.CreateAs(if_not_exists=True, name=name) if name in session.catalogue.sources:
            return
        case s.CreateAs():
            _create_as(statement, session)
        case s.InsertInto():
            plan = plan_insert(statement, session.catalogue, session.numbered, session.settings)
            session.numbered += 1
            session.queries.append(replace(plan, sink=with_registered(plan.sink, session.registry, anew=True)))
        case s.InsertValues():
            _insert(statement, session)
        case _:
            raise UnsupportedError(f"{type(statement).__name__} in a case")


def _create_as(statement: s.CreateAs, session: _Session) -> None:
    """Make a query and its sink; one that replaces another keeps its id."""
    plan = plan_create_as(statement, session.catalogue, session.settings, session.numbered)
    known = session.catalogue.sources.get(statement.name)
    replaced = next((each for each in session.queries if known is not None and each.id == known.made_by), None)
    if known is not None:
        check_replacement(known, plan.sink)
    if replaced is not None:
        check_upgrade(replaced, plan)
        plan = replace(plan, id=replaced.id, sink=replace(plan.sink, made_by=replaced.id))
        session.queries.remove(replaced)
    plan = replace(plan, sink=with_registered(plan.sink, session.registry, anew=True))
    session.numbered += 1
    session.queries.append(plan)
    session.catalogue = session.catalogue.with_source(plan.sink)


def _insert(statement: s.InsertValues, session: _Session) -> None:
    record = inserted(statement, session.catalogue)
    session.add(record.topic, Record(record.key, record.value, record.timestamp or 0), was_written=True)


def _take_in(given: Mapping[str, object], session: _Session) -> None:
    topic, timestamp = str(given["topic"]), given.get("timestamp")
    source = session.source_over(topic)
    try:
        key = bytes_of(given.get("key"), source, is_key=True, topic=topic, registry=session.registry)
        key = windowed_bytes(key, given.get("window"), source)
        value = bytes_of(given.get("value"), source, is_key=False, topic=topic, registry=session.registry)
    except SqlError as error:
        raise Refused("runtime", f"an input record of topic {topic}: {error}") from None
    headers = tuple(_header(each) for each in _listed(given.get("headers")))
    record = Record(key, value, timestamp if isinstance(timestamp, int) else 0, headers)
    session.add(topic, record, was_written=False)


def _listed(value: object) -> Sequence[Mapping[str, object]]:
    return value if isinstance(value, list) else ()


def _header(given: Mapping[str, object]) -> tuple[str, bytes | None]:
    value = given.get("VALUE")
    return str(given.get("KEY")), None if value is None else base64.b64decode(str(value))


class _Blobs(dict[str, bytes]):
    """A query's state between batches."""

    def put(self, blob: str, data: bytes | None) -> None:
        if data is None:
            self.pop(blob, None)
        else:
            self[blob] = data


def _run(plan: QueryPlan, session: _Session) -> None:
    topology = topology_of(plan)
    id_ = application_id(SERVICE_ID, plan.id)
    executor = Executor(
        topology,
        topology.nodes.keys(),
        _Blobs(),
        task=0,
        settings=EngineSettings(cache=False, skip_undecodable=True, tell_expired=False),
        application_id=id_,
    )
    entries = {
        f"{id_}-{topic}" if topic in topology.repartition_topics else topic: name
        for name, node in topology.nodes.items()
        if isinstance(node, SourceNode)
        for topic in node.topics
    }
    for record in session.read_by(plan):
        waiting = [(entries[record.topic], record)]
        while waiting:
            entry, each = waiting.pop(0)
            executor.process(entry, (each,))
            for output in executor.finish_batch()[0]:
                made = Record(output.key, output.value, output.timestamp, output.headers, output.topic)
                if output.topic in entries and output.topic.startswith(id_):
                    waiting.append((entries[output.topic], made))
                else:
                    session.add(output.topic, made, was_written=True, by_query=True)


def _written(session: _Session) -> Iterable[CaseRecord]:
    for topic, held in session.topics.items():
        source = session.source_over(topic)
        if source is None:
            continue
        for stored in held:
            if not stored.was_written:
                continue
            record = stored.record
            key, window = key_and_window(record.key, source, session.registry)
            value = value_of(record.value, source, is_key=False, registry=session.registry)
            yield CaseRecord(topic, key, value, record.timestamp, record.headers, window)

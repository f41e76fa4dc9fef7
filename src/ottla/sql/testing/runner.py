"""Runs a case: statements one after the other, then each query over its topic, in Python and without caches."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import ParseError, SqlError, UnsupportedError
from ottla.sql.lowering import application_id, topology_of
from ottla.sql.parser.texts import StatementText, split_statements
from ottla.sql.plan import QueryPlan
from ottla.sql.testing.numbering import with_declared
from ottla.sql.testing.observing import check_expected
from ottla.sql.testing.payloads import Window, bytes_of, key_and_window, value_of, windowed_bytes
from ottla.sql.testing.session import Session
from ottla.sql.testing.statements import execute
from ottla.sql.testing.topics import LazyRegistry
from ottla.streams import EngineSettings, Executor, ProcessingError, Record, SourceNode

SERVICE_ID = "default_"
Engine = Callable[[QueryPlan, Iterable[Record]], Iterable[Record]]
"""Runs a query over records, and gives what it writes."""
Headers = tuple[tuple[str, bytes | None], ...]
Category = Literal["parse", "statement", "runtime"]


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


def run_case(
    text: str,
    inputs: Iterable[Mapping[str, object]],
    topics: Iterable[Mapping[str, object]] = (),
    engine: Engine | None = None,
) -> list[CaseRecord]:
    """Run statements over input records, and return what was written, topic by topic.

    `inputs` are input.json's records, decimals as `Decimal`; `topics` are those of case.json, which are there with their
    schemas before the statements; `engine` runs queries in the place of `outputs_of`. Raises `Refused` with ksqlDB's words,
    and UnsupportedError for what does not run yet.
    """
    try:
        return _run_case(text, inputs, list(topics), engine or outputs_of)
    except RecursionError:
        raise Refused("statement", _TOO_DEEP) from None


def _run_case(
    text: str, inputs: Iterable[Mapping[str, object]], listed: Sequence[Mapping[str, object]], engine: Engine
) -> list[CaseRecord]:
    topics = with_declared(text, listed) if "SCHEMA_ID" in text.upper() else listed
    session = Session(Catalogue(registry=LazyRegistry(topics)), partitions=_partitions(listed))
    _carry_out(text, session)
    for given in inputs:
        _take_in(given, session)
    try:
        for plan in session.queries:
            if plan.id not in session.paused:
                for made in engine(plan, session.read_by(plan)):
                    session.add(made.topic, made, was_written=True, by_query=True)
        check_expected(session)
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


def _statements(text: str) -> Sequence[StatementText]:
    """The statements of a case: ksqlDB's, and ASSERT VALUES and its like, which only test scripts may hold."""
    try:
        return split_statements(text)
    except ParseError as error:
        if "ASSERT" not in text.upper():
            raise
        try:
            found = split_statements(text, testing=True)
        except ParseError:
            raise error from None
        if any(each.first_word == "RUN" for each in found):
            raise
        return found


def _carry_out(text: str, session: Session) -> None:
    try:
        statements = _statements(text)
    except ParseError as error:
        raise Refused("parse", str(error)) from None
    except SqlError as error:
        raise Refused("statement", str(error)) from None
    for each in statements:
        try:
            execute(each.parse(session.catalogue.types, session.variables), session)
        except UnsupportedError:
            raise
        except ParseError as error:
            raise Refused("parse", str(error)) from None
        except SqlError as error:
            raise Refused("statement", str(error)) from None


def _take_in(given: Mapping[str, object], session: Session) -> None:
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


def outputs_of(plan: QueryPlan, records: Iterable[Record]) -> Iterator[Record]:
    """Yield what a query writes of records, each with its topic; raises SqlError, ProcessingError."""
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
    for record in records:
        waiting = [(entries[record.topic], record)]
        while waiting:
            entry, each = waiting.pop(0)
            executor.process(entry, (each,))
            for output in executor.finish_batch()[0]:
                made = Record(output.key, output.value, output.timestamp, output.headers, output.topic)
                if output.topic in entries and output.topic.startswith(id_):
                    waiting.append((entries[output.topic], made))
                else:
                    yield made


def _written(session: Session) -> Iterable[CaseRecord]:
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

"""Statements of a case that ask, or that expect something: they write no records, and are refused where they are wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql import functions
from ottla.sql.catalogue import Source
from ottla.sql.errors import SqlError, UnsupportedError
from ottla.sql.expressions.strict import strict_value
from ottla.sql.expressions.texts import value_text
from ottla.sql.planning import plan_create_as, plan_insert, plan_select
from ottla.sql.testing.session import Expected, Session
from ottla.sql.tree import expressions as e
from ottla.sql.tree import statements as s
from ottla.sql.types import BIGINT, SqlType


def observe(statement: s.Statement, session: Session) -> None:
    """Carry out a statement that changes no source; raises SqlError for what is refused, UnsupportedError for connectors."""
    match statement:
        case s.QueryStatement(query):
            plan_select(query, session.catalogue, session.settings, f"transient_{session.numbered}")
        case s.Explain():
            _explain(statement, session)
        case s.Describe():
            _describe(statement, session)
        case s.Control(action, query_id):
            session.control(action, query_id)
        case s.AssertTopic():
            _assert_topic(statement, session)
        case s.AssertSchema():
            _assert_schema(statement, session)
        case s.AssertSource():
            _assert_source(statement, session)
        case s.AssertValues(name, columns, values, tombstone):
            session.expected.append(_expected(session.catalogue.source(name), columns, values, tombstone))
        case s.CreateConnector() | s.DropConnector():
            raise UnsupportedError(
                f"{'CREATE' if isinstance(statement, s.CreateConnector) else 'DROP'} CONNECTOR in a case"
            )
        case s.RunScript():
            raise UnsupportedError("RUN SCRIPT in a case")
        case _:
            return  # SHOW and PRINT: there is nobody to show anything to


def _explain(statement: s.Explain, session: Session) -> None:
    match statement.statement:
        case None:
            session.query(statement.query_id or "")
        case s.QueryStatement(query):
            plan_select(query, session.catalogue, session.settings, "explained")
        case s.CreateAs() as made:
            plan_create_as(made, session.catalogue, session.settings, session.numbered)
        case s.InsertInto() as made:
            plan_insert(made, session.catalogue, session.numbered, session.settings)
        case _:
            raise SqlError("The provided statement does not run a ksql query")


def _describe(statement: s.Describe, session: Session) -> None:
    name = statement.name or ""
    if statement.what == "SOURCE" and name not in session.catalogue.sources:
        raise SqlError(f"Could not find STREAM/TABLE '{name}' in the Metastore")
    finds = (functions.scalar, functions.aggregate, functions.table)
    if statement.what == "FUNCTION" and not any(find(name) for find in finds):
        raise SqlError(f"Can't find any functions with the name '{name}'")


def _assert_topic(statement: s.AssertTopic, session: Session) -> None:
    exists = statement.topic in session.known_topics()
    if exists is not statement.exists:
        raise SqlError(f"Topic {statement.topic} {'does not exist' if statement.exists else 'exists'}")
    partitions = session.known_topics().get(statement.topic)
    wanted = next((value for name, value in statement.properties if name.upper() == "PARTITIONS"), None)
    if isinstance(wanted, e.IntegerLiteral) and partitions not in (None, wanted.value):
        raise SqlError(
            f"Mismatched configuration for topic {statement.topic}: For config partitions, expected {wanted.value} got "
            f"{partitions}"
        )


def _assert_schema(statement: s.AssertSchema, session: Session) -> None:
    from ottla.serdes import SerdeError

    registry = session.registry
    number = getattr(statement.id, "value", None)
    named = [
        *([f"subject name[{statement.subject}]"] if statement.subject is not None else []),
        *([f"id[{number}]"] if number is not None else []),
    ]
    try:
        found = registry is not None
        if registry is not None and statement.subject is not None:
            latest = registry.latest(statement.subject)
            found = number is None or latest.id == number
        elif registry is not None and isinstance(number, int):
            registry.by_id(number)
    except SerdeError:
        found = False
    if found is not statement.exists:
        words = "does not exist" if statement.exists else "exists"
        raise SqlError(f"Schema with {' and '.join(named)} {words}")


def _assert_source(statement: s.AssertSource, session: Session) -> None:
    known = session.catalogue.source(statement.name)
    if known.kind != statement.kind:
        raise SqlError(f"Expected {statement.name} to be a {statement.kind}, but it is a {known.kind}")
    wanted = [(each.name, each.type) for each in statement.columns]
    found = [(each.name, each.type) for each in known.schema.columns]
    if wanted != found:
        raise SqlError(f"Expected schema does not match actual for source {statement.name}. Actual: {known.schema}")
    topic = next((value for name, value in statement.properties if name.upper() == "KAFKA_TOPIC"), None)
    if isinstance(topic, e.StringLiteral) and topic.value != known.topic:
        raise SqlError(
            f"Expected kafka topic does not match actual for source {statement.name}. Expected: {topic.value}, Actual: "
            f"{known.topic}"
        )


def _expected(source: Source, columns: Sequence[str], values: Sequence[e.Expression], tombstone: bool) -> Expected:
    """The record that ASSERT VALUES, or ASSERT NULL VALUES, expects next in a source's topic."""
    types = {column.name: column.type for column in (*source.schema.key, *source.schema.value)}
    names = columns or tuple(each.name for each in (*source.schema.key, *(() if tombstone else source.schema.value)))
    if len(names) != len(values):
        raise SqlError(f"Expected a value for each column of {source.name}: {', '.join(names)}")
    types["ROWTIME"] = BIGINT
    for name in names:
        if name not in types:
            raise SqlError(f"Column name `{name}` does not exist.")
    row = {name: strict_value(each, name, types[name]) for name, each in zip(names, values, strict=True)}
    time = row.pop("ROWTIME", None)
    return Expected(source.name, row, tombstone, time if isinstance(time, int) else None)


def check_expected(session: Session) -> None:
    """Raise SqlError for the first record that is not what ASSERT VALUES expects."""
    places: dict[str, int] = {}
    for each in session.expected:
        source = session.catalogue.source(each.source)
        written = [stored.record for stored in session.topics.get(source.topic, ()) if stored.by_query]
        at = places.get(source.topic, 0)
        places[source.topic] = at + 1
        if at >= len(written):
            raise SqlError(f"Expected another record (asserted of {source.name}), but all have been read")
        record, layout = written[at], source.layout
        key = layout.key_codec(source.schema).decode(record.key)
        value = None if record.value is None else layout.value_codec(source.schema).decode(record.value)
        columns = dict(zip((column.name for column in source.schema.key), key or (), strict=False))
        columns |= dict(zip((column.name for column in source.schema.value), value or (), strict=False))
        wanted = {name: each.row.get(name) for name in columns}
        if columns != wanted or each.tombstone is not (value is None) or each.time not in (None, record.timestamp):
            shown = [
                ", ".join(f"{name}={value_text(row.get(name), type_)}" for name, type_ in _typed(source))
                for row in (wanted, columns)
            ]
            raise SqlError(
                f"Expected record does not match actual for {source.name}. Expected: {shown[0]}, Actual: {shown[1]} "
                f"(ROWTIME {record.timestamp})"
            )


def _typed(source: Source) -> list[tuple[str, SqlType]]:
    return [(column.name, column.type) for column in (*source.schema.key, *source.schema.value)]

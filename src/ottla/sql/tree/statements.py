"""Statements as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from ottla.sql.tree.expressions import Expression, Literal
from ottla.sql.tree.queries import Duration, Query
from ottla.sql.types import SqlType

SourceKind = Choice["STREAM", "TABLE"]
Properties = tuple[tuple[str, Literal], ...]
ColumnRole = Choice["VALUE", "KEY", "PRIMARY KEY", "HEADERS", "HEADER"]


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of CREATE; `header` is the key of `HEADER('key')`."""

    name: str
    type: SqlType
    role: ColumnRole = "VALUE"
    header: str | None = None


@dataclass(frozen=True, slots=True)
class CreateSource:
    """CREATE STREAM or TABLE over a topic."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class CreateAs:
    """CREATE STREAM or TABLE … AS SELECT."""

    kind: SourceKind
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertInto:
    """INSERT INTO … SELECT."""

    name: str
    query: Query
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT INTO … VALUES; without `columns` all of them in their order."""

    name: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class DropSource:
    """DROP STREAM or TABLE."""

    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class AlterSource:
    """ALTER STREAM or TABLE … ADD COLUMN."""

    kind: SourceKind
    name: str
    added: tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True, slots=True)
class CreateType:
    """CREATE TYPE name AS type."""

    name: str
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropType:
    """DROP TYPE."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """CREATE SOURCE or SINK CONNECTOR."""

    direction: Choice["SOURCE", "SINK"]
    name: str
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConnector:
    """DROP CONNECTOR."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """A query that is asked for its answer: pull, or push with EMIT."""

    query: Query


@dataclass(frozen=True, slots=True)
class Show:
    """LIST or SHOW: `what` is STREAMS, ALL TOPICS, SINK CONNECTORS …"""

    what: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE of a source, or of a FUNCTION or CONNECTOR; without a name of all STREAMS or TABLES."""

    what: Choice["SOURCE", "FUNCTION", "CONNECTOR", "STREAMS", "TABLES"]
    name: str | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a running query by its id, or of a statement."""

    query_id: str | None = None
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class PrintTopic:
    """PRINT: a topic's records as they are."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """TERMINATE, PAUSE or RESUME of a query; without an id of all."""

    action: Choice["TERMINATE", "PAUSE", "RESUME"]
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class SetProperty:
    """SET 'name' = 'value'; `system` is ALTER SYSTEM."""

    name: str
    value: str
    system: bool = False


@dataclass(frozen=True, slots=True)
class UnsetProperty:
    """UNSET 'name'."""

    name: str


@dataclass(frozen=True, slots=True)
class DefineVariable:
    """DEFINE name = 'value'."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UndefineVariable:
    """UNDEFINE name."""

    name: str


@dataclass(frozen=True, slots=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC."""

    topic: str
    exists: bool = True
    properties: Properties = ()
    timeout: Duration | None = None


@dataclass(frozen=True, slots=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA, by subject or id or both."""

    subject: str | None = None
    id: Literal | None = None
    exists: bool = True
    timeout: Duration | None = None


@dataclass(frozen=True, slots=True)
class AssertValues:
    """ASSERT VALUES, or NULL VALUES of a key: the next record of a source (of test scripts only)."""

    name: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class AssertSource:
    """ASSERT STREAM or TABLE (of test scripts only)."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class RunScript:
    """RUN SCRIPT 'file' (of test scripts and the command line only)."""

    file: str


Statement = (
    CreateSource
    | CreateAs
    | InsertInto
    | InsertValues
    | DropSource
    | AlterSource
    | CreateType
    | DropType
    | CreateConnector
    | DropConnector
    | QueryStatement
    | Show
    | Describe
    | Explain
    | PrintTopic
    | Control
    | SetProperty
    | UnsetProperty
    | DefineVariable
    | UndefineVariable
    | AssertTopic
    | AssertSchema
    | AssertValues
    | AssertSource
    | RunScript
)

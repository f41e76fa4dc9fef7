"""Answers of a server as ksqlDB's clients read them: an object with `@type` for each statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.sql.catalogue import Source
from ottla.sql.commands.command import Command
from ottla.sql.commands.state import PersistentQuery, ServerState
from ottla.sql.schema import LogicalSchema, SqlColumn
from ottla.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType

Entity = dict[str, Any]


def entity(type_: str, statement: str, **fields: Any) -> Entity:
    """An answer of a type to a statement."""
    return {"@type": type_, "statementText": statement, **fields, "warnings": []}


def current_status(statement: str, command: Command, sequence: int, status: str, message: str) -> Entity:
    """What has become of a command, whose sequence number is its offset in the command topic."""
    told = {"status": status, "message": message, "queryId": command.query_id}
    return entity(
        "currentStatus", statement, commandId=str(command.id), commandStatus=told, commandSequenceNumber=sequence
    )


def schema_info(type_: SqlType) -> Entity:
    """A type: its name, and what it is made of."""
    found: Entity = {"type": type_.base, "fields": None, "memberSchema": None}
    if isinstance(type_, StructType):
        found["fields"] = [{"name": name, "schema": schema_info(inner)} for name, inner in type_.fields]
    elif isinstance(type_, ArrayType):
        found["memberSchema"] = schema_info(type_.item)
    elif isinstance(type_, MapType):
        found["memberSchema"] = schema_info(type_.value)
    elif isinstance(type_, DecimalType):
        found["parameters"] = {"precision": type_.precision, "scale": type_.scale}
    return found


def field_info(column: SqlColumn) -> Entity:
    """A column; one of the key, or of headers, says so."""
    found: Entity = {"name": column.name, "schema": schema_info(column.type)}
    if column.place == "key":
        found["type"] = "KEY"
    elif column.place == "headers":
        found["type"] = "HEADER"
        if column.header_key is not None:
            found["headerKey"] = column.header_key
    return found


def fields_of(schema: LogicalSchema) -> list[Entity]:
    """All columns."""
    return [field_info(each) for each in schema.columns]


def source_entry(source: Source) -> Entity:
    """A stream or a table in a list."""
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.layout.key_format,
        "valueFormat": source.layout.value_format,
        "isWindowed": window_type(source) is not None,
    }


def window_type(source: Source) -> str | None:
    """The kind of window that a source's keys have, None for keys without."""
    found = getattr(source, "window", None) or getattr(source.layout, "window", None)
    return None if found is None else str(getattr(found, "kind", found))


def sources_entity(kind: str, statement: str, state: ServerState) -> Entity:
    """The answer to LIST STREAMS, or TABLES."""
    found = sorted((each for each in state.catalogue.sources.values() if each.kind == kind), key=lambda each: each.name)
    name = "streams" if kind == "STREAM" else "tables"
    return entity(name, statement, **{name: [source_entry(each) for each in found]})


def query_entry(query: PersistentQuery, status: str, hosts: int = 1) -> Entity:
    """A persistent query in a list; `status` is RUNNING, ERROR, UNRESPONSIVE or PAUSED."""
    return {
        "queryString": query.statement,
        "sinks": [query.sink.name],
        "sinkKafkaTopics": [query.sink.topic],
        "id": query.id,
        "statusCount": {status: hosts},
        "queryType": "PERSISTENT",
        "state": status,
    }


def transient_entry(id_: str, statement: str, status: str = "RUNNING") -> Entity:
    """A push query in a list."""
    return {
        "queryString": statement,
        "sinks": [],
        "sinkKafkaTopics": [],
        "id": id_,
        "statusCount": {status: 1},
        "queryType": "PUSH",
        "state": status,
    }


def source_description(
    source: Source,
    state: ServerState,
    statuses: Mapping[str, str],
    *,
    extended: bool,
    partitions: int = 0,
    replication: int = 0,
    offsets: Sequence[Entity] = (),
    statistics: str = "",
    errors: str = "",
) -> Entity:
    """What DESCRIBE tells of a stream or a table; numbers of its topic only where they were asked for."""

    def listed(ids: Iterable[str]) -> list[Entity]:
        return [query_entry(state.queries[each], statuses.get(each, "RUNNING")) for each in ids]

    return {
        "name": source.name,
        "windowType": window_type(source),
        "readQueries": listed(state.readers(source.name)),
        "writeQueries": listed(state.writers(source.name)),
        "fields": fields_of(source.schema),
        "type": source.kind,
        "timestamp": source.timestamp or "",
        "statistics": statistics,
        "errorStats": errors,
        "extended": extended,
        "keyFormat": source.layout.key_format,
        "valueFormat": source.layout.value_format,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replication,
        "statement": state.statements.get(source.name, ""),
        "queryOffsetSummaries": list(offsets),
        "sourceConstraints": constraints_of(source, state),
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def constraints_of(source: Source, state: ServerState) -> list[str]:
    """The sources that are made of this one: it cannot be dropped before them."""
    readers = (state.queries[each] for each in state.readers(source.name))
    return sorted({each.sink.name for each in readers if each.makes_sink and each.sink.name != source.name})


def query_description(query: PersistentQuery, topology: str, status: str, host: str) -> Entity:
    """What EXPLAIN tells of a query."""
    return {
        "id": query.id,
        "statementText": query.statement,
        "windowType": window_type(query.sink),
        "fields": fields_of(query.sink.schema),
        "sources": list(query.sources),
        "sinks": [query.sink.name],
        "topology": topology,
        "executionPlan": topology,
        "overriddenProperties": dict(query.properties),
        "ksqlHostQueryStatus": {host: status},
        "queryType": "PERSISTENT",
        "queryErrors": [],
        "tasksMetadata": [],
        "state": status,
    }


def types_entity(statement: str, state: ServerState) -> Entity:
    """The answer to LIST TYPES."""
    found = sorted(state.catalogue.types.items())
    return entity("type_list", statement, types={name: schema_info(type_) for name, type_ in found})


def variables_entity(statement: str, variables: Mapping[str, str]) -> Entity:
    """The answer to LIST VARIABLES."""
    return entity(
        "variables", statement, variables=[{"name": name, "value": value} for name, value in sorted(variables.items())]
    )


def properties_entity(
    statement: str, settings: Mapping[str, str], overrides: Mapping[str, str], *, is_editable: Callable[[str], bool]
) -> Entity:
    """The answer to LIST PROPERTIES: the server's, with those of the session over them."""
    names = sorted({*settings, *overrides})
    rows = [
        {
            "name": name,
            "scope": "KSQL" if name.startswith(("ksql.", "ottla.")) else "KAFKA STREAMS",
            "value": overrides.get(name, settings.get(name)),
            "editable": is_editable(name),
            "level": "SESSION" if name in overrides else "SERVER",
        }
        for name in names
    ]
    return entity(
        "properties", statement, properties=rows, overwrittenProperties=sorted(overrides), defaultProperties=[]
    )


def warning_entity(statement: str, message: str) -> Entity:
    """A statement that had nothing to do."""
    return entity("warning_entity", statement, message=message)

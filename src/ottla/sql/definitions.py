"""CREATE STREAM and TABLE over a topic, DROP, ALTER and types: statements that change the catalogue and run nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from ottla.sql import rules
from ottla.sql.catalogue import Catalogue, Layout, Source
from ottla.sql.columns import check_columns, check_key_type
from ottla.sql.errors import SqlError
from ottla.sql.formats import UNWRAPS, SchemaForm, check_new
from ottla.sql.formats.registry import WITH_SCHEMAS
from ottla.sql.properties import OF_CREATE, WithClause, check_format_properties, check_wrapping, with_clause
from ottla.sql.registration import columns_of, with_registered
from ottla.sql.schema import LogicalSchema, Place, SqlColumn, WindowInfo, WindowKind
from ottla.sql.tree import statements as s

DEFAULT_KEY_FORMAT = "ksql.persistence.default.format.key"
DEFAULT_VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAP_SINGLE_VALUES = "ksql.persistence.wrap.single.values"

Definition = s.CreateSource | s.DropSource | s.AlterSource | s.CreateType | s.DropType


NAME_LENGTH_MAX = 200
"""Topics of a query have its sink's name within theirs, which have 249 characters."""


def define(statement: Definition, catalogue: Catalogue, settings: Mapping[str, str]) -> Catalogue:
    """The catalogue after a statement; raises SqlError in ksqlDB's words."""
    match statement:
        case s.CreateSource():
            return _create(statement, catalogue, settings)
        case s.DropSource():
            return _drop(statement, catalogue)
        case s.AlterSource():
            return _alter(statement, catalogue)
        case s.CreateType(name, type_, if_not_exists):
            if name in catalogue.types and not if_not_exists:
                raise SqlError(
                    f"Cannot register custom type '{name}' since it is already registered with type: "
                    f"{catalogue.types[name]}"
                )
            return catalogue if name in catalogue.types else catalogue.with_type(name, type_)
        case s.DropType(name, if_exists):
            if name not in catalogue.types and not if_exists:
                raise SqlError(f"Type {name} does not exist.")
            return catalogue.without_type(name)


def _create(statement: s.CreateSource, catalogue: Catalogue, settings: Mapping[str, str]) -> Catalogue:
    known = catalogue.sources.get(statement.name)
    given = with_clause(statement.properties, OF_CREATE)
    topic = given.topic
    if topic is None:
        raise SqlError('Missing required property "KAFKA_TOPIC" which has no default value.')
    schema = _schema(_inferred(statement, given, catalogue, settings), given)
    layout = layout_of(given, schema, settings)
    check_name(statement.kind, statement.name, known, statement.or_replace or statement.if_not_exists)
    is_source = statement.read_only or (known is not None and known.read_only)
    if statement.or_replace and is_source and rules.hold(rules.STRICT):
        kind = statement.kind.lower()
        raise SqlError(f"Cannot add {kind} '{statement.name}': CREATE OR REPLACE is not supported on source {kind}s.")
    check_timestamp(given, schema)
    if given.window_type is not None and not schema.key and rules.hold(rules.STRICT):
        raise SqlError("Windowed sources require a key column.")
    if known is not None and statement.if_not_exists:
        return catalogue
    source = Source(
        statement.kind,
        statement.name,
        topic,
        schema,
        layout,
        given.timestamp,
        given.timestamp_format,
        _window(given),
        read_only=statement.read_only,
        partitions=given.partitions,
    )
    return catalogue.with_source(with_registered(source, catalogue.registry, anew=False))


def _window(given: WithClause) -> WindowInfo | None:
    """The windows that keys of a topic are within."""
    if given.window_type is None:
        return None
    return WindowInfo(cast(WindowKind, given.window_type), given.window_size_ms)


def _inferred(
    statement: s.CreateSource, given: WithClause, catalogue: Catalogue, settings: Mapping[str, str]
) -> s.CreateSource:
    """The statement with the columns that it leaves to the registry; raises SqlError in ksqlDB's words."""
    columns = list(statement.columns)
    key = [column for column in columns if "KEY" in column.role]
    value = [column for column in columns if column.role == "VALUE"]
    formats = given.key_format or settings.get(DEFAULT_KEY_FORMAT, "KAFKA"), _value_format(given, settings)
    for is_key, format_, held in ((True, formats[0].upper(), key), (False, formats[1].upper(), value)):
        check_format_properties(given, is_key=is_key, format_=format_)
        schema_id = given.key_schema_id if is_key else given.value_schema_id
        if schema_id is not None and held:
            name = "KEY_SCHEMA_ID" if is_key else "VALUE_SCHEMA_ID"
            raise SqlError(f"Table elements and {name} cannot both exist for create statement.")
        if held or format_ not in WITH_SCHEMAS:
            continue
        if is_key and given.key_format is None:
            continue
        form = _form(given, is_key=is_key)
        wrapped = format_ not in UNWRAPS if is_key else given.wrap is not False
        found, _ = columns_of(
            catalogue.registry, given.topic, format_, form, is_key=is_key, wrapped=wrapped, schema_id=schema_id
        )
        role: s.ColumnRole = "VALUE" if not is_key else "KEY" if statement.kind == "STREAM" else "PRIMARY KEY"
        made = [s.ColumnDefinition(name, type_, role) for name, type_ in found]
        columns = [*made, *columns] if is_key else [*columns, *made]
    return replace(statement, columns=tuple(columns))


def _value_format(given: WithClause, settings: Mapping[str, str]) -> str:
    found = given.value_format or settings.get(DEFAULT_VALUE_FORMAT)
    if found is None:
        raise SqlError(
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide one or set a default "
            f"via the '{DEFAULT_VALUE_FORMAT}' config."
        )
    return found


def _form(given: WithClause, *, is_key: bool) -> SchemaForm:
    if is_key:
        return SchemaForm(_name(given.key_schema_name), given.key_nullables, given.key_schema_id)
    return SchemaForm(_name(given.value_schema_name), given.value_nullables, given.value_schema_id)


def _name(given: str | None) -> str | None:
    return None if given is None else given.strip()


def check_name(kind: str, name: str, known: Source | None, allowed: bool) -> None:
    """Raise SqlError where a name is taken, or can be no part of topics' names."""
    if not 0 < len(name) <= NAME_LENGTH_MAX and rules.hold(rules.STRICT):
        raise SqlError(f"A {kind.lower()}'s name has 1 to {NAME_LENGTH_MAX} characters: '{name:.60}' has {len(name)}")
    if known is not None and not allowed:
        raise SqlError(f"Cannot add {kind.lower()} '{name}': A {known.kind.lower()} with the same name already exists")


def _schema(statement: s.CreateSource, given: WithClause) -> LogicalSchema:
    check_columns(statement.kind, statement.columns)
    places = [(_place(each.role), each) for each in statement.columns]
    schema = LogicalSchema(tuple(SqlColumn(each.name, each.type, place, each.header) for place, each in places))
    if statement.kind == "TABLE" and not schema.key:
        hint = (
            "\nUse a partial schema to define the primary key and still load the value columns from the Schema Registry, "
            f"for example:\n\tCREATE TABLE {statement.name} (ID INT PRIMARY KEY) WITH (...);"
        )
        raise SqlError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY."
            + (hint if given.value_schema_id is not None else "")
        )
    return schema


def _place(role: s.ColumnRole) -> Place:
    return "key" if "KEY" in role else "headers" if role.startswith("HEADER") else "value"


def layout_of(
    given: WithClause, schema: LogicalSchema, settings: Mapping[str, str], inherited: Layout | None = None
) -> Layout:
    """How rows are bytes, by a WITH clause, else as in the source, else by settings; raises SqlError."""
    key = given.key_format or (inherited.key_format if inherited else settings.get(DEFAULT_KEY_FORMAT, "KAFKA"))
    value = given.value_format or (inherited.value_format if inherited else _value_format(given, settings))
    if not schema.key and given.key_format is None:
        key = "NONE"
    elif schema.key and key.upper() == "NONE" and given.key_format is None:
        key = settings.get(DEFAULT_KEY_FORMAT, "KAFKA")
    key, value = key.upper(), value.upper()
    for column in schema.key:
        check_key_type(column.name, column.type)
    check_format_properties(given, is_key=True, format_=key)
    check_format_properties(given, is_key=False, format_=value)
    check_wrapping(given.wrap, value, len(schema.value))
    unwraps = settings.get(WRAP_SINGLE_VALUES, "true").lower() == "false" and value in UNWRAPS
    of_key = inherited if inherited and inherited.key_format == key else Layout(key, value)
    of_value = inherited if inherited and inherited.value_format == value else Layout(key, value)
    layout = Layout(
        key,
        value,
        not unwraps if given.wrap is None else given.wrap,
        given.key_delimiter or of_key.key_delimiter,
        given.value_delimiter or of_value.value_delimiter,
        _inheriting(_form(given, is_key=True), of_key.key_form, key),
        _inheriting(_form(given, is_key=False), of_value.value_form, value),
    )
    for side, format_, columns, made in (
        ("Key", key, schema.key, layout.key_codec),
        ("Value", value, schema.value, layout.value_codec),
    ):
        try:
            made(schema)
            if rules.hold(rules.STRICT):
                check_new(format_, columns)
        except SqlError as error:
            listed = ", ".join(map(str, columns))
            raise SqlError(
                f"{side} format does not support schema.\nformat: {format_}\n"
                f"schema: Persistence{{columns=[{listed}], features=[]}}\nreason: {error}"
            ) from None
    return layout


def _inheriting(form: SchemaForm, source: SchemaForm, format_: str) -> SchemaForm:
    """A sink's form, with what Protobuf's takes from the source's: the message's name."""
    return replace(form, full_name=form.full_name or source.full_name) if format_ == "PROTOBUF" else form


def check_timestamp(given: WithClause, schema: LogicalSchema) -> None:
    """Raise SqlError where a row's time cannot be taken from the column that is named."""
    if given.timestamp is None:
        return
    column = schema.find(given.timestamp)
    if column is None:
        raise SqlError(f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{given.timestamp}'")
    base = column.type.base
    if base == "STRING" and given.timestamp_format is None:
        raise SqlError("A String timestamp field has been specified without also specifying the timestamp_format")
    if base != "STRING" and given.timestamp_format is not None:
        raise SqlError(
            "'TIMESTAMP_FORMAT' set in the WITH clause can only be used when the timestamp column is of type STRING."
        )
    if base not in ("BIGINT", "TIMESTAMP", "STRING"):
        raise SqlError(
            f"Timestamp column, `{given.timestamp}`, should be LONG(INT64), TIMESTAMP, or a String with a "
            "timestamp_format specified"
        )


def _drop(statement: s.DropSource, catalogue: Catalogue) -> Catalogue:
    known = catalogue.sources.get(statement.name)
    if known is None:
        if statement.if_exists:
            return catalogue
        raise SqlError(f"{statement.kind.capitalize()} {statement.name} does not exist.")
    if known.kind != statement.kind:
        kinds = known.kind.lower(), statement.kind.lower()
        raise SqlError(f"Incompatible data source type is {kinds[0]}, but statement was DROP {kinds[1]}")
    if statement.delete_topic and rules.hold(rules.STRICT):
        _check_own_topic(known, catalogue)
    return catalogue.without_source(statement.name)


def _check_own_topic(source: Source, catalogue: Catalogue) -> None:
    """Raise SqlError where a topic is not a source's to delete: it only reads it, or others are over it, too."""
    if source.read_only:
        raise SqlError(f"Cannot delete topic for read-only source: {source.name}")
    others = sorted(
        each.name for each in catalogue.sources.values() if each.topic == source.topic and each.name != source.name
    )
    if others:
        raise SqlError(
            f"Refusing to delete topic. Found other data sources ({', '.join(others)}) using topic {source.topic}"
        )


def _alter(statement: s.AlterSource, catalogue: Catalogue) -> Catalogue:
    known = catalogue.sources.get(statement.name)
    if known is None:
        raise SqlError(f"Source {statement.name} does not exist.")
    if known.kind != statement.kind:
        raise SqlError(f"Incompatible data source type is {known.kind}, but statement was ALTER {statement.kind}")
    if known.made_by is not None:
        raise SqlError("ALTER command is not supported for CREATE ... AS statements.")
    columns = list(known.schema.columns)
    for name, type_ in statement.added:
        if known.schema.find(name) is not None:
            raise SqlError(f"Cannot add column `{name}` to schema. A column with the same name already exists.")
        columns.append(SqlColumn(name, type_))
    return catalogue.with_source(replace(known, schema=LogicalSchema(tuple(columns))))

"""Schemas of sources in the registry: columns that are taken from there, and schemas that are put there.

A source over a topic may leave its key's or its value's columns out; they are those of the subject's latest schema, or of
the one whose id WITH names. A sink's schemas are registered when it is made; so are those of a source whose subjects are
not there yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.sql.catalogue import Source
from ottla.sql.errors import RegistryAwayError, SqlError
from ottla.sql.formats import UNWRAPS
from ottla.sql.formats.registry import WITH_SCHEMAS, SchemaForm, SchemaRegistry, key_schema_name, subject_of
from ottla.sql.schema import Place, SqlColumn
from ottla.sql.types import SqlType, backticked

if TYPE_CHECKING:
    from ottla.serdes import KnownSchema, SerdeError

_ISSUES = "https://github.com/confluentinc/ksql/issues/"


def columns_of(
    registry: SchemaRegistry | None,
    topic: str | None,
    format_: str,
    form: SchemaForm,
    *,
    is_key: bool,
    wrapped: bool,
    schema_id: int | None,
    of_sink: bool = False,
) -> tuple[list[tuple[str, SqlType]], KnownSchema]:
    """The columns of a topic's keys or values by its schema, and that schema; raises SqlError in ksqlDB's words.

    Fields are columns in upper case, but those of a schema that its id names keep their case. What is not `wrapped` is
    one column, ROWKEY or ROWVAL. Of several messages one has to be named, but that a sink is of the first.
    """
    known = _known(registry, topic or "", format_, is_key=is_key, schema_id=schema_id)
    kind = known.schema.schema_type
    if kind != WITH_SCHEMAS[format_]:
        side, property_ = ("Key", "KEY_FORMAT") if is_key else ("Value", "VALUE_FORMAT")
        raise SqlError(
            f"{side} schema is not in the expected format. You may want to set {property_} to '{kind}'.\n"
            f"{_said(topic, schema_id)}\nexpected format: {WITH_SCHEMAS[format_]}\n"
            f"actual format from Schema Registry: {kind}"
        )
    try:
        by_id = schema_id is not None
        if format_ == "PROTOBUF" and form.full_name is None and not of_sink:
            _refuse_several(known, registry, is_key=is_key)
        found = _columns(registry, known, format_, form, is_key=is_key, wrapped=wrapped, by_id=by_id)
    except _Multiple as error:
        raise SqlError(str(error)) from None
    except SqlError as error:
        side = "key" if is_key else "value"
        raise SqlError(
            f"Unable to verify if the {side} schema for {_said(topic, schema_id)} is compatible with ksqlDB.\n"
            f"Reason: {error}\n\n"
            f"Please see {_ISSUES} to see if this particular reason is already known.\n"
            "If not, please log a new issue, including this full error message.\n"
            f"Schema:{known.schema.text}"
        ) from None
    if is_key and len(found) > 1:
        raise SqlError(
            f"The key schema for {_said(topic, schema_id)} contains multiple columns, which is not supported by ksqlDB "
            f"at this time.\nSchema:{known.schema.text}"
        )
    return found, known


def _said(topic: str | None, schema_id: int | None) -> str:
    parts = [f"topic: {topic}" if topic else "", f"schema id: {schema_id}" if schema_id is not None else ""]
    return ", ".join(filter(None, parts))


class _Multiple(SqlError):
    """A schema of several messages of which none is named."""


def _known(
    registry: SchemaRegistry | None, topic: str, format_: str, *, is_key: bool, schema_id: int | None
) -> KnownSchema:
    from ottla.serdes import KnownSchema, SerdeError

    asked = _configured(registry, topic, format_)
    subject = subject_of(topic, is_key=is_key)
    try:
        if schema_id is not None:
            return KnownSchema(asked.by_id(schema_id), schema_id)
        return asked.latest(subject)
    except SerdeError as error:
        side = "key" if is_key else "value"
        if error.retriable:
            said = _said(topic, schema_id)
            words = f"Schema registry fetch for topic {side} request failed for {said}: {error}"
            raise RegistryAwayError(words) from None
        by_id = "" if schema_id is None else f"Schema Id: {schema_id}\n"
        raise SqlError(
            f"Schema for message {side}s on topic '{topic}' does not exist in the Schema Registry.\n"
            f"Subject: {subject}\n{by_id}Possible causes include:\n"
            "- The topic itself does not exist\n\t-> Use SHOW TOPICS; to check\n"
            "- Messages on the topic are not serialized using a format Schema Registry supports\n"
            f"\t-> Use PRINT '{topic}' FROM BEGINNING; to verify\n"
            "- Messages on the topic have not been serialized using a serializer that registers schemas\n"
            "- The schema is registered on a different instance of the Schema Registry\n"
            "\t-> Use the REST API to list available subjects\n"
            "- You do not have permissions to access the Schema Registry."
        ) from None


def _columns(
    registry: SchemaRegistry | None,
    known: KnownSchema,
    format_: str,
    form: SchemaForm,
    *,
    is_key: bool,
    wrapped: bool,
    by_id: bool,
) -> list[tuple[str, SqlType]]:
    from ottla.connect import DataError, SchemaType
    from ottla.serdes import SerdeError
    from ottla.sql.formats import connected
    from ottla.sql.formats.registered import mapping_of, message_path, schema_codec

    try:
        codec = schema_codec(known.schema, registry)
        schema, _ = mapping_of(format_, form).reading(codec, message_path(codec, form.full_name))
    except (DataError, SerdeError) as error:
        raise SqlError(str(error)) from None
    if not wrapped:
        type_ = connected.sql_type(schema, upper=not by_id)
        return [] if type_ is None else [("ROWKEY" if is_key else "ROWVAL", type_)]
    if schema.type is not SchemaType.STRUCT:
        raise SqlError(
            "Schema returned from schema registry is anonymous type. To use this schema with ksqlDB, set "
            "'WRAP_SINGLE_VALUE=false' in the WITH clause properties."
        )
    found = connected.fields_of(schema, upper=not by_id)
    if not found:
        raise SqlError("Schema does not include any columns with types that ksqlDB supports.")
    return found


def _refuse_several(known: KnownSchema, registry: SchemaRegistry | None, *, is_key: bool) -> None:
    from ottla.serdes import SerdeError
    from ottla.sql.formats.registered import schema_codec

    try:
        codec: Any = schema_codec(known.schema, registry)
    except SerdeError as error:
        raise SqlError(str(error)) from None
    names = [message.full_name for message in codec.file.message_types_by_name.values()]
    if len(names) > 1:
        side = "Key" if is_key else "Value"
        listed = "\n".join(f"- {name}" for name in names)
        raise _Multiple(
            f"{side} schema has multiple schema definitions. \n\n{listed}\n\n"
            f"Please specify a schema full name in the WITH clause using {side.upper()}_SCHEMA_FULL_NAME"
        )


def with_registered(source: Source, registry: SchemaRegistry | None, *, anew: bool, inserts: bool = False) -> Source:
    """The source with its schemas in the registry, `anew` also where their subjects are there; raises SqlError.

    What `inserts` rows into a topic of others writes by the topic's own schema where the registry does not take that of
    the columns: records of another name, messages of another file.
    """
    layout = source.layout
    key_form = layout.key_form
    if layout.key_format == "AVRO" and key_form.full_name is None:
        key_form = replace(key_form, full_name=key_schema_name(source.name))
    key = _Side(registry, source.topic, layout.key_format, source.schema.key, len(source.schema.key) != 1, is_key=True)
    value = _Side(
        registry,
        source.topic,
        layout.value_format,
        source.schema.value,
        layout.wrapped or len(source.schema.value) != 1,
        is_key=False,
    )
    forms = key.form(key_form, anew=anew), value.form(layout.value_form, anew=anew, inserts=inserts)
    return replace(source, layout=replace(layout, key_form=forms[0], value_form=forms[1], registry=registry))


def with_schemas_to_insert(source: Source, registry: SchemaRegistry | None) -> Source:
    """The source with the schemas that INSERT VALUES writes by, its value's registered where it is not yet.

    Raises SqlError where the key's is another than the one in the registry: equal keys would be different bytes.
    """
    layout = source.layout
    if layout.key_format not in WITH_SCHEMAS and layout.value_format not in WITH_SCHEMAS:
        return source
    if layout.key_format in WITH_SCHEMAS and source.schema.key and registry is not None:
        from ottla.serdes import SerdeError
        from ottla.sql.formats.registered import own_schema

        wrapped = len(source.schema.key) != 1 or layout.key_format not in UNWRAPS
        made = own_schema(layout.key_format, source.schema.key, wrapped=wrapped, form=layout.key_form).schema
        try:
            held = _latest(registry, subject_of(source.topic, is_key=True))
            same = held is None or registry.parsed(held.schema).canonical() == registry.parsed(made).canonical()
        except SerdeError as error:
            raise SqlError(
                "Could not determine that insert values operations is safe; operation potentially overrides existing key "
                f"schema in schema registry: {error}"
            ) from None
        if held is not None and not same and layout.key_form.schema_id is None:
            raise SqlError(
                f"Cannot INSERT VALUES into data source {backticked(source.name)}. ksqlDB generated schema would "
                f"overwrite existing key schema.\n\tExisting Schema: {held.schema.text}\n"
                f"\tksqlDB Generated: {made.text}"
            )
    return with_registered(source, registry, anew=True, inserts=True)


@dataclass(frozen=True, slots=True)
class _Side:
    """The keys or the values of a source."""

    registry: SchemaRegistry | None
    topic: str
    format: str
    columns: Sequence[SqlColumn]
    _wrapped: bool
    is_key: bool

    @property
    def wrapped(self) -> bool:
        return self._wrapped or self.format not in UNWRAPS

    def form(self, form: SchemaForm, *, anew: bool, inserts: bool = False) -> SchemaForm:
        """The form with what is registered; see `with_registered`."""
        if self.format not in WITH_SCHEMAS or not self.columns:
            return form
        if form.schema_id is not None:
            return self._named(form, form.schema_id)
        from ottla.serdes import SerdeError
        from ottla.sql.formats.registered import own_schema

        schema = own_schema(self.format, self.columns, wrapped=self.wrapped, form=form).schema
        registry = _configured(self.registry, self.topic, self.format)
        subject = subject_of(self.topic, is_key=self.is_key)
        try:
            if not anew and (latest := _latest(registry, subject)) is not None:
                return replace(form, known=latest)
            return replace(form, known=registry.register(subject, schema))
        except SerdeError as error:
            latest = _latest(registry, subject) if inserts and not error.retriable else None
            if latest is None or latest.id is None or not self._is_written_by(latest, form):
                raise _refused(error) from None
            return replace(form, schema_id=latest.id, known=latest)

    def _is_written_by(self, known: KnownSchema, form: SchemaForm) -> bool:
        """Whether a schema of others has a field of every column's name and type, and needs no other."""
        from ottla.connect import DataError, SchemaType
        from ottla.serdes import SerdeError
        from ottla.sql.formats import FormatError, connected
        from ottla.sql.formats.registered import mapping_of, message_path, schema_codec

        fields = [(column.name, column.type) for column in self.columns]
        try:
            codec = schema_codec(known.schema, self.registry)
            schema, _ = mapping_of(self.format, form).reading(codec, message_path(codec, form.full_name))
            if not self.wrapped or schema.type is not SchemaType.STRUCT:
                return False
            connected.struct_writer(fields, schema)
        except (DataError, SerdeError, FormatError):
            return False
        return set(fields) <= set(connected.fields_of(schema, upper=False))

    def _named(self, form: SchemaForm, schema_id: int) -> SchemaForm:
        """The form with the schema of an id, which has to have the columns, registered under this topic's subject."""
        from ottla.serdes import SerdeError

        found, known = columns_of(
            self.registry,
            self.topic,
            self.format,
            form,
            is_key=self.is_key,
            wrapped=self.wrapped,
            schema_id=schema_id,
            of_sink=True,
        )
        check_given(self.columns, found, "key" if self.is_key else "value")
        subject = subject_of(self.topic, is_key=self.is_key)
        try:
            now = _configured(self.registry, self.topic, self.format).register(subject, known.schema)
        except SerdeError as error:
            raise _refused(error) from None
        if now.id != schema_id:
            side = "KEY" if self.is_key else "VALUE"
            raise SqlError(
                f"Schema id registered is {now.id} which is different from provided {side}_SCHEMA_ID {schema_id}.\n"
                f"Topic: {self.topic}\nSubject: {subject}\nSchema: {known.schema.text}"
            )
        return replace(form, known=now)


def _refused(error: SerdeError) -> SqlError:
    """A registration that did not come about, as the error of its statement."""
    kind = RegistryAwayError if error.retriable else SqlError
    return kind(f"Could not register schema for topic: {error}")


def _latest(registry: SchemaRegistry, subject: str) -> KnownSchema | None:
    from ottla.serdes import SerdeError

    try:
        return registry.latest(subject)
    except SerdeError as error:
        if error.retriable:
            raise
        return None


def _configured(registry: SchemaRegistry | None, topic: str, format_: str) -> SchemaRegistry:
    if registry is None:
        raise SqlError(
            f"Cannot create topic '{topic}' with format {format_} without configuring 'ksql.schema.registry.url'"
        )
    return registry


def check_given(made: Sequence[SqlColumn], inferred: Sequence[tuple[str, SqlType]], place: Place) -> None:
    """Raise SqlError where a query makes columns that the schema which WITH names has not."""
    held = [SqlColumn(name, type_, place) for name, type_ in inferred]
    missing = [column for at, column in enumerate(made) if at >= len(held) or held[at] != column]
    if missing:
        side = "key" if place == "key" else "value"
        raise SqlError(
            f"The following {side} columns are changed, missing or reordered: [{', '.join(map(str, missing))}]. "
            f"Schema from schema registry is [{', '.join(map(str, held))}]"
        )

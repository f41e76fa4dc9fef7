"""Transformations of structure: Flatten, HoistField, ExtractField, ReplaceField, ValueToKey, SetSchemaMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, Importance
from ottla.connect.data.builder import SchemaBuilder
from ottla.connect.data.java_text import java_class
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct, schema_type_of
from ottla.connect.errors import DataError, IllegalArgumentError, config_error
from ottla.connect.transforms.field_path import FieldPath
from ottla.connect.transforms.part import (
    TRANSFORMS,
    ConfiguredPlugin,
    PartTransformation,
    copied_basics,
    java_split,
    kept,
    replaces_null,
    require_map,
    require_struct,
    simple_def,
)
from ottla.connect.validators import CaseInsensitiveValidString, Lambda, ValidList, invalid

__all__ = ["ExtractField", "Flatten", "HoistField", "ReplaceField", "SetSchemaMetadata", "ValueToKey"]


class Flatten(PartTransformation):
    """Flatten a nested structure: each field's name is the names on the way to it with a delimiter between."""

    config_def = simple_def(
        (
            "delimiter",
            ConfigType.STRING,
            ".",
            None,
            Importance.MEDIUM,
            "Delimiter to insert between field names from the input record when generating field names for the output "
            "record",
        )
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._delimiter: str = settings["delimiter"]
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        value, schema = self.value(record), self.schema(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, "flattening"), "", flat)
            return self.with_part(record, None, flat)
        struct = require_struct(value, "flattening")
        made = Struct(self._schemas(schema))
        self._flatten_struct(struct, "", made)
        return self.with_part(record, made.schema, made)

    def _name(self, prefix: str, name: str) -> str:
        return prefix + self._delimiter + name if prefix else name

    def _flatten_map(self, found: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, value in found.items():
            name = self._name(prefix, key)
            type_ = None if value is None else schema_type_of(value)
            if type_ is SchemaType.MAP:
                self._flatten_map(value, name, flat)
                continue
            if value is not None and type_ is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type {java_class(value)} which is not supported by "
                    "Connect's data API"
                )
            if type_ is SchemaType.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support {java_class(value)} for record without schemas (for field "
                    f"{name})."
                )
            flat[name] = value

    def _schema(self, schema: Schema) -> Schema:
        builder = copied_basics(schema, SchemaBuilder.struct())
        self._add_fields(schema, "", builder, optional=schema.optional, default=schema.default)
        return builder.build()

    def _add_fields(
        self, schema: Schema, prefix: str, builder: SchemaBuilder, *, optional: bool, default: Struct | None
    ) -> None:
        for field in schema.fields:
            name, inner = self._name(prefix, field.name), field.schema
            nullable = optional or inner.optional
            instead = inner.default if inner.default is not None or default is None else default.at(field)
            if inner.type is SchemaType.STRUCT:
                self._add_fields(inner, name, builder, optional=nullable, default=instead)
                continue
            if inner.type is SchemaType.MAP:
                raise _unsupported(inner, name)
            made = copied_basics(inner)
            if nullable:
                made.optional()
            if instead is not None:
                made.default(instead)
            builder.field(name, made.build())

    def _flatten_struct(self, struct: Struct | None, prefix: str, made: Struct) -> None:
        if struct is None:
            return
        for field in struct.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is SchemaType.STRUCT:
                self._flatten_struct(struct.at(field, with_default=False), name, made)
            elif field.schema.type is SchemaType.MAP:
                raise _unsupported(field.schema, name)
            else:
                made.put(name, struct.at(field))


def _unsupported(schema: Schema, name: str) -> DataError:
    return DataError(
        f"Flatten transformation does not support {schema.type} for record with schemas (for field {name})."
    )


class HoistField(PartTransformation):
    """Wrap data using the specified field name in a struct when schema present, or a map without one."""

    config_def = simple_def(
        (
            "field",
            ConfigType.STRING,
            REQUIRED,
            None,
            Importance.MEDIUM,
            "Field name for the single field that will be created in the resulting Struct or Map.",
        )
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._field: str = settings["field"]
        self._schemas = kept(lambda schema: SchemaBuilder.struct().field(self._field, schema).build())

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        if schema is None:
            return self.with_part(record, None, {self._field: value})
        made = Struct(self._schemas(schema)).put(self._field, value)
        return self.with_part(record, made.schema, made)


class ExtractField(PartTransformation):
    """Extract the specified field from a struct when schema present, or a map without one; null passes through."""

    config_def = simple_def(
        ("field", ConfigType.STRING, REQUIRED, None, Importance.MEDIUM, "Field name to extract."),
        replaces_null(),
        (
            "field.syntax.version",
            ConfigType.STRING,
            "V1",
            CaseInsensitiveValidString("V1", "V2"),
            Importance.HIGH,
            "Defines the version of the syntax to access fields. If set to <code>V1</code>, then the field paths are "
            "limited to access the elements at the root level of the struct or map. If set to <code>V2</code>, the "
            "syntax will support accessing nested elements. To access nested elements, dotted notation is used. If dots "
            "are already included in the field name, then backtick pairs can be used to wrap field names containing "
            'dots. E.g. to access the subfield <code>baz</code> from a field named "foo.bar" in a struct/map the '
            'following format can be used to access its elements: "<code>foo.bar</code>.baz".',
        ),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings; raises ConfigError for a path that cannot be read."""
        self._text: str = settings["field"]
        self._path = FieldPath(self._text, nested=settings["field.syntax.version"].upper() == "V2")
        self._with_default: bool = settings["replace.null.with.default"]

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        if schema is None:
            found = None if value is None else self._path.of_map(require_map(value, "field extraction"))
            return self.with_part(record, None, found)
        struct = None if value is None else require_struct(value, "field extraction")
        field = self._path.field_of(schema)
        if field is None:
            raise IllegalArgumentError(f"Unknown field: {self._text}")
        inner = None if struct is None else self._path.of_struct(struct, with_default=self._with_default)
        return self.with_part(record, field.schema, inner)


def _renames(mappings: list[str]) -> dict[str, str]:
    """Return old name -> new; raises ConfigError in Kafka's words."""
    found = {}
    for mapping in mappings:
        parts = java_split(mapping, ":")
        if len(parts) != 2:
            raise invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        found[parts[0]] = parts[1]
    return found


class ReplaceField(PartTransformation):
    """Filter or rename fields."""

    config_def = simple_def(
        (
            "exclude",
            ConfigType.LIST,
            [],
            ValidList(),
            Importance.MEDIUM,
            "Fields to exclude. This takes precedence over the fields to include.",
        ),
        (
            "include",
            ConfigType.LIST,
            [],
            ValidList(),
            Importance.MEDIUM,
            "Fields to include. If specified, only these fields will be used.",
        ),
        (
            "renames",
            ConfigType.LIST,
            [],
            Lambda(
                lambda name, value: _renames(value), "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
            Importance.MEDIUM,
            "Field rename mappings.",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._exclude, self._include = set(settings["exclude"]), set(settings["include"])
        self._renamed = _renames(settings["renames"])
        self._before = {new: old for old, new in self._renamed.items()}
        self._with_default: bool = settings["replace.null.with.default"]
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        value, schema = self.value(record), self.schema(record)
        if value is None:
            return record
        if schema is None:
            found = require_map(value, "field replacement")
            changed = {self._renamed.get(name, name): each for name, each in found.items() if self._stays(name)}
            return self.with_part(record, None, changed)
        struct = require_struct(value, "field replacement")
        made = Struct(self._schemas(struct.schema))
        for field in made.schema.fields:
            old = self._before.get(field.name, field.name)
            made.put(field.name, struct.get(old) if self._with_default else struct.get_without_default(old))
        return self.with_part(record, made.schema, made)

    def _stays(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _schema(self, schema: Schema) -> Schema:
        builder = copied_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if self._stays(field.name):
                builder.field(self._renamed.get(field.name, field.name), field.schema)
        return builder.build()


class ValueToKey(ConfiguredPlugin):
    """Replace the record key with a new key formed from a subset of fields in the record value."""

    java_name = TRANSFORMS + "ValueToKey"
    config_def = simple_def(
        (
            "fields",
            ConfigType.LIST,
            REQUIRED,
            ValidList(empty=False),
            Importance.HIGH,
            "Field names on the record value to extract as the record key.",
        ),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._fields: list[str] = settings["fields"]
        self._with_default: bool = settings["replace.null.with.default"]
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            value = require_map(record.value, purpose)
            return record.replace(key_schema=None, key={name: value.get(name) for name in self._fields})
        struct = require_struct(record.value, purpose)
        key = Struct(self._schemas(struct.schema))
        for name in self._fields:
            key.put(name, struct.get(name) if self._with_default else struct.get_without_default(name))
        return record.replace(key_schema=key.schema, key=key, value_schema=struct.schema)

    def _schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, field.schema)
        return builder.build()


class SetSchemaMetadata(PartTransformation):
    """Set the schema name, version or both on the record's key or value schema."""

    config_def = simple_def(
        ("schema.name", ConfigType.STRING, None, None, Importance.HIGH, "Schema name to set."),
        ("schema.version", ConfigType.INT, None, None, Importance.HIGH, "Schema version to set."),
        replaces_null(),
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._name: str | None = settings["schema.name"]
        self._version: int | None = settings["schema.version"]
        self._with_default: bool = settings["replace.null.with.default"]
        if self._name is None and self._version is None:
            raise config_error("Neither schema name nor version configured")
        self._schemas = kept(self._schema)

    def apply(self, record: Any) -> Any:
        """See `Transformation`."""
        schema, value = self.schema(record), self.value(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        updated = self._schemas(schema)
        if isinstance(value, Struct):
            made = Struct(updated)
            for field in updated.fields:
                made.put(field.name, value.at(field, with_default=self._with_default))
            value = made
        return self.with_part(record, updated, value)

    def _schema(self, schema: Schema) -> Schema:
        return Schema(
            schema.type,
            optional=schema.optional,
            default=schema.default,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=schema.fields,  # of nothing but a struct, as in Kafka
            key_schema=schema.key_schema,
            value_schema=schema.value_schema,
        )

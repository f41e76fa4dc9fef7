"""The base of transformations and predicates, also of those that others write: `ottla.connect` has what is public of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from ottla.config import ConfigType
from ottla.connect.config_def import ConfigDef, Importance
from ottla.connect.data.builder import SchemaBuilder
from ottla.connect.data.java_text import class_of
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.records import SinkRecord
from ottla.connect.version import STOCK_VERSION

__all__ = [
    "TRANSFORMS",
    "ConfiguredPlugin",
    "PartTransformation",
    "copied_basics",
    "java_split",
    "kept",
    "of_key",
    "of_value",
    "replaces_null",
    "require_map",
    "require_sink_record",
    "require_struct",
    "simple_def",
]

TRANSFORMS = "org.apache.kafka.connect.transforms."
SCHEMAS_KEPT = 16
_STOCK = "ottla.connect.transforms."
"""The modules of the transformations that Kafka has."""

Of = TypeVar("Of")


class ConfiguredPlugin:
    """A transformation or predicate whose settings `config_def` types: `apply` or `test` is all that it lacks."""

    java_name: ClassVar[str] = ""
    """Its class's name in Java, where it has one."""
    version: ClassVar[str] = STOCK_VERSION
    """What `/connector-plugins` shows; a plugin of your own says its own."""
    config_def: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the settings; raises ConfigError."""
        self.settle(self.config_def.parse(props))

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""


class PartTransformation(ConfiguredPlugin):
    """A transformation of the key or of the value; `of_key` and `of_value` make the two classes.

    `apply(record)` returns the record to go on with, which `with_part` makes, or None to drop it.
    """

    on: ClassVar[str] = "value"

    def schema(self, record: Any) -> Schema | None:
        """Return the schema of the part."""
        found: Schema | None = record.key_schema if self.on == "key" else record.value_schema
        return found

    def value(self, record: Any) -> Any:
        """Return the part."""
        return record.key if self.on == "key" else record.value

    def with_part(self, record: Any, schema: Schema | None, value: Any, **more: Any) -> Any:
        """Return the record with another part."""
        if self.on == "key":
            return record.replace(key_schema=schema, key=value, **more)
        return record.replace(value_schema=schema, value=value, **more)


def of_key(kind: type[Of]) -> type[Of]:
    """Return the class of a transformation that is for keys; configurations name it `X$Key`."""
    return _of_part(kind, "key", "Key")


def of_value(kind: type[Of]) -> type[Of]:
    """Return the class of a transformation that is for values; configurations name it `X$Value`."""
    return _of_part(kind, "value", "Value")


def _of_part(kind: type[Of], part: str, word: str) -> type[Of]:
    package = TRANSFORMS if kind.__module__.startswith(_STOCK) else f"{kind.__module__}."
    own = {"on": part, "java_name": f"{package}{kind.__name__}${word}", "__doc__": kind.__doc__}
    # of the module that the class is of: plugins in folders are known by that
    return type(kind.__name__ + word, (kind,), {**own, "__module__": kind.__module__})


def simple_def(*keys: tuple[Any, ...]) -> ConfigDef:
    """Return a definition of keys given as (name, type, default, validator, importance, documentation)."""
    found = ConfigDef()
    for name, type_, default, validator, importance, doc in keys:
        found.define(name, type_, default, importance=importance, doc=doc, validator=validator)
    return found


def replaces_null() -> tuple[Any, ...]:
    """Return the key that most transformations have: whether None is read as a field's default."""
    doc = (
        "Whether to replace fields that have a default value and that are null to the default value. "
        "When set to true, the default value is used, otherwise null is used."
    )
    return ("replace.null.with.default", ConfigType.BOOLEAN, True, None, Importance.MEDIUM, doc)


def kept(make: Callable[[Schema], Schema]) -> Callable[[Schema], Schema]:
    """Return `make` with a memory of the schemas that it has made."""
    return lru_cache(SCHEMAS_KEPT)(make)


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    """Return a map; raises DataError for anything else."""
    if not isinstance(value, dict):
        found = class_of(value)
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    """Return a struct; raises DataError for anything else."""
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_of(value)}")
    return value


def require_sink_record(record: Any, purpose: str) -> SinkRecord:
    """Return a sink's record; raises DataError for a source's."""
    if not isinstance(record, SinkRecord):
        raise DataError(f"Only SinkRecord supported for [{purpose}], found: {class_of(record)}")
    return record


def copied_basics(source: Schema, builder: SchemaBuilder | None = None) -> SchemaBuilder:
    """Return a builder with a schema's name, version, doc and parameters, of its type unless another is given."""
    if builder is None:
        value = source.value_schema if source.type is SchemaType.ARRAY else None
        builder = SchemaBuilder(source.type, value=value)
    return builder.name(source.name).version(source.version).doc(source.doc).parameters(source.parameters)


def java_split(text: str, at: str) -> list[str]:
    """Split as Java's `String.split` does: without empty parts at the end."""
    parts = text.split(at)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts

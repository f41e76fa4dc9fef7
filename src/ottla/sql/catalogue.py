"""What statements know of: streams and tables by name, types that CREATE TYPE has named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ottla.sql.errors import SqlError
from ottla.sql.formats import Codec, SchemaForm, SchemaRegistry, codec
from ottla.sql.schema import LogicalSchema, WindowInfo
from ottla.sql.tree.statements import SourceKind
from ottla.sql.types import SqlType


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of a topic are bytes."""

    key_format: str
    value_format: str
    wrapped: bool = True
    key_delimiter: str = ","
    value_delimiter: str = ","
    key_form: SchemaForm = field(default_factory=SchemaForm)
    value_form: SchemaForm = field(default_factory=SchemaForm)
    registry: SchemaRegistry | None = field(default=None, compare=False, repr=False)
    """Where schemas of what others wrote are looked up."""

    def key_codec(self, schema: LogicalSchema) -> Codec:
        """The codec of keys; raises SqlError for columns that the format cannot hold."""
        return codec(
            self.key_format,
            schema.key,
            wrapped=False,
            delimiter=self.key_delimiter,
            form=self.key_form,
            registry=self.registry,
        )

    def value_codec(self, schema: LogicalSchema) -> Codec:
        """The codec of values; raises SqlError for columns that the format cannot hold."""
        return codec(
            self.value_format,
            schema.value,
            wrapped=self.wrapped,
            delimiter=self.value_delimiter,
            form=self.value_form,
            registry=self.registry,
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table over a topic; `timestamp` names the column that says a row's time."""

    kind: SourceKind
    name: str
    topic: str
    schema: LogicalSchema
    layout: Layout
    timestamp: str | None = None
    timestamp_format: str | None = None
    window: WindowInfo | None = None
    """The windows that its keys are within, None for plain keys."""
    read_only: bool = False
    partitions: int | None = None
    """How many partitions its topic has, None where nobody has said."""
    made_by: str | None = None
    """The id of the query that writes it, None for one over a topic that others write."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Sources and types, by name; never changed, only replaced by another."""

    sources: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    types: Mapping[str, SqlType] = field(default_factory=lambda: MappingProxyType({}))
    registry: SchemaRegistry | None = field(default=None, compare=False, repr=False)
    """Where schemas of topics are, None where none is configured."""

    def source(self, name: str) -> Source:
        """The source of a name; raises SqlError where there is none."""
        found = self.sources.get(name)
        if found is None:
            raise SqlError(f"{name} does not exist.")
        return found

    def with_source(self, source: Source) -> Catalogue:
        """The catalogue with a source, in the place of the one of its name."""
        return replace(self, sources=MappingProxyType({**self.sources, source.name: source}))

    def without_source(self, name: str) -> Catalogue:
        """The catalogue without a source."""
        return replace(self, sources=MappingProxyType({key: each for key, each in self.sources.items() if key != name}))

    def with_type(self, name: str, type_: SqlType) -> Catalogue:
        """The catalogue with a named type."""
        return replace(self, types=MappingProxyType({**self.types, name: type_}))

    def without_type(self, name: str) -> Catalogue:
        """The catalogue without a named type."""
        return replace(self, types=MappingProxyType({key: each for key, each in self.types.items() if key != name}))

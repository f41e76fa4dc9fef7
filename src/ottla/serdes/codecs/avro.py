"""Avro by fastavro.

Its reader and writer in C follow recursive schemas as deep as the bytes or the value are, and would end the process where
the stack does. So what has a recursive schema is read by its reader in Python, which stops, and is written after a look at
how deep it is. An array of items that take no bytes could have 2^62 of
them in ten bytes, so such arrays are not read.
"""

from __future__ import annotations

import io
import json
from typing import IO, Any

import fastavro
from fastavro import _read_py

from ottla.schemas import ParsedSchema
from ottla.serdes.errors import SerdeError

__all__ = ["AvroCodec"]

_BARE_BYTES = "bytes"
DEPTH_MAX = 400
"""How deep values of recursive schemas may be."""


class AvroCodec:
    """Values are what fastavro takes and gives: dictionaries, lists, and Python's own dates and decimals.

    With `named_unions` a union's value of a named type is decoded as a pair with that name.
    """

    def __init__(self, schema: ParsedSchema, *, logical_types: bool = True, named_unions: bool = False) -> None:
        self._name = schema.name
        self.document = json.loads(schema.formatted("resolved"))
        document = self.document if logical_types else _without_logical_types(self.document)
        try:
            self.full: Any = fastavro.parse_schema(self.document, {})
            """The schema with full names, and its logical types whether they are decoded or not."""
            self.schema: Any = fastavro.parse_schema(document, {})
        except Exception as error:  # its errors have no common root
            raise SerdeError(f"The Avro schema cannot be used: {error}") from error
        shape = _Shape(self.document)
        self._named_unions = named_unions
        self._is_recursive = shape.is_recursive
        self._is_unreadable = shape.has_empty_items
        self._read = _read_py.schemaless_reader if shape.is_recursive else fastavro.schemaless_reader

    def encode(self, value: Any, indexes: tuple[int, ...] | None = None) -> bytes:
        """See `Codec`."""
        if self.document == _BARE_BYTES and isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)  # without its length, as Confluent's
        return self.write(value)

    def write(self, value: Any) -> bytes:
        """Return a value's bytes as Avro has them, those of the type `bytes` too; raises SerdeError."""
        found = io.BytesIO()
        if self._is_recursive:
            _check_depth(value)
        try:
            fastavro.schemaless_writer(found, self.schema, value)
        except Exception as error:  # fastavro raises whatever a wrong value brings about
            raise SerdeError(f"The value does not fit the Avro schema {self._called()}: {_said(error)}") from error
        return found.getvalue()

    def decode(self, data: bytes, indexes: tuple[int, ...] | None = None, *, reader: AvroCodec | None = None) -> Any:
        """See `Codec`; `reader` is the schema that the value is wanted in."""
        if self.document == _BARE_BYTES:
            return bytes(data)
        return self.read(io.BytesIO(data), reader=reader)

    def read(self, stream: IO[bytes], *, reader: AvroCodec | None = None) -> Any:
        """Read one value as Avro has it, and leave the stream behind it; raises SerdeError."""
        if self._is_unreadable:
            raise SerdeError(
                "Arrays of items that take no bytes are not read: a few bytes could hold any number of them"
            )
        try:
            other = None if reader is None else reader.schema
            return self._read(stream, self.schema, other, return_named_type=self._named_unions)
        except Exception as error:  # fastavro raises whatever wrong bytes bring about
            raise SerdeError(f"The bytes are no value of the Avro schema {self._called()}: {_said(error)}") from error

    def to_json(self, value: Any) -> str:
        """See `Codec`: Avro's own JSON, in which a value of a union names its type."""
        found = io.StringIO()
        try:
            fastavro.json_writer(found, self.schema, [value])
        except Exception as error:  # as above
            raise SerdeError(f"The value cannot be told in JSON: {_said(error)}") from error
        return json.dumps(json.loads(found.getvalue()), ensure_ascii=False, separators=(",", ":"))

    def from_json(self, text: str, indexes: tuple[int, ...] | None = None) -> Any:
        """See `Codec`."""
        try:
            return next(iter(fastavro.json_reader(io.StringIO(json.dumps(json.loads(text))), self.schema)))
        except Exception as error:  # as above
            raise SerdeError(f"The text is no value of the Avro schema {self._called()}: {_said(error)}") from error

    def path_to(self, name: str | None) -> tuple[int, ...] | None:
        """See `Codec`."""
        if name:
            raise SerdeError("An Avro schema has one type: no message can be named")
        return None

    def name(self, indexes: tuple[int, ...] | None = None) -> str | None:
        """See `Codec`."""
        return self._name

    def _called(self) -> str:
        return self._name or json.dumps(self.document)[:80]


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, EOFError | StopIteration | IndexError):
        return "it ends too early"
    return str(error) or type(error).__name__


def _check_depth(value: Any, depth: int = 0) -> None:
    """Raise SerdeError for a value that is nested too deep, or holds itself."""
    if depth > DEPTH_MAX:
        raise SerdeError(f"The value is nested too deep: more than {DEPTH_MAX} levels")
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for each in value:
        _check_depth(each, depth + 1)


_LOGICAL = ("logicalType", "precision", "scale")


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical_types(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value if key == "default" else _without_logical_types(value)
        for key, value in node.items()
        if not (key in _LOGICAL and "fields" not in node)
    }


class _Shape:
    """What has to be known of a schema before strangers' bytes are read by it."""

    def __init__(self, document: Any) -> None:
        self.is_recursive = False
        self.has_empty_items = False
        self._open: set[str] = set()
        self._empty: dict[str, bool] = {}
        self._visit(document, "")

    def _visit(self, node: Any, namespace: str) -> bool:
        """Return whether a value of this type may take no bytes."""
        if isinstance(node, list):
            for each in node:
                self._visit(each, namespace)
            return False  # a union's value begins with its branch
        if isinstance(node, str):
            full = node if "." in node or not namespace else f"{namespace}.{node}"
            self.is_recursive |= full in self._open or node in self._open
            return node == "null" or self._empty.get(full, self._empty.get(node, False))
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self._visit(kind, namespace)
        if kind in ("array", "map"):
            is_empty = self._visit(node["items" if kind == "array" else "values"], namespace)
            self.has_empty_items |= kind == "array" and is_empty
            return False
        if kind not in ("record", "error", "enum", "fixed"):
            return self._visit(kind, namespace)
        return self._visit_named(node, namespace)

    def _visit_named(self, node: dict[str, Any], namespace: str) -> bool:
        name = node["name"]
        if "." not in name:
            space = node.get("namespace", namespace)
            name = f"{space}.{name}" if space else name
        is_empty = bool(node["type"] == "fixed" and node["size"] == 0)
        if node["type"] in ("record", "error"):
            self._open.add(name)
            fields = [self._visit(each["type"], name.rpartition(".")[0]) for each in node["fields"]]
            self._open.discard(name)
            is_empty = all(fields)
        self._empty[name] = is_empty
        return is_empty

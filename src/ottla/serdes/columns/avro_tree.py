"""An Avro schema as a tree without names to look up, for whoever walks columns along it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.schemas import ParsedSchema
from ottla.serdes.errors import SerdeError

__all__ = ["NESTING_MAX", "Field", "Node", "tree_of"]

NAMED = ("record", "error", "enum", "fixed")
NODES_MAX = 10_000
"""How many places a schema's values may have: a type that is used in many places counts in each."""
NESTING_MAX = 64


@dataclass(frozen=True)
class Field:
    """A record's field; `default` is JSON, where `has_default`."""

    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class Node:
    """A type where it is used. Which of the rest is set, `kind` says: Avro's word for the type, or `union`."""

    kind: str
    name: str = ""
    """The full name of a record, an enum or a fixed."""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    symbol_default: str | None = None
    items: Node | None = None
    """What arrays and maps hold."""
    branches: tuple[Node, ...] = ()

    @property
    def inner(self) -> Node | None:
        """What a union of null and one more type holds beside null; None for what is no such union."""
        others = [each for each in self.branches if each.kind != "null"]
        return others[0] if self.kind == "union" and len(others) == 1 and len(self.branches) == 2 else None

    def is_called(self, other: Node) -> bool:
        """Whether what was written with `other` may be read with this: names without namespaces, and aliases, count."""
        if not self.name or not other.name:
            return True
        return _short(other.name) in {_short(self.name), *map(_short, self.aliases)}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def tree_of(schema: ParsedSchema) -> Node:
    """Return the tree of an Avro schema; raises SerdeError for one that holds itself, or is too large."""
    return _Reading().node(json.loads(schema.formatted("resolved")), "", 0)


class _Reading:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._open: set[str] = set()
        self._count = 0

    def node(self, given: Any, namespace: str, depth: int) -> Node:
        self._count += 1
        if self._count > NODES_MAX or depth > NESTING_MAX:
            raise SerdeError("The Avro schema is too large for columns")
        if isinstance(given, list):
            return Node("union", branches=tuple(self.node(each, namespace, depth + 1) for each in given))
        if isinstance(given, str):
            return self._named_before(given, namespace, depth)
        kind = given["type"]
        if isinstance(kind, dict | list):
            return self.node(kind, namespace, depth + 1)
        if kind in NAMED:
            return self._named(given, namespace, depth)
        if kind == "array":
            return Node("array", items=self.node(given["items"], namespace, depth + 1))
        if kind == "map":
            return Node("map", items=self.node(given["values"], namespace, depth + 1))
        found = self.node(kind, namespace, depth + 1)
        return found if found.name else _logical(found.kind, given)

    def _named_before(self, name: str, namespace: str, depth: int) -> Node:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self._known:
                return self._named(*self._known[each], depth)
        return Node(name)

    def _named(self, given: Mapping[str, Any], namespace: str, depth: int) -> Node:
        name = given["name"]
        if "." not in name:
            space = given.get("namespace", namespace)
            name = f"{space}.{name}" if space else name
        if name in self._open:
            raise SerdeError(f"The Avro schema holds itself ({name}), which columns cannot")
        self._known[name] = given, namespace
        aliases = tuple(given.get("aliases") or ())
        if given["type"] == "enum":
            return Node("enum", name, aliases, symbols=tuple(given["symbols"]), symbol_default=given.get("default"))
        if given["type"] == "fixed":
            found = _logical("fixed", given)
            return Node("fixed", name, aliases, found.logical, found.precision, found.scale, given["size"])
        self._open.add(name)
        fields = tuple(self._field(each, name.rpartition(".")[0], depth + 1) for each in given["fields"])
        self._open.discard(name)
        return Node("record", name, aliases, fields=fields)

    def _field(self, given: Mapping[str, Any], namespace: str, depth: int) -> Field:
        node = self.node(given["type"], namespace, depth)
        return Field(given["name"], node, tuple(given.get("aliases") or ()), "default" in given, given.get("default"))


_LOGICAL = {
    ("int", "date"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
}
DECIMAL_DIGITS_MAX = 38


def _logical(kind: str, given: Mapping[str, Any]) -> Node:
    """Return a plain type with its logical type, where that is one that columns have."""
    logical = given.get("logicalType")
    if (kind, logical) in _LOGICAL:
        return Node(kind, logical=str(logical))
    precision, scale = given.get("precision", 0), given.get("scale", 0)
    is_decimal = logical == "decimal" and kind in ("bytes", "fixed")
    if is_decimal and isinstance(precision, int) and 0 < precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
        return Node(kind, logical="decimal", precision=precision, scale=scale)
    return Node(kind)

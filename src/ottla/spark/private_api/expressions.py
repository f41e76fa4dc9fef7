"""An expression as Spark has parsed and resolved it, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CatalystExpression", "resolved_expression"]

PLAIN = ("string", "boolean", "int")
"""Types whose literals are read."""


@dataclass(frozen=True, slots=True)
class CatalystExpression:
    """A node of Spark's tree: `name` is that of its class, `kind` Spark's name of the result's type."""

    name: str
    kind: str
    children: tuple[CatalystExpression, ...] = ()
    value: Any = None
    """Of an attribute its name, of a literal of a plain type its value."""


def resolved_expression(frame: DataFrame) -> CatalystExpression:
    """Return the one column that a frame selects under an alias, as the analyzer has left it.

    By `_jdf` and Catalyst's classes: `explain` prints a tree that nobody promises to be able to read.
    """
    return _read(frame._jdf.queryExecution().analyzed().projectList().head().child())


def _read(node: Any) -> CatalystExpression:
    name, kind = str(node.getClass().getSimpleName()), str(node.dataType().simpleString())
    if name == "AttributeReference":
        return CatalystExpression(name, kind, value=str(node.name()))
    if name == "Literal":
        return CatalystExpression(name, kind, value=_literal(node, kind))
    children = node.children()
    return CatalystExpression(name, kind, tuple(_read(children.apply(at)) for at in range(children.size())))


def _literal(node: Any, kind: str) -> Any:
    value = node.value() if kind in PLAIN else None
    return str(node.toString()) if value is not None and kind == "string" else value

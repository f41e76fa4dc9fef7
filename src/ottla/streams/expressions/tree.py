"""An expression's syntax tree, whoever has read it: names, literals, calls (operators are calls by their sign) and casts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.streams.expressions.kinds import Kind

__all__ = ["Call", "Cast", "Field", "Item", "Literal", "Name", "Tree"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of a type."""

    value: Any
    kind: Kind


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    of: Tree
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """An element of an array, by its place from 0."""

    of: Tree
    place: Tree


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator; `names` are those that its arguments were given (`struct(a as b)`)."""

    function: str
    arguments: tuple[Tree, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion; `safe` gives null for what cannot be converted."""

    of: Tree
    to: Kind
    safe: bool = False


Tree = Literal | Name | Field | Item | Call | Cast

"""A syntax tree with the types of its columns → a typed expression."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.streams.expressions.bound import Bound, cast, constant, strict
from ottla.streams.expressions.functions import FUNCTIONS
from ottla.streams.expressions.kinds import INTEGERS, Kind, Refused
from ottla.streams.expressions.operators import OPERATORS
from ottla.streams.expressions.tree import Call, Cast, Field, Item, Literal, Name, Tree

__all__ = ["bound"]

_READ = {"uuid": "r.of_uuid({0})", "datetime": "r.of_datetime({0})", "decimal": "r.scaled({0}, 38, 18)"}


def bound(tree: Tree, columns: Mapping[str, Kind]) -> Bound:
    """Return a typed expression over these columns; raises Refused, with the name of what is not known."""
    if isinstance(tree, Literal):
        return constant(tree.value, tree.kind)
    if isinstance(tree, Name):
        return _column(tree.name, columns)
    if isinstance(tree, Cast):
        return cast(bound(tree.of, columns), tree.to, safe=tree.safe)
    if isinstance(tree, Field):
        return _field(bound(tree.of, columns), tree.name)
    if isinstance(tree, Item):
        return _item(bound(tree.of, columns), bound(tree.place, columns))
    return _call(tree, [bound(each, columns) for each in tree.arguments])


def _column(name: str, columns: Mapping[str, Kind]) -> Bound:
    kind = columns.get(name.lower())
    if kind is None:
        raise Refused(f"column {name} is not known here; there are {', '.join(sorted(columns))}")
    return _read(Bound(kind, "column", value=name.lower()))


def _read(part: Bound) -> Bound:
    """Return a value as evaluated expressions hold it."""
    template = _READ.get(part.kind.held)
    return part if template is None else strict(part.kind.plain, template, part)


def _field(of: Bound, name: str) -> Bound:
    if of.kind.name != "struct":
        raise Refused(f".{name} of {of.kind} is not known here")
    found = [(each, kind) for each, kind in of.kind.fields if each.lower() == name.lower()]
    if len(found) != 1:
        raise Refused(f"{of.kind} has {'no field' if not found else 'two fields'} {name}")
    field, kind = found[0]
    if kind.name == "variant":
        raise Refused(f"{name}, which is a variant, is not known here")
    template = "getattr({0}, {v}, None)" if of.kind.held == "object" else "{0}.get({v})"
    return _read(strict(kind, template, of, value=field))


def _item(of: Bound, place: Bound) -> Bound:
    if of.kind.name != "array" or of.kind.element is None or place.kind not in INTEGERS:
        raise Refused(f"[{place.kind}] of {of.kind} is not known here")
    return strict(of.kind.element, "r.item({0}, {1})", of, place)


def _call(tree: Call, arguments: list[Bound]) -> Bound:
    operator = OPERATORS.get(tree.function)
    if operator is not None:
        return operator(arguments)
    function = FUNCTIONS.get(tree.function)
    if function is None:
        raise Refused(f"function {tree.function} is not known here")
    return function(arguments, tree.names or ("",) * len(arguments))

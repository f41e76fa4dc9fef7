"""Defaults of Avro's fields, which stand in schemas as JSON, as values of columns."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from ottla.serdes.columns.avro_tree import Node
from ottla.serdes.columns.types import branches_of
from ottla.serdes.errors import SerdeError

__all__ = ["default_of"]

_EXACT = Context(prec=200)


def default_of(node: Node, given: Any) -> Any:
    """Return what PyArrow takes for a value of the node's column; raises SerdeError."""
    if node.kind == "union":
        return _of_union(node, given)
    if node.kind in ("record", "error"):
        return {each.name: default_of(each.node, given.get(each.name, each.default)) for each in node.fields}
    if node.kind == "array":
        assert node.items is not None
        return [default_of(node.items, each) for each in given]
    if node.kind == "map":
        assert node.items is not None
        return [(key, default_of(node.items, each)) for key, each in given.items()]
    if node.kind in ("bytes", "fixed"):
        found = given.encode("latin-1")
        if node.logical != "decimal":
            return found
        return Decimal(int.from_bytes(found, signed=True)).scaleb(-node.scale, _EXACT)
    if node.logical.endswith("millis"):
        return given * 1000
    return given


def _of_union(node: Node, given: Any) -> Any:
    if given is None:
        return None
    others = branches_of(node)
    for index, each in enumerate(others):
        if _is_of(each, given):
            found = default_of(each, given)
            return found if len(others) == 1 else {f"member{index}": found}
    raise SerdeError(f"The default {given!r:.60} is of no branch of its union")


_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("int", "long"), int),
    **dict.fromkeys(("float", "double"), (int, float)),
    **dict.fromkeys(("string", "bytes", "fixed", "enum"), str),
    **dict.fromkeys(("record", "error", "map"), dict),
    "array": list,
    "boolean": bool,
}


def _is_of(node: Node, given: Any) -> bool:
    if isinstance(given, bool) != (node.kind == "boolean"):
        return False
    return isinstance(given, _KINDS.get(node.kind, ()))

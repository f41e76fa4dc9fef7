"""Expressions made of others, with some of their parts replaced; and queries whose expressions are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, cast

from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q

Change = Callable[[e.Expression], e.Expression | None]
"""What an expression becomes, None where its parts are looked at."""


def changed(tree: e.Expression, change: Change) -> e.Expression:
    """The expression with each part replaced that `change` has something for, from the outside in."""
    return cast(e.Expression, _changed(tree, change))


def changed_query(query: q.Query, change: Change) -> q.Query:
    """The query with each of its expressions `changed`."""
    return cast(q.Query, _changed(query, change))


_HOLDERS = (q.Query, q.Selected, q.AllFields, q.Join, q.Ordered)


def _changed(tree: object, change: Change) -> object:
    if isinstance(tree, tuple):
        return tuple(_changed(item, change) for item in tree)
    if isinstance(tree, e.Expression):
        found = change(tree)
        if found is not None:
            return found
    elif not isinstance(tree, _HOLDERS):
        return tree
    names = [each.name for each in fields(tree) if each.name != "at"]
    parts: dict[str, Any] = {name: _changed(getattr(tree, name), change) for name in names}
    return replace(tree, **parts)

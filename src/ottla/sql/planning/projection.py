"""SELECT: what its items are called, what `*` stands for, and which names may not be given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

from ottla.sql import rules
from ottla.sql.errors import SqlError
from ottla.sql.expressions import type_of
from ottla.sql.plan import Field, Join, Named, Node, ReadSource, nodes
from ottla.sql.planning.references import Rows, check_columns, check_functions, resolved
from ottla.sql.schema import PSEUDO_COLUMNS, SYSTEM_NAMES, WINDOW_BOUNDS
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import StructType

Item = tuple[str, e.Expression]
"""A name and what it is of, every column under its source."""

_BOUNDS = frozenset(name for name, _ in WINDOW_BOUNDS)
_PSEUDO = frozenset((*_BOUNDS, *(name for name, _ in PSEUDO_COLUMNS)))


class Names(set[str]):
    """Names that are taken."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self._next: dict[tuple[str, int], int] = {}

    def free(self, beginning: str, first: int) -> str:
        """Return the first name of a row of numbers that is not taken."""
        at = self._next.get((beginning, first), first)
        while (name := f"{beginning}{at}") in self:
            at += 1
        self._next[beginning, first] = at
        return name


def items_of(query: q.Query, node: Rows, *, persistent: bool = True) -> list[Item]:
    """What is selected of rows of a node, in order; raises SqlError for names that cannot be given."""
    taken = Names(field.name for field in node.fields)
    taken.update(item.alias for item in query.select if isinstance(item, q.Selected) and item.alias is not None)
    found: list[Item] = []
    for item in query.select:
        found.extend(_items(item, query, node, taken, persistent))
    _check_names(query, found, _new_keys(query, node), persistent)
    return found


def typed(items: list[Item], node: Rows) -> list[Named]:
    """The items with their types over rows of a node; raises SqlError for one that is only null."""
    named = []
    for name, expression in items:
        type_ = type_of(expression, node.scope)
        if type_ is None:
            raise SqlError(
                "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR)."
            )
        named.append(Named(name, expression, type_))
    return named


def _items(item: q.SelectItem, query: q.Query, node: Rows, taken: Names, persistent: bool) -> Iterator[Item]:
    if isinstance(item, q.AllOf):
        if item.source is not None and all(field.source != item.source for field in node.fields):
            raise SqlError(f"'{item.source}' is not a valid stream/table name or alias.")
        yield from star(query, node, taken, item.source, persistent=persistent)
        return
    if isinstance(item, q.AllFields):
        check_columns(item.base, node.scope, "SELECT")
        type_ = type_of(item.base, node.scope)
        if not isinstance(type_, StructType):
            raise SqlError(f"Cannot use '->*' on {expression_text(item.base)}: it is no STRUCT but {type_}")
        base = resolved(item.base, node)
        for name, _ in type_.fields:
            yield name, e.Dereference(base, name)
        return
    check_columns(item.expression, node.scope, "SELECT")
    check_functions(item.expression)
    found = resolved(item.expression, node)
    yield item.alias or generated(_joined_name(found, node), taken), found


def star(
    query: q.Query, node: Rows, taken: Names, source: str | None = None, *, persistent: bool = True
) -> Iterator[Item]:
    """What `*` is: of a join every column with its source's name.

    With PARTITION BY the new key stands before all other columns, the old one behind them.
    """
    first = _new_keys(query, node)
    for expression in first:
        yield _key_name(expression, query, taken), expression
    if isinstance(node, Join) and node.made_key is not None and source is None and not first:
        yield node.made_key.name, e.Column(node.made_key.name)
    for field in _ordered(node, moved=query.partition_by is not None) if rules.hold(rules.STRICT) else node.fields:
        column = e.Column(field.name, field.source)
        shows = _is_shown(field.name, query, persistent=persistent)
        if field.source is not None and shows and column not in first and source in (None, field.source):
            yield (f"{field.source}_{field.name}" if query.joins else field.name), column


def _is_shown(name: str, query: q.Query, *, persistent: bool) -> bool:
    """Whether `*` has a column of a source: those that a sink may not have by their own names are columns of a join."""
    if name not in _PSEUDO:
        return True
    if name in _BOUNDS:
        return not persistent or (bool(query.joins) and rules.hold(rules.STRICT))
    return bool(query.joins) and query.partition_by is not None and rules.hold(rules.STRICT)


def _new_keys(query: q.Query, node: Rows) -> list[e.Expression]:
    """What PARTITION BY makes the key of; nothing for NULL."""
    partition_by = () if query.partition_by == (e.NullLiteral(),) else query.partition_by or ()
    return [resolved(each, node) for each in partition_by]


def _key_name(expression: e.Expression, query: q.Query, taken: Names) -> str:
    prefixed = query.joins and rules.hold(rules.STRICT)
    if prefixed and isinstance(expression, e.Column) and expression.source is not None:
        return f"{expression.source}_{expression.name}"
    return generated(expression, taken)


def _ordered(node: Rows, *, moved: bool) -> Iterator[Field]:
    """The fields of each source in the order of `*`: its key, its windows' bounds and its values.

    Where PARTITION BY has `moved` the rows, its values, pseudo columns, key and bounds. The order is seen in formats without
    names, as DELIMITED.
    """
    read = (each for each in nodes(cast(Node, node)) if isinstance(each, ReadSource))
    keys = {field for each in read for field in each.key}

    def place(field: Field) -> int:
        if field in keys:
            return 1 if moved else -2
        if field.name in _BOUNDS:
            return 2 if moved else -1
        return 0

    for name in dict.fromkeys(field.source for field in node.fields):
        yield from sorted((field for field in node.fields if field.source == name), key=place)


def _joined_name(expression: e.Expression, node: Rows) -> e.Expression:
    """A column that other sources of a join have, too, under a name that says whose it is."""
    if not isinstance(expression, e.Column) or expression.source is None:
        return expression
    several = len({*node.scope.sources.get(expression.name, ())} - {None}) > 1
    return e.Column(f"{expression.source}_{expression.name}") if several else expression


def generated(expression: e.Expression, taken: Names) -> str:
    """The name of a column that was given none."""
    if isinstance(expression, e.Column):
        return expression.name
    if isinstance(expression, e.Dereference):
        name = expression.name
        if name in taken:
            name = taken.free(f"{name}_", 1)
    else:
        name = taken.free("KSQL_COL_", 0)
    taken.add(name)
    return name


def _check_names(query: q.Query, items: list[Item], keys: list[e.Expression], persistent: bool) -> None:
    aliases = {item.alias for item in query.select if isinstance(item, q.Selected)}
    counts = Counter(name for name, _ in items)
    for name, of in items:
        if counts[name] > 1:
            raise SqlError(f"The projection contains a duplicate column name: `{name}`.")
        if name in SYSTEM_NAMES and name in aliases:
            raise SqlError(f"`{name}` is a reserved column name. You cannot use it as an alias for a column.")
        if name in SYSTEM_NAMES and persistent and of not in keys:
            raise SqlError(f"Reserved column name in select: `{name}`. Please remove or alias the column.")

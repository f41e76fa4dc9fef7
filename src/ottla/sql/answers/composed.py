"""Pull queries beyond keys, which ksqlDB has not: tables joined, grouped and ordered as they are now.

Rows are joined by hash, a small left side by look-ups of the right one's key; groups are folded by the functions of
persistent queries. All rows are in memory meanwhile: who reads them counts them, and those that joins make, against a bound.

A query is read at one moment: `begin` takes what it needs of every table before it returns, and gives rows afterwards, with
None between them where others may have their turn.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ottla.sql import functions
from ottla.sql.answers.pull import KEYS_MAX, KeyRange, TableRows, conditions_of, ordered_columns, rows_wanted
from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import SqlError
from ottla.sql.expressions import Row, Scope, compile_condition, compile_expression, type_of
from ottla.sql.plan import Aggregate, AggregateCall, Gathered, Named, Node, ReadSource, Where, scope_of
from ottla.sql.planning import ruled
from ottla.sql.planning.aggregation import aggregated
from ottla.sql.planning.projection import items_of, typed
from ottla.sql.planning.references import aggregates_of, columns_of, resolved
from ottla.sql.planning.relations import check_no_aggregates, exploded, filtered
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import ArrayType, MapType, SqlType, StructType, backticked, is_number

LOOK_UPS_MAX = 1000
"""Rows of a left side whose partners are looked up one by one; of more the right side is read whole."""
JOINS_MAX, ORDERS_MAX = 16, 64
PIECE = 10_000
"""Rows that are sorted at a time."""
TURN = 5
"""Rows after which others may have their turn."""
Ticking = Iterator[Row | None]
Value = Callable[[Row], object]


class Read(Protocol):
    """Takes the rows that a table has at this moment; they are decoded as they are asked for."""

    def __call__(self, wanted: TableRows) -> Sequence[Any]:
        """Return the rows as they lie there; raises where they are too many."""
        ...

    def decoded(self, wanted: TableRows, stored: Sequence[Any]) -> Iterator[Row | None]:
        """Return what the rows are, None for one that cannot be read."""
        ...

    def made(self, count: int) -> None:
        """Count rows that a join has made; raises where they are too many."""
        ...


@dataclass(frozen=True, slots=True)
class _Join:
    """A table joined to those before it: pairs of values that have to be equal."""

    kind: str
    left: tuple[Value, ...]
    right: tuple[Value, ...]
    table: TableRows
    left_width: int
    right_width: int
    time_at: int
    """Of ROWTIME in a row of the right table."""
    by_key: tuple[int, ...] | None
    """For each column of the right key the pair that it is in, where the pairs are the whole key and nothing else."""

    def looked_up(self, rows: Sequence[Row]) -> TableRows | None:
        """The keys that rows of the left side ask for, None where all rows have to be read."""
        if self.by_key is None or self.kind in ("RIGHT", "OUTER") or self.table.keys is not None:
            return None
        keys = {tuple(self.left[at](row) for at in self.by_key) for row in rows}
        found = tuple(each for each in keys if None not in each)
        return replace(self.table, keys=found, range=KeyRange()) if len(found) <= KEYS_MAX else None

    def rows(self, left: Iterable[Row | None], right: Iterable[Row | None], made: Callable[[int], None]) -> Ticking:
        """Join rows; the left side's order stays."""
        by_key: dict[object, list[Row]] = {}
        every: list[Row] = []
        keeps_right = self.kind in ("RIGHT", "OUTER")
        for row in right:
            if row is None:
                yield None
                continue
            key = _key(self.right, row)
            if key is not None:
                by_key.setdefault(key, []).append(row)
            if keeps_right:
                every.append(row)
        met: set[int] = set()
        nothing = (None,) * self.right_width
        for row in left:
            if row is None:
                yield None
                continue
            key = _key(self.left, row)
            partners = () if key is None else by_key.get(key, ())
            made(len(partners))
            for partner in partners:
                yield self._together(row, partner)
            if keeps_right:
                met.update(map(id, partners))
            if not partners and self.kind in ("LEFT", "OUTER"):
                yield (*row, *nothing)
        alone = (None,) * (self.left_width - 1)
        for row in every:
            if id(row) not in met:
                yield (row[self.time_at], *alone, *row)

    def _together(self, left: Row, right: Row) -> Row:
        times = (left[0], right[self.time_at])
        later = max((each for each in times if isinstance(each, int)), default=None)
        return (later, *left[1:], *right)


@dataclass(frozen=True, slots=True)
class ComposedQuery:
    """A query over tables as they are now: which rows of each to read, and what to make of them."""

    tables: tuple[TableRows, ...]
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    _joins: tuple[_Join, ...]
    _root: Node
    _make: tuple[Value, ...]
    _order: tuple[_Order, ...]
    _limit: int | None
    _is_gathered: bool
    """Whether the root's rows begin with their time."""
    _time_at: int

    @property
    def schema_text(self) -> str:
        """The columns as a header of an answer tells them."""
        return ", ".join(f"{backticked(name)} {type_}" for name, type_ in zip(self.names, self.types, strict=True))

    def begin(self, read: Read) -> Ticking:
        """Read what is needed, and return the rows, which are made as they are asked for. Raises what `read` does."""
        first = self.tables[0]
        stored = read(first)
        rows: Iterable[Row | None] = _ticking(read.decoded(first, stored))
        if self._is_gathered:
            rows = (row if row is None else (row[self._time_at], *row) for row in rows)
        small = list(_whole(rows)) if len(stored) <= LOOK_UPS_MAX else None
        for join in self._joins:
            wanted = (join.looked_up(small) if small is not None else None) or join.table
            stored = read(wanted)
            right = _ticking(read.decoded(wanted, stored))
            if small is not None and len(stored) <= LOOK_UPS_MAX:
                small = list(_whole(join.rows(small, right, read.made)))
            else:
                rows = join.rows(rows if small is None else small, right, read.made)
                small = None
        return self._answered(_rows_of(self._root, rows if small is None else small))

    def _answered(self, rows: Iterable[Row | None]) -> Ticking:
        width = len(self.names)
        made = (row if row is None else tuple(make(row) for make in self._make) for row in rows)
        if not self._order:
            found = (row if row is None else row[:width] for row in made)
            yield from found if self._limit is None else _first(found, self._limit)
            return
        every: list[Row] = []
        for row in made:
            if row is None:
                yield None
            else:
                every.append(row)
        yield None
        for row in self._sorted(every):
            yield row[:width]

    def _sorted(self, rows: list[Row]) -> list[Row]:
        first, *rest = self._order
        if not rest and self._limit is not None and self._limit < len(rows):
            pick = heapq.nlargest if first.descending else heapq.nsmallest
            return pick(self._limit, rows, key=first.key)
        for each in reversed(self._order):
            rows = _in_pieces(rows, each)
        return rows if self._limit is None else rows[: self._limit]


@dataclass(frozen=True, slots=True)
class _Order:
    at: int
    descending: bool
    nulls_first: bool

    def key(self, row: Row) -> tuple[bool, Any]:
        """What rows are compared by: a null counts as more than anything, or as less."""
        value = row[self.at]
        if isinstance(value, float) and math.isnan(value):
            value = math.inf  # Java's order has it last, too
        return ((value is None) != (self.nulls_first != self.descending), 0 if value is None else value)


# -- planning


def composed_query(query: q.Query, catalogue: Catalogue, settings: Mapping[str, str], *, scans: bool) -> ComposedQuery:
    """What a pull query over several tables, with groups or with an order wants; raises SqlError."""
    query = ruled(query, settings)
    _refuse(query)
    for clause, count, most in (("joins", len(query.joins), JOINS_MAX), ("orders by", len(query.order_by), ORDERS_MAX)):
        if count > most:
            raise SqlError(f"The query {clause} {count} times; {most} are the most")
    read = [_table(each, catalogue) for each in (query.source, *(join.right for join in query.joins))]
    aliases = [each.alias for each in read]
    if len(set(aliases)) < len(aliases):
        raise SqlError("Each table of a query needs a name of its own: FROM T AS A JOIN T AS B …")
    node: Node = Gathered(tuple(read)) if query.joins else read[0]
    plain = conditions_of(query.where)
    tables = tuple(rows_wanted(plain, each.source, each.alias) for each in read)
    if not scans and any(each.keys is None and each.range == KeyRange() for each in tables[:1]):
        raise SqlError(
            "Missing WHERE clause. A query of a table has to name its key, since table scans are disabled. "
            "Set ksql.query.pull.table.scan.enabled to true to allow them."
        )
    joins = tuple(_joined(join, read, at, tables[at + 1]) for at, join in enumerate(query.joins))
    wider = _with_order(query)
    root, columns = _selected(wider.query, node, settings)
    columns = ordered_columns(query, read[0].source, columns) if not query.joins else columns
    width = len(columns) - wider.hidden
    order = tuple(_order(each, at if at >= 0 else width - at - 1, columns) for at, each in wider.order)
    return ComposedQuery(
        tables,
        tuple(each.name for each in columns[:width]),
        tuple(each.type for each in columns[:width]),
        joins,
        root,
        tuple(compile_expression(each.expression, root.scope) for each in columns),
        order,
        query.limit,
        any(isinstance(each, Gathered) for each in _down(root)),
        _time_at(read[0]),
    )


def is_composed(query: q.Query) -> bool:
    """Whether a pull query asks for more than the rows of one source."""
    select = tuple(each.expression for each in query.select if isinstance(each, q.Selected))
    return bool(query.joins or query.order_by or query.group_by is not None or query.having or aggregates_of(select))


def _refuse(query: q.Query) -> None:
    for clause, used in (("WINDOW", query.window), ("PARTITION BY", query.partition_by is not None)):
        if used:
            raise SqlError(
                f"Pull queries don't support {clause} clauses. See https://cnfl.io/queries for more info.\n"
                "Add EMIT CHANGES if you intended to issue a push query."
            )


def _table(source: q.Source, catalogue: Catalogue) -> ReadSource:
    found = catalogue.source(source.name)
    if found.kind == "STREAM":
        raise SqlError(
            f"Pull queries join, group and order tables: {found.name} is a stream, whose rows nothing holds.\n"
            "Add EMIT CHANGES if you intended to issue a push query, or make a table of it: CREATE TABLE … AS SELECT."
        )
    return ReadSource(found, source.alias)


@dataclass(frozen=True, slots=True)
class _Wider:
    """A query with what it is ordered by among its columns, behind the others; places below 0 count those from -1 on."""

    query: q.Query
    hidden: int
    order: tuple[tuple[int, q.Ordered], ...]


def _with_order(query: q.Query) -> _Wider:
    names = [each.alias or _plain_name(each) for each in query.select if isinstance(each, q.Selected)]
    plain = len(names) == len(query.select)
    hidden: list[q.Selected] = []
    order = []
    for each in query.order_by:
        at = _place(each.expression, names if plain else [], len(query.select) if plain else None)
        if at is None:
            hidden.append(q.Selected(each.expression, f"KSQL_ORDER_{len(hidden)}"))
            at = -len(hidden)
        order.append((at, each))
    return _Wider(replace(query, select=(*query.select, *hidden), order_by=()), len(hidden), tuple(order))


def _plain_name(item: q.Selected) -> str | None:
    return item.expression.name if isinstance(item.expression, e.Column) else None


def _place(expression: e.Expression, names: Sequence[str | None], count: int | None) -> int | None:
    """Which of the selected columns an expression is: by its name, or by its number; None for another one."""
    if isinstance(expression, e.Column) and expression.source is None and names.count(expression.name) == 1:
        return names.index(expression.name)
    if isinstance(expression, e.IntegerLiteral):
        if count is None or not 1 <= expression.value <= count:
            most = "columns cannot be counted beside *" if count is None else f"from 1 to {count}"
            raise SqlError(f"ORDER BY {expression.value} names no column: {most}")
        return expression.value - 1
    return None


def _selected(query: q.Query, node: Node, settings: Mapping[str, str]) -> tuple[Node, tuple[Named, ...]]:
    """The rows that are selected from, and the columns."""
    select = tuple(each.expression for each in query.select if isinstance(each, q.Selected))
    if query.group_by is None and (query.having is not None or aggregates_of(select)):
        query = replace(query, group_by=())  # all rows are one group
    if query.group_by is not None:
        # a table's rows are folded as they are: nothing is undone, so that every aggregate can be asked
        below = node if isinstance(node, Gathered) else Gathered((_one(node),))
        root, columns, _ = aggregated(query, below, persistent=False, settings=settings)
        return root, tuple(columns)
    items = items_of(query, node, persistent=False)
    check_no_aggregates(items, query)
    rows = filtered(node, query.where)
    root, items = exploded(rows, items)
    if root is not rows:
        raise SqlError("Pull queries take no table functions beside JOIN, GROUP BY and ORDER BY.")
    return root, tuple(typed(items, root))


def _one(node: Node) -> ReadSource:
    assert isinstance(node, ReadSource), node
    return node


def _order(wanted: q.Ordered, at: int, columns: Sequence[Named]) -> _Order:
    if isinstance(columns[at].type, ArrayType | MapType | StructType):
        raise SqlError(f"Rows have no order by {expression_text(wanted.expression)}: its type is {columns[at].type}")
    nulls_first = wanted.descending if wanted.nulls_first is None else wanted.nulls_first
    return _Order(at, wanted.descending, nulls_first)


def _down(node: Node) -> Iterator[Node]:
    """A node and those below it: none of them is a join."""
    yield node
    while isinstance(node, Where | Aggregate):
        node = node.of
        yield node


def _time_at(table: ReadSource) -> int:
    return next(at for at, field in enumerate(table.fields) if field.name == "ROWTIME")


def _joined(join: q.Join, read: Sequence[ReadSource], at: int, wanted: TableRows) -> _Join:
    if join.within is not None:
        raise SqlError("WITHIN joins streams: tables are joined as they are now.")
    before, table = Gathered(tuple(read[: at + 1])), read[at + 1]
    both = Gathered(tuple(read[: at + 2]))
    pairs = [_pair(each, before, table, both) for each in conditions_of(join.on)]
    right_scope = scope_of(table.fields)
    keys = [column.name for column in table.source.schema.key]
    named = [right.name if isinstance(right, e.Column) else None for _, right in pairs]
    same = all(
        type_of(left, before.scope) == type_of(right, right_scope) for left, right in pairs
    )  # a key is looked up by its bytes
    by_key = None
    if same and len(named) == len(keys) and set(named) == set(keys) and table.source.window is None:
        by_key = tuple(named.index(key) for key in keys)
    return _Join(
        join.kind,
        tuple(compile_expression(left, before.scope) for left, _ in pairs),
        tuple(compile_expression(right, right_scope) for _, right in pairs),
        wanted,
        len(before.fields),
        len(table.fields),
        _time_at(table),
        by_key,
    )


def _pair(
    condition: e.Expression, before: Gathered, table: ReadSource, both: Gathered
) -> tuple[e.Expression, e.Expression]:
    """The sides of an equation, the one of the tables before first; raises SqlError for anything else."""
    if not isinstance(condition, e.Comparison) or condition.operator != "=":
        raise SqlError(f"Tables are joined by equations, with AND between them: {expression_text(condition)} is none.")
    sides = [resolved(each, both) for each in (condition.left, condition.right)]
    of_table = [{column.source == table.alias for column in columns_of(each)} for each in sides]
    if sorted(of_table, key=str) != [{False}, {True}]:
        raise SqlError(
            f"Invalid join condition: one side has to be of {backticked(table.alias)}, and the other of the tables before "
            f"it. Got {expression_text(condition)}."
        )
    left, right = sides if of_table[0] == {False} else reversed(sides)
    types = type_of(left, before.scope), type_of(right, scope_of(table.fields))
    if types[0] != types[1] and not all(each is not None and is_number(each) for each in types):
        raise SqlError(
            f"Invalid join condition: types don't match. Got {expression_text(left)}{{{types[0]}}} = "
            f"{expression_text(right)}{{{types[1]}}}."
        )
    return left, right


def _in_pieces(rows: list[Row], order: _Order) -> list[Row]:
    """Rows in an order, equal ones as they were; of many a piece is sorted at a time, since sorting holds all threads."""
    pieces = [rows[at : at + PIECE] for at in range(0, len(rows), PIECE)]
    for each in pieces:
        each.sort(key=order.key, reverse=order.descending)
    if len(pieces) < 2:
        return pieces[0] if pieces else []
    return list(heapq.merge(*pieces, key=order.key, reverse=order.descending))


# -- rows


def _rows_of(node: Node, rows: Iterable[Row | None]) -> Ticking:
    """What a plan's node makes of rows."""
    if isinstance(node, Where):
        holds = compile_condition(node.condition, node.scope)
        return (row if row is None or holds(row) else None for row in _rows_of(node.of, rows))
    if isinstance(node, Aggregate):
        return _groups(node, _rows_of(node.of, rows))
    return iter(rows)


def _groups(node: Aggregate, rows: Iterable[Row | None]) -> Ticking:
    """The groups' rows, in the order in which they were met; as in persistent queries a null in it makes no group."""
    scope = node.of.scope
    group = [compile_expression(each.expression, scope) for each in node.group]
    folds = [_Fold(call, scope) for call in node.calls]
    found: dict[object, tuple[Row, list[object]]] = {}
    if not group:
        found[()] = ((), [each.initial() for each in folds])
    for row in rows:
        if row is None:
            yield None
            continue
        values = tuple(value(row) for value in group)
        if None in values:
            continue
        key = _hashable(values)
        known = found.get(key)
        if known is None:
            known = found[key] = (values, [each.initial() for each in folds])
        states = known[1]
        for at, fold in enumerate(folds):
            states[at] = fold.add(states[at], row)
    yield None
    for values, states in found.values():
        yield (*values, *(fold.result(state) for fold, state in zip(folds, states, strict=True)))


class _Fold:
    """A call of an aggregate over rows."""

    def __init__(self, call: AggregateCall, scope: Scope) -> None:
        function = functions.aggregate(call.function)
        assert function is not None, call
        resolved_call = function.resolve([type_of(each, scope) for each in call.arguments], call.literals, call.limit)
        self.initial, self._add, self.result = resolved_call.initial, resolved_call.add, resolved_call.result
        self._values = [compile_expression(each, scope) for each in call.arguments]

    def add(self, state: object, row: Row) -> object:
        """The state with a row."""
        return self._add(state, *[value(row) for value in self._values])


def _key(values: Sequence[Value], row: Row) -> object:
    """What rows are joined by, None where a part of it is null."""
    found = tuple(value(row) for value in values)
    return None if None in found else _hashable(found)


def _hashable(value: object) -> object:
    """A value that equal values are equal to, and that can be looked up."""
    if isinstance(value, tuple | list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    return value


def _ticking(rows: Iterable[Row | None]) -> Ticking:
    """Rows, with None after every few of them; those that cannot be read are left out."""
    for count, row in enumerate(rows, 1):
        if row is not None:
            yield row
        if count % TURN == 0:
            yield None


def _whole(rows: Iterable[Row | None]) -> Iterator[Row]:
    return (row for row in rows if row is not None)


def _first(rows: Iterable[Row | None], limit: int) -> Ticking:
    left = limit
    if left == 0:
        return
    for row in rows:
        yield row
        left -= row is not None
        if left == 0:
            return

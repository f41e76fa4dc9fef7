"""Pull queries: which rows of a table, or of a stream as it is now, a query wants, and what it makes of each.

Conditions on the key become look-ups (`=`, IN of every key column) or a range (`<`, `>`, BETWEEN of the only one); the whole
condition is then held against each row that was found, so that it is the meaning and the look-up only the way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import Row, Scope, coerce_value, compile_condition, compile_expression
from ottla.sql.expressions.compiler import compiled
from ottla.sql.plan import Named, ReadSource, Where
from ottla.sql.planning import plan_select, ruled
from ottla.sql.planning.relations import filtered
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.types import BOOLEAN, SqlType, backticked

KEYS_MAX = 10_000
"""Keys that a query may name."""
SHAPES_MAX = 1000
"""Queries that are known but for their condition; where there are more, it is begun anew."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_BOUNDS = ("WINDOWSTART", "WINDOWEND")


class ScanRefusedError(SqlError):
    """A query that names no key, where only look-ups are allowed."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Bounds of the only key column, None for an open end; both are included, since the condition is asked as well."""

    low: object = None
    high: object = None


@dataclass(frozen=True, slots=True)
class TableRows:
    """Which rows of a source a query has to look at."""

    source: Source
    keys: tuple[tuple[object, ...], ...] | None = None
    """Whole keys to look up; None where rows are to be looked at one after the other."""
    range: KeyRange = KeyRange()


@dataclass(frozen=True, slots=True)
class PullQuery:
    """A query over one source: which keys to look up, and what to make of each row."""

    wanted: TableRows
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    is_key: tuple[bool, ...]
    """Which of the columns are the source's key."""
    limit: int | None
    holds: Callable[[Row], bool] | None
    make: Callable[[Row], Row]
    is_light: bool = False
    """Whether what it asks of a row costs no more than the row is long."""

    @property
    def source(self) -> Source:
        """The source."""
        return self.wanted.source

    @property
    def schema_text(self) -> str:
        """The columns as a header of an answer tells them."""
        pairs = zip(self.names, self.types, self.is_key, strict=True)
        return ", ".join(f"{backticked(name)} {type_}{' KEY' if key else ''}" for name, type_, key in pairs)

    def rows(self, found: Iterator[Row]) -> Iterator[Row]:
        """What the query makes of rows: the source's columns, pseudo columns, bounds of windowed keys."""
        return (row for row in self.turns(found) if row is not None)

    def turns(self, found: Iterator[Row]) -> Iterator[Row | None]:
        """The same with None for each row that the condition leaves out, so that who asks can do something else."""
        if self.limit == 0:
            return
        count = 0
        for row in found:
            if self.holds is not None and not self.holds(row):
                yield None
                continue
            yield self.make(row)
            count += 1
            if count == self.limit:
                return


@dataclass(frozen=True, slots=True)
class _Shape:
    """A pull query but for its condition: what is read, and what is made of a row."""

    read: ReadSource
    scope: Scope
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    is_key: tuple[bool, ...]
    make: Callable[[Row], Row]


class Shapes:
    """The shapes of pull queries of one catalogue, so that a query which is asked with ever new keys is planned once."""

    def __init__(self) -> None:
        self._catalogue: Catalogue | None = None
        self._known: OrderedDict[q.Query, _Shape] = OrderedDict()

    def know(self, query: q.Query, catalogue: Catalogue) -> bool:
        """Return whether a query's shape is known."""
        return catalogue is self._catalogue and replace(query, where=None, limit=None) in self._known

    def of(self, query: q.Query, catalogue: Catalogue, settings: Mapping[str, str]) -> _Shape:
        """Return a query's shape; raises SqlError. Several threads may ask at a time."""
        known = self._known
        if catalogue is not self._catalogue:
            known = self._known = OrderedDict()
            self._catalogue = catalogue
        plain = replace(query, where=None, limit=None)
        found = known.get(plain)
        if found is None:
            found = _shape(plain, catalogue, settings)
            if len(known) < SHAPES_MAX:
                known[plain] = found
            else:
                self._known = OrderedDict({plain: found})
        return found


def _shape(query: q.Query, catalogue: Catalogue, settings: Mapping[str, str]) -> _Shape:
    plan = plan_select(query, catalogue, settings, "pull")
    read = plan.root
    if not isinstance(read, ReadSource):
        raise SqlError("Pull queries do not support table functions.")
    source, scope = read.source, read.scope
    columns = ordered_columns(query, source, plan.value)
    key_names = {column.name for column in source.schema.key} | (set(_BOUNDS) if source.window is not None else set())
    makers = [compile_expression(each.expression, scope) for each in columns]
    is_key = tuple(isinstance(each.expression, e.Column) and each.expression.name in key_names for each in columns)
    return _Shape(
        read,
        scope,
        tuple(each.name for each in columns),
        tuple(each.type for each in columns),
        is_key if source.kind == "TABLE" else (False,) * len(columns),
        lambda row: tuple([make(row) for make in makers]),
    )


def pull_query(
    query: q.Query,
    catalogue: Catalogue,
    settings: Mapping[str, str],
    *,
    scans: bool,
    shapes: Shapes | None = None,
) -> PullQuery:
    """What a pull query wants; raises SqlError in ksqlDB's words, ScanRefusedError for a scan that is not allowed."""
    query = ruled(query, settings)
    _refuse(query)
    shape = (shapes or Shapes()).of(query, catalogue, settings)
    source = shape.read.source
    kept = filtered(shape.read, query.where)
    wanted = rows_wanted(conditions_of(query.where), source, query.source.alias)
    if source.kind == "TABLE" and wanted == TableRows(source) and not scans:
        raise ScanRefusedError(
            "Missing WHERE clause. A query of a table has to name its key, since table scans are disabled. "
            "Set ksql.query.pull.table.scan.enabled to true to allow them."
        )
    holds = compile_condition(kept.condition, shape.scope) if isinstance(kept, Where) else None
    return PullQuery(wanted, shape.names, shape.types, shape.is_key, query.limit, holds, shape.make, is_light(query))


_LIGHT = (
    *(q.Query, q.Source, q.AllOf, q.Selected, e.Column, e.Comparison, e.Logical, e.Not, e.IsNull, e.In, e.Between),
    *(e.NullLiteral, e.BooleanLiteral, e.IntegerLiteral, e.LongLiteral, e.DoubleLiteral, e.DecimalLiteral),
    *(e.StringLiteral, e.Dereference, e.Subscript),
)
"""What costs no more than the row or the statement is long."""
LIGHT_PARTS_MAX = 500


def is_light(query: q.Query) -> bool:
    """Return whether a query has few parts and only such that cost little: no functions, patterns, casts, arithmetic."""
    waiting: list[object] = [query]
    parts = 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
            continue
        names = getattr(part, "__dataclass_fields__", None)
        if names is None:
            continue
        parts += 1
        if not isinstance(part, _LIGHT) or parts > LIGHT_PARTS_MAX:
            return False
        waiting += [getattr(part, name) for name in names if name != "at"]
    return True


def _refuse(query: q.Query) -> None:
    for clause, used in (
        ("JOIN", query.joins),
        ("WINDOW", query.window),
        ("GROUP BY", query.group_by is not None),
        ("PARTITION BY", query.partition_by is not None),
        ("HAVING", query.having),
    ):
        if used:
            raise SqlError(
                f"Pull queries don't support {clause} clauses. See https://cnfl.io/queries for more info.\n"
                "Add EMIT CHANGES if you intended to issue a push query."
            )


def rows_wanted(conditions: list[e.Expression], source: Source, alias: str) -> TableRows:
    """Which rows of a source conditions leave, all of which have to hold; raises SqlError for too many keys."""
    if source.kind == "STREAM":
        return TableRows(source)
    keys = _keys(conditions, source, alias)
    return TableRows(source, keys, KeyRange() if keys is not None else _range(conditions, source, alias))


def ordered_columns(query: q.Query, source: Source, columns: tuple[Named, ...]) -> tuple[Named, ...]:
    """What is selected; of `*` over windowed keys their bounds behind the key."""
    if source.window is None or query.select != (q.AllOf(),):
        return columns
    bounds = [each for each in columns if each.name in _BOUNDS]
    rest = [each for each in columns if each.name not in _BOUNDS]
    width = len(source.schema.key)
    return (*rest[:width], *bounds, *rest[width:])


def conditions_of(condition: e.Expression | None) -> list[e.Expression]:
    """The parts of a condition that AND stands between; none of no condition."""
    found: list[e.Expression] = []
    waiting = [] if condition is None else [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, e.Logical) and part.operator == "AND":
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def _column(node: e.Expression, source: Source, alias: str) -> str | None:
    """The name of the key column that an expression is."""
    if isinstance(node, e.Column) and node.source in (None, alias):
        return node.name if any(column.name == node.name for column in source.schema.key) else None
    return None


def _constant(node: e.Expression, type_: SqlType) -> object:
    """A value that is the same for every row, as one of a type; raises SqlError for an expression that is not."""
    found = compiled(node, Scope.of(()))
    convert = coerce_value(found.type, type_)
    if convert is None:
        raise SqlError(f"'{type_}' is not comparable with '{found.type}'")
    return convert(found.evaluate(()))


def _keys(conditions: list[e.Expression], source: Source, alias: str) -> tuple[tuple[object, ...], ...] | None:
    """The whole keys that conditions name, None where they do not name all of their columns."""
    types = {column.name: column.type for column in source.schema.key}
    named: dict[str, list[object]] = {}
    for node in conditions:
        name, values = _named(node, source, alias)
        if name is None or name in named:
            continue
        if len(values) > KEYS_MAX:
            raise SqlError(f"The query names {len(values)} keys; {KEYS_MAX} are the most")
        try:
            named[name] = [_constant(each, types[name]) for each in values]
        except (SqlError, EvaluationError):
            continue  # it says something of the row: the condition decides
    if not types or named.keys() != types.keys():
        return None
    keys = tuple(dict.fromkeys(product(*(named[column.name] for column in source.schema.key))))
    if len(keys) > KEYS_MAX:
        raise SqlError(f"The query names {len(keys)} keys; {KEYS_MAX} are the most")
    return keys


def _named(node: e.Expression, source: Source, alias: str) -> tuple[str | None, tuple[e.Expression, ...]]:
    if isinstance(node, e.Comparison) and node.operator == "=":
        for column, value in ((node.left, node.right), (node.right, node.left)):
            name = _column(column, source, alias)
            if name is not None:
                return name, (value,)
    if isinstance(node, e.In):
        return _column(node.value, source, alias), node.items
    return None, ()


def _range(conditions: list[e.Expression], source: Source, alias: str) -> KeyRange:
    """The bounds of the only key column."""
    if len(source.schema.key) != 1 or source.schema.key[0].type == BOOLEAN:
        return KeyRange()
    type_ = source.schema.key[0].type
    low: object = None
    high: object = None
    for operator, node in _compared(conditions, source, alias):
        try:
            value = _constant(node, type_)
        except (SqlError, EvaluationError):
            continue
        if value is not None and operator in (">", ">="):
            low = value
        elif value is not None:
            high = value
    return KeyRange(low, high)


def _compared(conditions: list[e.Expression], source: Source, alias: str) -> Iterator[tuple[str, e.Expression]]:
    for node in conditions:
        if isinstance(node, e.Between) and _column(node.value, source, alias) is not None:
            yield ">=", node.low
            yield "<=", node.high
        elif isinstance(node, e.Comparison) and node.operator in ("<", "<=", ">", ">="):
            if _column(node.left, source, alias) is not None:
                yield node.operator, node.right
            elif _column(node.right, source, alias) is not None:
                yield _TURNED[node.operator], node.left

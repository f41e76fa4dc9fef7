"""GROUP BY, HAVING and windows: a table of aggregates over the rows below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ottla.sql import functions, rules
from ottla.sql.errors import SqlError
from ottla.sql.expressions import Scope, type_of
from ottla.sql.expressions.compiler import compiled
from ottla.sql.plan import AGGREGATE_STORE as STORE
from ottla.sql.plan import Aggregate, AggregateCall, Field, Named, Node, grace_ms, scope_of
from ottla.sql.planning.keys import Wanted, key_columns, listed
from ottla.sql.planning.projection import Item, items_of, typed
from ottla.sql.planning.references import (
    aggregates_of,
    check_columns,
    columns_of,
    is_aggregate,
    parts_of,
    resolved,
    shown,
)
from ottla.sql.planning.relations import filtered
from ottla.sql.schema import WINDOW_BOUNDS
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.changing import changed

_BOUNDS = frozenset(name for name, _ in WINDOW_BOUNDS)
SINGLE_STATES = frozenset(("COUNT", "SUM", "MIN", "MAX", "SUM_LIST"))
"""The aggregates whose state is one value."""
WINDOWS_OF_RECORD_MAX = 20_000
"""Hopping windows that a record may be in: each is a row of the state that is written for it."""
_LITERALS = (
    *(e.NullLiteral, e.BooleanLiteral, e.IntegerLiteral, e.LongLiteral, e.DoubleLiteral, e.DecimalLiteral),
    *(e.StringLiteral, e.Sign),
)


@dataclass(frozen=True)
class _Bounded:
    """Rows of a node, and the bounds of the windows that a query makes."""

    of: Node
    window: q.Window | None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns that clauses may name."""
        if self.window is None:
            return self.of.fields
        below = tuple(field for field in self.of.fields if field.name not in _BOUNDS)
        return (*below, *(Field(None, name, type_) for name, type_ in WINDOW_BOUNDS))

    @cached_property
    def scope(self) -> Scope:
        """Where in a row each column is."""
        return scope_of(self.fields)


def aggregated(
    query: q.Query, node: Node, *, persistent: bool, settings: Mapping[str, str]
) -> tuple[Node, list[Named], Wanted]:
    """The table of a query's groups, what is selected of its rows, and its key; raises SqlError in ksqlDB's words."""
    assert query.group_by is not None
    rows = _Bounded(node, query.window)
    if query.where is not None:
        check_columns(query.where, rows.scope, "WHERE")
    for each in query.group_by:
        check_columns(each, rows.scope, "GROUP BY")
    if query.having is not None:
        check_columns(query.having, rows.scope, "HAVING")
    items = items_of(query, rows, persistent=persistent)
    having = None if query.having is None else resolved(query.having, rows)
    _check_clauses(query, rows, items)
    node = filtered(node, query.where)
    group = _group(query, node, items)
    calls: dict[e.Call, AggregateCall] = {}
    for expression in (*(each for _, each in items), *(() if having is None else (having,))):
        for call in aggregates_of(expression):
            if call not in calls:
                calls[call] = _call(call, node, len(calls), settings)
    _check_group(group, items, having, calls)
    if query.emit == "FINAL" and query.window is None:
        raise SqlError("EMIT FINAL is only supported for windowed aggregations.")
    _check_table(node, query, list(calls.values()))
    _check_states(node, list(calls.values()))
    _check_window(query.window)
    _check_retention(query.window)
    table = Aggregate(node, group, tuple(calls.values()), query.window, query.emit == "FINAL")
    root: Node = table
    places = _places(group, calls)
    if having is not None:
        root = filtered(table, _above(having, places), "HAVING", query.having)
    selected = typed([(name, _above(expression, places)) for name, expression in items], root)
    return root, selected, key_columns(table)


def _group(query: q.Query, node: Node, items: list[Item]) -> tuple[Named, ...]:
    """The expressions of GROUP BY, each under a name of its own."""
    group: list[Named] = []
    names = {each: given for given, each in reversed(items)}
    for at, expression in enumerate(query.group_by or ()):
        found = resolved(expression, node)
        type_ = type_of(found, node.scope)
        if type_ is None:
            raise SqlError("GROUP BY NULL makes no group: group by a column or an expression.")
        name = found.name if isinstance(found, e.Column) else f"KSQL_COL_{at}"
        if isinstance(found, e.Column) and query.joins:
            name = f"{found.source}_{found.name}"
        group.append(Named(names.get(found, name), found, type_))
    counts = Counter(each.name for each in group)
    return tuple(
        each if counts[each.name] == 1 else Named(f"KSQL_COL_{at}", each.expression, each.type)
        for at, each in enumerate(group)
    )


def _places(group: tuple[Named, ...], calls: Mapping[e.Call, AggregateCall]) -> dict[e.Expression, e.Column]:
    """Where a table's rows have the group's expressions, the first of those that are equal, and what calls give."""
    found: dict[e.Expression, e.Column] = {call: e.Column(known.column) for call, known in calls.items()}
    return found | {each.expression: e.Column(each.name) for each in reversed(group)}


def _above(expression: e.Expression, places: Mapping[e.Expression, e.Column]) -> e.Expression:
    """An expression over the table's rows."""
    return changed(expression, places.get)


def _call(call: e.Call, node: Node, number: int, settings: Mapping[str, str]) -> AggregateCall:
    function = functions.aggregate(call.name)
    assert function is not None, call
    nested = next(iter(aggregates_of(call.arguments)), None)
    if nested is not None:
        raise SqlError(f"Aggregate functions can not be nested: {call.name.upper()}({nested.name.upper()}())")
    arguments = call.arguments or (_default_argument(node),)
    columns, literals = arguments[: function.columns], arguments[function.columns :]
    for place, each in enumerate(literals, len(columns) + 1):
        if not isinstance(each, _LITERALS):
            raise SqlError(
                f"Parameter {place} passed to function {function.name} must be a literal constant, "
                f"but was expression: '{shown(each)}'"
            )
    values = tuple(compiled(each, Scope.of(())).evaluate(()) for each in literals)
    resolved_call = function.resolve([type_of(each, node.scope) for each in columns], values)
    limit = settings.get(f"ksql.functions.{function.name.lower()}.limit")
    if limit is not None and not limit.removeprefix("-").isdecimal():
        raise SqlError(f"ksql.functions.{function.name.lower()}.limit: expected a number, got '{limit}'")
    name = f"KSQL_AGG_VARIABLE_{number}"
    return AggregateCall(
        name, function.name, columns, values, resolved_call.returns, None if limit is None else int(limit)
    )


def _default_argument(node: Node) -> e.Expression:
    """What COUNT(*) counts: the time of the first source's row."""
    field = next(field for field in node.fields if field.name == "ROWTIME")
    return e.Column(field.name, field.source)


# -- what is refused


def _check_clauses(query: q.Query, rows: _Bounded, items: list[Item]) -> None:
    for _, expression in items:
        for part in parts_of(expression):
            if isinstance(part, e.Call) and functions.table(part.name) is not None:
                raise SqlError("Table functions cannot be used with aggregations.")
    for expression in query.group_by or ():
        for call in aggregates_of(expression):
            raise SqlError(
                f"GROUP BY does not support aggregate functions: {call.name.upper()} is an aggregate function."
            )
    if query.window is None:
        return
    inside = [argument for _, expression in items for call in aggregates_of(expression) for argument in call.arguments]
    for clause in (*inside, query.where, *(query.group_by or ()), query.having):
        for column in () if clause is None else columns_of(clause):
            if column.name in _BOUNDS:
                raise SqlError(
                    f"Window bounds column {column.name} can only be used in the SELECT clause of windowed aggregations "
                    "and can not be passed to aggregate functions.\nSee https://github.com/confluentinc/ksql/issues/4397"
                )


def _check_group(
    group: tuple[Named, ...],
    items: list[Item],
    having: e.Expression | None,
    calls: Mapping[e.Call, AggregateCall],
) -> None:
    if not calls:
        raise SqlError("GROUP BY requires aggregate functions in either the SELECT or HAVING clause.")
    known = {each.expression for each in group}
    outside = [expression for _, expression in items if _ungrouped(expression, known)]
    if outside:
        raise SqlError(
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {', '.join(map(shown, outside))}\n"
            "Either add the column(s) to the GROUP BY or remove them from the SELECT."
        )
    found = [] if having is None else _ungrouped(having, known)
    if found:
        raise SqlError(
            f"Non-aggregate HAVING expression not part of GROUP BY: {', '.join(map(shown, found))}\n"
            "Consider switching the HAVING clause to a WHERE clause before the GROUP BY."
        )


def _ungrouped(expression: e.Expression, known: set[e.Expression]) -> list[e.Column]:
    """The columns outside of aggregates and of the group's expressions, which are `known`."""

    def change(part: e.Expression) -> e.Expression | None:
        return e.NullLiteral() if part in known or is_aggregate(part) else None

    left = changed(expression, change)
    return [each for each in columns_of(left) if not (each.source is None and each.name in _BOUNDS)]


def _check_states(node: Node, calls: Sequence[AggregateCall]) -> None:
    """Raise SqlError where a state is no single value and the format of values holds nothing else."""
    composite = [call for call in calls if call.function not in SINGLE_STATES]
    if composite and node.layout.value_format in ("DELIMITED", "KAFKA"):
        raise SqlError(
            "One of the functions used in the statement has an intermediate type that the value format can not handle. "
            "Please remove the function or change the format.\n"
            "Consider up-voting https://github.com/confluentinc/ksql/issues/3950, which will resolve this limitation"
        )


def _check_window(window: q.Window | None) -> None:
    """Raise SqlError, in Kafka Streams' words, for lengths that no window has."""
    if window is None:
        return
    size = window.size.ms
    if size <= 0:
        of_session = "Gap time (inactivityGapMs) cannot be zero or negative."
        raise SqlError(of_session if window.kind == "SESSION" else "Window size (sizeMs) must be larger than zero.")
    if window.advance is not None and not 0 < window.advance.ms <= size:
        raise SqlError(
            f"Window advancement interval should be more than zero and less than window duration of {size} ms, "
            f"but given advancement interval is: {window.advance.ms} ms"
        )
    every = size if window.advance is None else window.advance.ms
    if (overlap := -(-size // every)) > WINDOWS_OF_RECORD_MAX and rules.hold(rules.STRICT):
        raise SqlError(
            f"Each record would be in {overlap} windows: a size of {size} ms and an advance of {every} ms. "
            f"Windows may overlap {WINDOWS_OF_RECORD_MAX} times; choose a smaller SIZE or a larger ADVANCE BY."
        )
    if window.grace is not None and window.grace.ms < 0:
        raise SqlError("Grace period must not be negative.")


def _check_retention(window: q.Window | None) -> None:
    if window is None or window.retention is None:
        return
    size, grace, kept = window.size.ms, grace_ms(window), window.retention.ms
    if kept < size + grace:
        store, what = ("session", "session inactivity gap") if window.kind == "SESSION" else ("window", "window size")
        raise SqlError(
            f"The retention period of the {store} store {STORE} must be no smaller than its {what} plus the grace period. "
            f"Got {'gap' if store == 'session' else 'size'}=[{size}], grace=[{grace}], retention=[{kept}]"
        )


def _check_table(node: Node, query: q.Query, calls: Sequence[AggregateCall]) -> None:
    if node.kind != "TABLE":
        return
    if query.window is not None:
        raise SqlError("Windowing not supported for table aggregations.")
    unable = []
    for call in calls:
        function = functions.aggregate(call.function)
        assert function is not None, call
        if function.resolve([type_of(each, node.scope) for each in call.arguments], call.literals).undo is None:
            unable.append(call.function)
    if unable:
        names = list(dict.fromkeys(unable))
        raise SqlError(
            f"The aggregation function{'s' if len(names) > 1 else ''} {listed(names)} cannot be applied to a table "
            "source, only to a stream source."
        )

"""FROM, WHERE and table functions: the rows that a projection or a GROUP BY is over."""

from __future__ import annotations

from ottla.sql import functions
from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import SqlError, UnsupportedError
from ottla.sql.expressions import type_of
from ottla.sql.plan import Explode, Node, ReadSource, TableCall, Where
from ottla.sql.planning.joins import joined, refuse_windowed_tables
from ottla.sql.planning.moments import with_moments
from ottla.sql.planning.projection import Item
from ottla.sql.planning.references import aggregates_of, check_columns, parts_of, resolved
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.changing import changed
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import BOOLEAN


def relation_of(query: q.Query, catalogue: Catalogue, *, persistent: bool = False) -> Node:
    """The rows of a query's FROM clause; raises SqlError for sources that are not there or that it cannot read."""
    if query.joins:
        return joined(query, catalogue, persistent=persistent)
    source = catalogue.source(query.source.name)
    if persistent:
        refuse_windowed_tables((source,))
    return ReadSource(source, query.source.alias)


def filtered(
    node: Node, condition: e.Expression | None, clause: str = "WHERE", written: e.Expression | None = None
) -> Node:
    """The rows for which a condition holds; raises SqlError for one that is no condition, and shows it as `written`."""
    if condition is None:
        return node
    check_columns(condition, node.scope, clause)
    condition = with_moments(condition)
    found = aggregates_of(condition)
    if found:
        raise SqlError(_no_group(found))
    try:
        type_ = type_of(condition, node.scope)
    except UnsupportedError:
        raise
    except SqlError as error:
        raise SqlError(f"Error in {clause} expression: {error}") from None
    if type_ != BOOLEAN:
        raise SqlError(
            f"Type error in {clause} expression: Should evaluate to boolean but is "
            f"{expression_text(written or condition)} ({'NULL' if type_ is None else type_}) instead."
        )
    return Where(node, resolved(condition, node), having=clause == "HAVING")


def exploded(node: Node, items: list[Item]) -> tuple[Node, list[Item]]:
    """The rows that calls of table functions make, and the items with a column in the place of each call."""
    calls: list[TableCall] = []
    found = [(name, changed(expression, lambda part: _lifted(part, node, calls))) for name, expression in items]
    if not calls:
        return node, items
    if node.kind == "TABLE":
        raise SqlError("Table source is not supported with table functions")
    return Explode(node, tuple(calls)), found


def _lifted(part: e.Expression, node: Node, calls: list[TableCall]) -> e.Expression | None:
    if isinstance(part, e.Case) and any(_is_table_call(each) for each in parts_of(part)):
        raise SqlError(f"Table functions cannot be used in CASE: {expression_text(part)}")
    if not isinstance(part, e.Call) or (function := functions.table(part.name)) is None:
        return None
    inner = next((each for each in parts_of(part.arguments) if _is_table_call(each)), None)
    if isinstance(inner, e.Call):
        raise SqlError(f"Table functions cannot be nested: {part.name}({inner.name}())")
    resolved_call = function.resolve([type_of(argument, node.scope) for argument in part.arguments])
    calls.append(TableCall(f"KSQL_SYNTH_{len(calls)}", function.name, part.arguments[0], resolved_call.returns))
    return e.Column(calls[-1].column)


def _is_table_call(part: e.Expression) -> bool:
    return isinstance(part, e.Call) and functions.table(part.name) is not None


def check_no_aggregates(items: list[Item], query: q.Query) -> None:
    """Raise SqlError where a query without GROUP BY calls aggregates, or says what only one with it may."""
    found = aggregates_of(tuple(expression for _, expression in items))
    if found:
        raise SqlError(_no_group(found))
    if query.having is not None:
        raise SqlError("HAVING requires a GROUP BY clause.")
    if query.window is not None:
        raise SqlError("WINDOW clause requires a GROUP BY clause.")
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed aggregations.")


def _no_group(calls: list[e.Call]) -> str:
    names = list(dict.fromkeys(call.name.upper() for call in calls))
    several = "s" if len(names) > 1 else ""
    shown = f" {names[0]}" if len(names) == 1 else ""
    return f"Use of aggregate function{several}{shown} requires a GROUP BY clause. Aggregate function(s): {', '.join(names)}"

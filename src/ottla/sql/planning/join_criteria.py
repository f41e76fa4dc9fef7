"""ON: which expression of what came before has to equal which one of the source that is joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ottla.sql.errors import SqlError
from ottla.sql.expressions import Scope
from ottla.sql.plan import Field, ReadSource, scope_of
from ottla.sql.planning.references import check_columns, columns_of, resolved
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.changing import changed
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import backticked


@dataclass(frozen=True)
class Sources:
    """All sources of a query, side by side: what its clauses may name."""

    read: tuple[ReadSource, ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns of all of them."""
        return tuple(field for each in self.read for field in each.fields)

    @cached_property
    def scope(self) -> Scope:
        """Where each column would be."""
        return scope_of(self.fields)

    def of(self, alias: str) -> ReadSource:
        """The source of a name."""
        return next(each for each in self.read if each.alias == alias)


@dataclass(frozen=True, slots=True)
class Criteria:
    """An equation: `left` is of the sources before, `right` of the source that is joined."""

    left: e.Expression
    right: e.Expression
    left_source: ReadSource
    right_source: ReadSource
    turned: bool = False
    """It was written the other way round."""

    @property
    def got(self) -> str:
        """The equation as it was written, as messages end with it."""
        one, other = (self.right, self.left) if self.turned else (self.left, self.right)
        return f"Got {expression_text(one)} = {expression_text(other)}."

    def got_types(self, left: object, right: object) -> str:
        """The equation with the types of its sides."""
        one, other = f"{expression_text(self.left)}{{{left}}}", f"{expression_text(self.right)}{{{right}}}"
        return f"Got {other} = {one}." if self.turned else f"Got {one} = {other}."


def criteria_of(join: q.Join, before: Sequence[str], sources: Sources) -> Criteria:
    """The equation of a join; `before` are the sources that it is joined to. Raises SqlError in ksqlDB's words."""
    equation = _equation(join.on, sources)
    for side in (equation.left, equation.right):
        check_columns(side, sources.scope, "JOIN ON")
    left, right = (_only_source(side, equation, sources) for side in (equation.left, equation.right))
    if left == right:
        raise SqlError(
            "Each side of the join must reference exactly one source and not the same source. "
            f"Left side references {backticked(left)} and right references {backticked(right)}"
        )
    if join.right.alias not in (left, right):
        raise SqlError(
            f"A join criteria is expected to reference the source ({backticked(join.right.alias)}) in the FROM clause, "
            f"instead the right source references {backticked(right)} and the left source references {backticked(left)}"
        )
    _check_windows(sources.of(left), sources.of(right))
    found = Criteria(equation.left, equation.right, sources.of(left), sources.of(right))
    if left == join.right.alias:
        found = Criteria(equation.right, equation.left, sources.of(right), sources.of(left), turned=True)
    if found.left_source.alias not in before:
        raise SqlError(
            "Cannot build JOIN tree; neither source in the join is the FROM source or included in a previous JOIN: "
            f"{found.left_source.alias} JOIN {found.right_source.alias}"
        )
    return found


def _equation(on: e.Expression, sources: Sources) -> e.Comparison:
    shown = _qualified(on, sources)
    if isinstance(shown, e.Comparison):
        if shown.operator != "=":
            raise SqlError("Only equality join criteria is supported.")
        return shown
    if isinstance(shown, e.Logical) and _is_equation(shown.left) and _is_equation(shown.right):
        raise SqlError(
            f"Invalid join condition: joins on multiple conditions are not yet supported. Got {expression_text(shown)}."
        )
    raise SqlError(f"Unsupported join expression: {expression_text(shown)}")


def _is_equation(expression: e.Expression) -> bool:
    return isinstance(expression, e.Comparison) and expression.operator == "="


def _qualified(on: e.Expression, sources: Sources) -> e.Expression:
    """The condition with every column under its source, where there is one; raises SqlError for one of several."""

    def change(part: e.Expression) -> e.Expression | None:
        if not isinstance(part, e.Column):
            return None
        known = any(field.name == part.name and part.source in (None, field.source) for field in sources.fields)
        return None if not known else e.Column(part.name, _owner(part, sources), part.at)

    return changed(on, change)


def _owner(column: e.Column, sources: Sources) -> str | None:
    found = resolved(column, sources)
    assert isinstance(found, e.Column), column
    return found.source


def _only_source(side: e.Expression, equation: e.Comparison, sources: Sources) -> str:
    found = {column.source for column in columns_of(side) if column.source is not None}
    if len(found) != 1:
        raise SqlError(
            f"Invalid comparison expression '{expression_text(side)}' in join '{expression_text(equation)}'. "
            "Each side of the join comparision must contain references from exactly one source."
        )
    return found.pop()


def _check_windows(left: ReadSource, right: ReadSource) -> None:
    one, other = left.window, right.window
    if (one is None) != (other is None):
        shown = [
            f"{backticked(each.alias)} is {'not' if each.window is None else each.window.kind} windowed"
            for each in (left, right)
        ]
        raise SqlError("\n".join(("Can not join windowed source to non-windowed source.", *shown)))
    if one is None or other is None or (one.kind == "SESSION") == (other.kind == "SESSION"):
        return
    raise SqlError(
        f"Incompatible windowed sources.\nLeft source: {one.kind}\nRight source: {other.kind}\n"
        "Session windowed sources can only be joined to other session windowed sources, and may still not result in "
        "expected behaviour as session bounds must be an exact match for the join to work\n"
        "Hopping and tumbling windowed sources can only be joined to other hopping and tumbling windowed sources"
    )

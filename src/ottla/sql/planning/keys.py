"""Which of what is selected is the key: each key column exactly once, and as it is."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.errors import SqlError
from ottla.sql.plan import Explode, Join, Named, Node, Where
from ottla.sql.planning.join_keys import refuse_missing_foreign, refuse_missing_join_key
from ottla.sql.planning.references import shown
from ottla.sql.tree import expressions as e
from ottla.sql.tree.expression_text import expression_text

Wanted = tuple[e.Expression, ...]


def key_and_value(
    selected: Sequence[Named], wanted: Wanted, *, root: Node, what: str, sink: str, texts: Sequence[str] = ()
) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Divide what is selected into the `wanted` key and the rest; raises SqlError where a part of the key is not there once.

    `what` says what the key is made of: "key column", "grouping expression" or "partitioning expression"; `texts` are how
    messages show its parts.
    """
    key: list[Named] = []
    by_expression: dict[e.Expression, list[Named]] = {}
    for each in selected:
        by_expression.setdefault(each.expression, []).append(each)
    for expression in wanted:
        found = by_expression.get(expression, [])
        if not found and what == "key column":
            _refuse_missing_of_join(root, wanted, selected, sink)
        if not found:
            _refuse_missing(texts or [_text(each, what) for each in wanted], what, sink)
        if len(found) > 1:
            raise SqlError(_twice(expression, sorted(each.name for each in found), what))
        key.append(found[0])
    taken = set(key)
    value = [each for each in selected if each not in taken]
    if not value:
        raise SqlError("The projection contains no value columns.")
    return tuple(key), tuple(value)


def key_columns(node: Node) -> Wanted:
    """The key of a node's rows, as expressions."""
    return tuple(e.Column(field.name, field.source) for field in node.key)


def _twice(expression: e.Expression, names: list[str], what: str) -> str:
    name = f" (`{shown(expression)}`)" if what != "grouping expression" else ""
    return (
        f"The projection contains a key column{name} more than once{', aliased as' if name else ''}: "
        f"{listed(names)}.\n"
        "Each key column must only be in the projection once. If you intended to copy the key into the value, "
        "then consider using the AS_VALUE function to indicate which key reference should be copied."
    )


def _refuse_missing_of_join(root: Node, wanted: Wanted, selected: Sequence[Named], sink: str) -> None:
    while isinstance(root, Where | Explode):
        root = root.of
    if not isinstance(root, Join):
        return
    if not root.foreign:
        refuse_missing_join_key(root, sink)
    known = [each.expression for each in selected]
    missing = [each.name for each in wanted if isinstance(each, e.Column) and each not in known]
    refuse_missing_foreign(root, missing)


def _text(part: e.Expression, what: str) -> str:
    return shown(part) if what == "key column" else expression_text(part)


def _refuse_missing(texts: Sequence[str], what: str, sink: str) -> None:
    several = "s" if len(texts) > 1 else ""
    raise SqlError(
        f"Key{several} missing from projection (ie, SELECT). \n"
        f"The query used to build `{sink}` must include the {what}{several} {listed(texts)} in its projection "
        f"(eg, SELECT {', '.join(texts)}...)."
    )


def listed(texts: Sequence[str]) -> str:
    """Texts in a sentence: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))

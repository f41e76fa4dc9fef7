"""Which column is the key of a join's rows, and whether rows have as their key already what is joined on.

Columns that a join makes equal stand for one another. A FULL OUTER join, and one where neither side is a column, makes a key
of its own, which is no source's column: ROWKEY.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql.catalogue import Layout
from ottla.sql.errors import SqlError
from ottla.sql.plan import Field, Join, Node, ReadSource
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.types import backticked

MADE_KEY = "ROWKEY"
_OF_REGISTRY = ("AVRO", "JSON_SR", "PROTOBUF")
SYNTHETIC = "See https://cnfl.io/2LV7ouS."


def is_keyed_by(node: Node, expression: e.Expression) -> bool:
    """True where a node's rows have the value of an expression as their key already."""
    return expression in equal_to_key(node)


def equal_to_key(node: Node) -> frozenset[e.Expression]:
    """The expressions whose value is the key of a node's rows, as far as rows of both sides have met."""
    if isinstance(node, ReadSource):
        return frozenset(column_of(field) for field in node.key) if len(node.key) == 1 else frozenset()
    if not isinstance(node, Join):
        return frozenset()
    if node.foreign:
        return equal_to_key(node.left)
    if node.join == "OUTER" and node.kind == "STREAM":
        return frozenset()  # each side may be missing: the key is a column of its own
    found: set[e.Expression] = {node.left_key, node.right_key}
    for side, by in ((node.left, node.left_key), (node.right, node.right_key)):
        if is_keyed_by(side, by):
            found |= equal_to_key(side)
    return frozenset(found)


def viable_keys(left: Node, left_key: e.Expression, right: Node, right_key: e.Expression) -> tuple[Field, ...]:
    """The columns that may be the key of the rows of a join that is not FULL OUTER, the left ones first."""
    found: list[Field] = []
    if isinstance(left, Join) and is_keyed_by(left, left_key):
        found.extend(left.key if left.foreign else left.viable)
    elif isinstance(left_key, e.Column):
        found.append(field_of(left, left_key))
    if isinstance(right_key, e.Column):
        found.append(field_of(right, right_key))
    return tuple(found)


def chosen_key(viable: Sequence[Field], query: q.Query) -> Field:
    """The key of a query's last join: the first that is selected, else the first."""
    return next((field for field in viable if _is_selected(field, viable, query)), viable[0])


def _is_selected(field: Field, viable: Sequence[Field], query: q.Query) -> bool:
    for item in query.select:
        if isinstance(item, q.AllOf) and item.source in (None, field.source):
            return True
        if not isinstance(item, q.Selected) or not isinstance(item.expression, e.Column):
            continue
        name, source = item.expression.name, item.expression.source
        if name == field.name and source in (None, field.source):
            return True
    return False


def keys_move(one: Layout, other: Layout) -> bool:
    """True where equal keys of two layouts may be different bytes, and so in different partitions.

    A schema registry's formats begin with the id of a schema, which need not be the same.
    """
    if one.key_format in _OF_REGISTRY or other.key_format in _OF_REGISTRY:
        return True
    return (one.key_format, one.key_delimiter) != (other.key_format, other.key_delimiter)


def made_name(names: Sequence[str]) -> str:
    """The name of a key that a join makes: ROWKEY, or with a number where a source has such a column."""
    at, name = 0, MADE_KEY
    while name in names:
        at += 1
        name = f"{MADE_KEY}_{at}"
    return name


def refuse_missing_join_key(node: Join, sink: str) -> None:
    """Raise SqlError for a projection without the key of a join."""
    texts = [f"{field.source}.{field.name}" for field in node.viable]
    if node.made_key is not None:
        texts = [node.made_key.name]
    several = "s" if len(texts) > 1 else ""
    listed = " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    made = (
        f"\n{texts[0]} was added as a synthetic key column because the join criteria did not match any source column. "
        "This expression must be included in the projection and may be aliased. "
    )
    raise SqlError(
        f"Key missing from projection (ie, SELECT). {'' if node.made_key is None else SYNTHETIC}\n"
        f"The query used to build `{sink}` must include the join expression{several} {listed} in its projection "
        f"(eg, SELECT {texts[0]}...).{'' if node.made_key is None else made}"
    )


def refuse_missing_foreign(node: Join, missing: Sequence[str]) -> None:
    """Raise SqlError for a projection without the left table's whole key, where the right one is found by another column."""
    assert isinstance(node.left, ReadSource), "foreign keys are those of a source"
    columns = "column" if len(missing) == 1 else "columns"
    raise SqlError(
        f"Primary key {columns} missing in projection. For foreign-key table-table joins, the projection must include "
        f"all primary key columns from the left input table ({backticked(node.left.source.name)}). "
        f"Missing {columns}: {', '.join(map(backticked, missing))}."
    )


def column_of(field: Field) -> e.Column:
    """A field as an expression."""
    return e.Column(field.name, field.source)


def field_of(node: Node, column: e.Column) -> Field:
    """The field that a column means."""
    return node.fields[node.scope.find(column)[0]]

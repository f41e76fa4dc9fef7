"""Which columns a schema's values are: Avro's types as Spark's `from_avro` has them."""

from __future__ import annotations

import pyarrow as pa

from ottla.serdes.columns.avro_tree import Node
from ottla.serdes.errors import SerdeError

__all__ = ["arrow_type_of", "branches_of", "spark_type_of"]

PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
TIMES = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def branches_of(union: Node) -> tuple[Node, ...]:
    """Return the branches of a union without null."""
    return tuple(each for each in union.branches if each.kind != "null")


def arrow_type_of(node: Node) -> pa.DataType:
    """Return the type of the column that holds such values."""
    if node.logical:
        return pa.decimal128(node.precision, node.scale) if node.logical == "decimal" else TIMES[node.logical]
    if node.kind == "record":
        return pa.struct([pa.field(each.name, arrow_type_of(each.node)) for each in node.fields])
    if node.kind == "array":
        assert node.items is not None
        return pa.list_(pa.field("element", arrow_type_of(node.items)))
    if node.kind == "map":
        assert node.items is not None
        return pa.map_(pa.string(), arrow_type_of(node.items))
    return _union(node) if node.kind == "union" else PLAIN[node.kind]


def _union(node: Node) -> pa.DataType:
    branches = branches_of(node)
    if not branches:
        return pa.null()
    if len(branches) == 1:
        return arrow_type_of(branches[0])
    members = [pa.field(f"member{index}", arrow_type_of(each)) for index, each in enumerate(branches)]
    return pa.struct(members)


_SPARK = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "binary",
    pa.string(): "string",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "void",
}


def spark_type_of(kind: pa.DataType) -> str:
    """Return the DDL of a column's type in Spark; raises SerdeError where it has none."""
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            raise SerdeError("Spark has no column for a record without fields")
        fields = (f"`{each.name.replace('`', '``')}`: {spark_type_of(each.type)}" for each in kind)
        return f"struct<{', '.join(fields)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type_of(kind.key_type)}, {spark_type_of(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kind not in _SPARK:
        raise SerdeError(f"Spark has no column for {kind}")
    return _SPARK[kind]

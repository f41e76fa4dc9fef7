"""Records inside a query as a DataFrame: topic bytes and decoded columns side by side, and the native steps over them.

Columns: `_key` and `_value` hold bytes while they are those of the record (a step that replaces a side drops them); `key`
and `value` hold decoded values once an expression needs them. A row whose `_out` is set has left already (a dead letter, a
changelog row): every step lets it pass, so that one pass over the source does for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from ottla.spark.streams.lowering.planning import same_bytes
from ottla.spark.streams.lowering.rows import HEADERS_DDL
from ottla.streams import ExceptionPolicy, Function, Serde, UnsupportedPlan, operations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "FINISHED_DDL",
    "META",
    "RECORD",
    "RecordField",
    "StreamFrame",
    "decoded",
    "encoded",
    "native_step",
    "not_null_key",
    "out_rows",
    "record_columns",
    "serde_of_column",
    "union",
]

META = ("timestamp", "headers", "topic", "partition", "offset", "_step", "_task", "_hash", "_out")
"""Columns that steps carry along, those of them that are there."""
FINISHED_DDL = (
    f"struct<topic: string, key: binary, value: binary, timestamp: bigint, headers: {HEADERS_DDL}, partition: int>"
)
RECORD = ("_key", "_value", "timestamp", "headers", "topic", "partition", "offset")
"""The columns that Python steps take, beside those that are carried along."""
STEP_MAX = (1 << 31) - 1
STEPS_PER_RECORD = 100_000
"""A second flat map numbers its results behind the first's by this much."""
NEVER_BAD = ("string", "bytes")
"""Serdes that decode any bytes."""


@dataclass(frozen=True, slots=True)
class RecordField:
    """A record's key, or its value. `serde` None: bytes, or (decoded) an expression's result of whatever type."""

    serde: Serde | None
    raw: bool = True
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """Records behind a node."""

    frame: DataFrame
    key: RecordField
    value: RecordField
    node: str
    """For messages."""

    @classmethod
    def of(cls, frame: DataFrame, key: Serde | None, value: Serde | None, node: str) -> StreamFrame:
        """Return records that are bytes by these serdes."""
        return cls(frame, RecordField(key), RecordField(value), node)

    @property
    def serdes(self) -> tuple[Serde | None, Serde | None]:
        """The serdes of key and value."""
        return self.key.serde, self.value.serde

    @property
    def finished(self) -> bool:
        """True where some rows have left already."""
        return "_out" in self.frame.columns

    def sides(self) -> tuple[tuple[str, RecordField], tuple[str, RecordField]]:
        """Return both sides with their columns' name."""
        return ("key", self.key), ("value", self.value)

    def is_in_bytes(self, serdes: tuple[Serde | None, Serde | None]) -> bool:
        """True where both sides are bytes by these serdes."""
        pairs = zip(serdes, (self.key, self.value), strict=True)
        return all(side.raw and same_bytes(side.serde, serde) for serde, side in pairs)

    def needs_decoding(self, serdes: tuple[Serde | None, Serde | None]) -> bool:
        """True where a side is bytes by another serde than these."""
        pairs = zip(serdes, (self.key, self.value), strict=True)
        return any(not side.decoded and not same_bytes(side.serde, serde) for serde, side in pairs)

    def carrying(self, *columns: Column) -> DataFrame:
        """Return the frame with these columns for key and value, and those that are carried along."""
        return self.frame.select(*columns, *(each for each in META if each in self.frame.columns))

    def kept(self, name: str) -> list[Column]:
        """Return a side's columns as they are."""
        side = self.key if name == "key" else self.value
        return [f.col(f"_{name}")] * side.raw + [f.col(name)] * side.decoded

    def without_finished(self) -> StreamFrame:
        """Return the records alone."""
        return replace(self, frame=self.frame.where("_out is null").drop("_out")) if self.finished else self


# -- bytes and values


def decoded(flow: StreamFrame, policy: ExceptionPolicy) -> StreamFrame:
    """Return the records with decoded columns; what a serde refuses goes the way of the handler."""
    columns: list[Column] = []
    bad: list[str] = []
    sides = []
    for name, side in flow.sides():
        columns += flow.kept(name)
        if not side.decoded and (side.serde is None or side.serde.sql_type is not None):
            text = f"_{name}" if side.serde is None else side.serde.sql_decode(f"_{name}")
            columns.append(f.expr(text).alias(name))
            if side.serde is not None and side.serde.name not in NEVER_BAD:
                bad.append(f"(_{name} is not null and {name} is null)")
            side = replace(side, decoded=True)
        sides.append(side)
    made = replace(flow, frame=flow.carrying(*columns), key=sides[0], value=sides[1])
    return _sorted_out(made, " or ".join(bad), policy) if bad else made


def _sorted_out(flow: StreamFrame, bad: str, policy: ExceptionPolicy) -> StreamFrame:
    """Take out records that could not be decoded."""
    if flow.finished:
        bad = f"(_out is null and ({bad}))"
    where = "concat(topic, '-', partition, '@', offset)"
    if policy.decide is not None:
        raise UnsupportedPlan(
            f"step {flow.node}: a handler of one's own cannot see what Spark decodes; name fail or continue, or put a "
            "Python function first"
        )
    if policy.action == "fail":
        text = f"concat('step {flow.node} failed with record ', {where}, ': its serde refuses the bytes')"
        return replace(flow, frame=flow.frame.where(f"if({bad}, raise_error({text}), true)"))
    if policy.dead_letter_topic is None:
        return replace(flow, frame=flow.frame.where(f"not ({bad})"))
    missing = f"cast(null as {FINISHED_DDL})"
    before = "_out" if flow.finished else missing
    dead_letter = f"""named_struct('topic', {_quoted(policy.dead_letter_topic)}, 'key', {_raw_or_null(flow, "key")},
        'value', {_raw_or_null(flow, "value")}, 'timestamp', unix_millis(timestamp), 'headers', {_error_headers()},
        'partition', cast(null as int))"""
    return replace(flow, frame=flow.frame.withColumn("_out", f.expr(f"if({bad}, {dead_letter}, {before})")))


def _raw_or_null(flow: StreamFrame, name: str) -> str:
    return f"_{name}" if f"_{name}" in flow.frame.columns else "cast(null as binary)"


def _error_headers() -> str:
    """Return Kafka's headers of a dead letter (KIP-1034) as SQL."""
    pairs = {
        "exception": "'ottla.streams.SerializationError'",
        "message": "'the serde refuses the bytes'",
        "stacktrace": "''",
        "topic": "topic",
        "partition": "cast(partition as string)",
        "offset": "cast(offset as string)",
    }
    parts = [
        f"named_struct('key', '__streams.errors.{name}', 'value', cast({text} as binary))"
        for name, text in pairs.items()
    ]
    return f"array({', '.join(parts)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def encoded(flow: StreamFrame, name: str, serde: Serde | None, step: str) -> Column:
    """Return a side's bytes by a serde (None: its own); raises UnsupportedPlan where Spark cannot write it so."""
    side = flow.key if name == "key" else flow.value
    if side.raw and same_bytes(side.serde, serde):
        return f.col(f"_{name}")
    if not side.decoded:
        raise UnsupportedPlan(
            f"step {step}: the {name} is {side.serde.name if side.serde else 'bytes'} and is to be written as "
            f"{serde.name if serde else 'bytes'}; put a step between that converts it"
        )
    found = flow.frame.schema[name].dataType.simpleString()
    chosen = serde if serde is not None else side.serde
    if chosen is None:
        if found in ("string", "binary"):
            return f.col(name).cast("binary")
        raise UnsupportedPlan(f"step {step}: the {name} is {found} and has no serde; give one")
    if chosen.sql_type is None:
        raise UnsupportedPlan(f"step {step}: serde {chosen.name} cannot write the {name} ({found}) in columns")
    return f.expr(chosen.sql_encode(_as(chosen.sql_type, found, name, step)))


def serde_of_column(kind: str) -> Serde:
    """Return a serde that writes a column of a type (Spark's short name): of its own, or JSON."""
    from ottla.streams import JsonSerde, serde_of

    names = {"string": "string", "binary": "bytes", "bigint": "long", "boolean": "boolean"}
    names |= {each: each for each in ("int", "float", "double")} | {"smallint": "short", "tinyint": "short"}
    return serde_of(names[kind]) if kind in names else JsonSerde()


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def _as(wanted: str, found: str, name: str, step: str) -> str:
    """Return SQL that makes a column fit its serde: other widths of numbers, null; structs are the serde's matter."""
    if wanted == found or found in ("void", "null"):
        return f"cast({name} as {wanted})"
    if (found in (*_NUMBERS, "decimal") or found.startswith("decimal")) and wanted in _NUMBERS:
        return f"cast({name} as {wanted})"
    if wanted == "variant" and not found.startswith(("variant", "struct", "array", "map")):
        return f"cast({name} as variant)"
    if wanted not in (*_NUMBERS, "string", "binary", "boolean") and found not in _NUMBERS:
        return name
    raise UnsupportedPlan(f"step {step}: expected a {name} of type {wanted} for its serde, got {found}")


# -- steps


def column(function: Function) -> Column:
    """Return an expression as a Column."""
    given: Any = function.expression
    return f.expr(given) if isinstance(given, str) else given


def native_step(
    flow: StreamFrame, operation: operations.Operation, step: str, branch: int | None = None
) -> StreamFrame:
    """Do a step whose functions are expressions; `branch` says which child of a Branch is meant.

    Raises UnsupportedPlan with Spark's words where an expression does not suit the columns.
    """
    try:
        return _native_step(flow, operation, step, branch)
    except AnalysisException as error:
        missing = [name for name, side in flow.sides() if not side.decoded]
        hint = (
            f" ({' and '.join(missing)} cannot be decoded in columns: the serde has no column type)" if missing else ""
        )
        message = str(error).splitlines()[0]
        raise UnsupportedPlan(f"step {step}: {message}{hint}") from error


def _native_step(flow: StreamFrame, operation: operations.Operation, step: str, branch: int | None) -> StreamFrame:
    if isinstance(operation, operations.Filter):
        return _kept_where(flow, _holds(operation.predicate, operation.negate))
    if isinstance(operation, operations.Branch):
        assert branch is not None, "a branch's child says which it is"
        return _kept_where(flow, _branch(operation, branch))
    if isinstance(operation, operations.MapValues):
        return _replaced(flow, value=(operation.mapper, operation.value))
    if isinstance(operation, operations.Map):
        assert operation.key_mapper is not None, "a native map has two expressions"
        return _replaced(flow, key=(operation.key_mapper, operation.key), value=(operation.mapper, operation.value))
    if isinstance(operation, operations.SelectKey):
        return _replaced(flow, key=(operation.mapper, operation.key))
    if isinstance(operation, operations.FlatMapValues):
        return _exploded(flow, operation)
    if isinstance(operation, operations.TableMapValues):
        made = f.when(f.col("value").isNotNull(), column(operation.mapper))
        return _replaced(flow, value=(Function(expression=made), operation.value))
    if isinstance(operation, operations.TableFilter):
        made = f.when(_holds(operation.predicate, operation.negate), f.col("value"))
        return _replaced(flow, value=(Function(expression=made), flow.value.serde))
    if isinstance(operation, operations.NotNullKey):
        return not_null_key(flow, operation)
    return flow


def not_null_key(flow: StreamFrame, operation: operations.NotNullKey) -> StreamFrame:
    """Drop records without key, unless a join behind takes them."""
    if not getattr(operation, "drop", True):
        return flow
    return _kept_where(flow, f.col("_key" if flow.key.raw else "key").isNotNull())


def _holds(predicate: Function, negate: bool = False) -> Column:
    held = f.coalesce(column(predicate), f.lit(False))
    return ~held if negate else held


def _branch(operation: operations.Branch, branch: int) -> Column:
    """Return where a child's predicate is the first that holds."""
    held = f.lit(True)
    for earlier in operation.predicates[:branch]:
        held = held & (f.lit(False) if earlier is None else ~_holds(earlier))
    own = operation.predicates[branch]
    return held if own is None else held & _holds(own)


def _kept_where(flow: StreamFrame, condition: Column) -> StreamFrame:
    if flow.finished:
        condition = f.when(f.col("_out").isNotNull(), True).otherwise(condition)
    return replace(flow, frame=flow.frame.where(condition))


def _guarded(flow: StreamFrame, made: Column) -> Column:
    return f.when(f.col("_out").isNull(), made) if flow.finished else made


def _replaced(flow: StreamFrame, **mappers: tuple[Function, Serde | None]) -> StreamFrame:
    columns: list[Column] = []
    sides = {}
    for name, side in flow.sides():
        if name in mappers:
            function, serde = mappers[name]
            columns.append(_guarded(flow, column(function)).alias(name))
            sides[name] = RecordField(serde, raw=False, decoded=True)
        else:
            columns += flow.kept(name)
            sides[name] = side
    return replace(flow, frame=flow.carrying(*columns), key=sides["key"], value=sides["value"])


def _exploded(flow: StreamFrame, operation: operations.FlatMapValues) -> StreamFrame:
    """Make a row of each element, with its place among the record's results."""
    made = column(operation.mapper)
    meta = [each for each in META if each in flow.frame.columns and each != "_step"]
    if flow.finished:
        made = f.when(f.col("_out").isNull(), made).otherwise(f.array(f.lit(None)))
    earlier = [f.col("_step").alias("_earlier")] if "_step" in flow.frame.columns else []
    frame = flow.frame.select(*flow.kept("key"), *meta, *earlier, f.posexplode(made).alias("_at", "value"))
    step = f.col("_at")
    if earlier:
        step = f.least(f.col("_earlier").cast("bigint") * STEPS_PER_RECORD + step, f.lit(STEP_MAX)).cast("int")
    frame = frame.select(*flow.kept("key"), "value", *meta, step.alias("_step"))
    return replace(flow, frame=frame, value=RecordField(operation.value, raw=False, decoded=True))


# -- leaving


def out_rows(
    flow: StreamFrame, topic: str, serdes: tuple[Serde | None, Serde | None], step: str, count: int
) -> DataFrame:
    """Return OUT rows for a topic of `count` partitions; a windowed key's own hash chooses the partition."""
    partition = (
        f.expr(f"pmod(_hash, {count})").cast("int") if "_hash" in flow.frame.columns else f.lit(None).cast("int")
    )
    columns = {
        "topic": f.lit(topic),
        "key": encoded(flow, "key", serdes[0], step),
        "value": encoded(flow, "value", serdes[1], step),
        "timestamp": f.expr("unix_millis(timestamp)"),
        "headers": f.col("headers"),
        "partition": partition,
    }
    if not flow.finished:
        return flow.frame.select(*(each.alias(name) for name, each in columns.items()))
    row = f.when(f.col("_out").isNotNull(), f.col("_out")).otherwise(
        f.struct(*(each.alias(name) for name, each in columns.items())).cast(FINISHED_DDL)
    )
    return flow.frame.select(row.alias("_row")).select(_fields("_row"))


def _fields(name: str) -> Sequence[Column]:
    return [f.col(f"{name}.{each}") for each in ("topic", "key", "value", "timestamp", "headers", "partition")]


def record_columns(flow: StreamFrame) -> DataFrame:
    """Return the columns that Python steps take; timestamps in milliseconds, and an empty list where there is no header.

    Spark counts a batch's bytes after each row, which takes time over lists that are null (`ottla.spark.sessions`).
    """
    made = {
        "timestamp": f.expr("unix_millis(timestamp)").alias("timestamp"),
        "headers": f.coalesce(f.col("headers"), f.array().cast(HEADERS_DDL)).alias("headers"),
    }
    columns = [made.get(each, f.col(each)) for each in RECORD]
    more = [each for each in ("_step", "_task", "_hash", "_out") if each in flow.frame.columns]
    return flow.frame.select(*columns, *more)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of several frames."""
    return reduce(lambda one, other: one.unionAll(other), frames)

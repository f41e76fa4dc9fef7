"""Expressions that Arrow computes as Spark does: such a step becomes a function over Arrow arrays, beside the bytes.

A record that goes into the JVM for `upper(value)` and out again costs several times what Arrow needs for it where the record
was fetched. Spark parses and resolves the expression, so names and types are Spark's; what is not in `OPERATIONS` stays
Spark's to compute. A stage is changed as a whole or not at all: one step in the JVM has paid for all.

Only text is taken, and only operations that cannot fail and have one meaning (no arithmetic: Spark's overflows are errors of
a row; no floating point: NaN). Case follows Unicode's full mappings in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.private_api.expressions import CatalystExpression, resolved_expression
from ottla.spark.private_api.sessions import is_classic
from ottla.streams import (
    STATELESS,
    Function,
    ProcessorNode,
    Serde,
    SourceNode,
    Stage,
    Topology,
    functions_of,
    operations,
    serde_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["OPERATIONS", "ArrowExpression", "arrow_expression", "in_arrow"]

SIDES = ("key", "value")
SERDES = {"string": "string", "boolean": "boolean", "int": "int"}
"""How results are written that have no serde of their own, by Spark's type."""


@dataclass(frozen=True, slots=True)
class ArrowExpression:
    """A tree of operations over the columns key and value; called with arrays, in Spark's workers."""

    operation: str
    arguments: tuple[ArrowExpression, ...] = ()
    literal: Any = None
    kind: str = "string"
    """Spark's type of the result."""

    def columns(self) -> set[str]:
        """Return which of key and value it needs."""
        own = {self.literal} if self.operation == "column" else set()
        return own.union(*(each.columns() for each in self.arguments))

    def compute(self, columns: Mapping[str, pa.Array]) -> Any:
        """Return the result: an array, or a scalar for what depends on no column."""
        if self.operation == "column":
            return columns[self.literal]
        if self.operation == "literal":
            return _scalar(self.literal, self.kind)
        return OPERATIONS[self.operation](*(each.compute(columns) for each in self.arguments))


@dataclass(frozen=True, slots=True)
class _Step:
    """Expressions as a vectorised function of a step: (value), or (key, value)."""

    results: tuple[ArrowExpression, ...]
    with_key: bool

    def __call__(self, *arrays: pa.Array) -> Any:
        names = SIDES if self.with_key else SIDES[1:]
        columns = {name: _text(array) for name, array in zip(names, arrays, strict=True)}
        found = [_whole(each.compute(columns), len(arrays[0])) for each in self.results]
        return found[0] if len(found) == 1 else tuple(found)


# -- computing


def _text(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _whole(found: Any, count: int) -> pa.Array:
    import pyarrow as pa

    if isinstance(found, pa.Scalar):
        return pa.repeat(found, count)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _scalar(value: Any, kind: str) -> Any:
    import pyarrow as pa

    types = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32()}
    return pa.scalar(value, types[kind])


def _called(name: str, **options: Any) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, name)(*arguments, **options)

    return call


def _cased(ascii_only: str, full: Callable[[str], str]) -> Callable[..., Any]:
    """Return upper or lower: Arrow's own for ASCII, Python's full case mapping for the rest."""

    def call(text: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(text, pa.Scalar):
            return pa.scalar(None if text.as_py() is None else full(text.as_py()), pa.string())
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return getattr(pc, ascii_only)(text)
        return pa.array([None if each is None else full(each) for each in text.to_pylist()], pa.string())

    return call


def _length(text: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_length(text).cast(pa.int32())


def _concatenated(*texts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.string()))


def _matched(name: str) -> Callable[..., Any]:
    def call(text: Any, pattern: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pattern.is_valid:
            return pa.scalar(None, pa.bool_())
        return getattr(pc, name)(text, pattern=pattern.as_py())

    return call


def _split(text: Any, pattern: Any, limit: Any) -> Any:
    import pyarrow.compute as pc

    return pc.split_pattern(text, pattern=pattern.as_py())


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "Upper": _cased("ascii_upper", str.upper),
    "Lower": _cased("ascii_lower", str.lower),
    "Length": _length,
    "Concat": _concatenated,
    "StringTrim": _called("utf8_trim", characters=" "),
    "StringTrimLeft": _called("utf8_ltrim", characters=" "),
    "StringTrimRight": _called("utf8_rtrim", characters=" "),
    "Contains": _matched("match_substring"),
    "StartsWith": _matched("starts_with"),
    "EndsWith": _matched("ends_with"),
    "StringSplit": _split,
    "Coalesce": _called("coalesce"),
    "EqualTo": _called("equal"),
    "LessThan": _called("less"),
    "LessThanOrEqual": _called("less_equal"),
    "GreaterThan": _called("greater"),
    "GreaterThanOrEqual": _called("greater_equal"),
    "And": _called("and_kleene"),
    "Or": _called("or_kleene"),
    "Not": _called("invert"),
    "IsNull": _called("is_null"),
    "IsNotNull": _called("is_valid"),
}
"""By the names of Spark's expressions."""
_LITERAL_ON_THE_RIGHT = ("Contains", "StartsWith", "EndsWith", "StringSplit")
_PLAIN = re.compile(r"[A-Za-z0-9 ,;:=_/@#%&'\"<>~`!-]+")
"""What a regular expression finds as it stands."""


# -- reading expressions


def arrow_expression(spark: SparkSession, expression: Any, columns: frozenset[str]) -> ArrowExpression | None:
    """Return an expression over these columns, which are text; None for what Arrow does not compute as Spark does.

    Nor is anything returned for what Spark refuses: whoever asks Spark for it next is told.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    if not is_classic(spark):
        return None
    try:
        frame = spark.range(0).select(*(f.lit(None).cast("string").alias(name) for name in sorted(columns)))
        made = frame.select((f.expr(expression) if isinstance(expression, str) else expression).alias("made"))
    except PySparkException:
        return None
    return _read(resolved_expression(made))


def _read(node: CatalystExpression) -> ArrowExpression | None:
    name, kind = node.name, node.kind
    if name == "AttributeReference":
        return ArrowExpression("column", literal=node.value, kind=kind)
    if kind not in ("string", "boolean", "int", "array<string>"):
        return None
    if name == "Literal":
        return ArrowExpression("literal", literal=node.value, kind=kind)
    if name not in OPERATIONS:
        return None
    read = [_read(each) for each in node.children]
    arguments = tuple(each for each in read if each is not None)
    if len(arguments) != len(read) or not _takes(name, arguments):
        return None
    return ArrowExpression(name, arguments, kind=kind)


def _takes(name: str, arguments: tuple[ArrowExpression, ...]) -> bool:
    if any(each.kind == "array<string>" for each in arguments):
        return False
    if name in _LITERAL_ON_THE_RIGHT and arguments[1].operation != "literal":
        return False
    if name.startswith("StringTrim"):
        return len(arguments) == 1
    if name == "StringSplit":
        pattern, limit = arguments[1].literal, arguments[2]
        return bool(pattern and _PLAIN.fullmatch(pattern)) and limit.operation == "literal" and limit.literal == -1
    return len({each.kind for each in arguments}) <= 1


# -- stages


def in_arrow(stage: Stage, spark: SparkSession) -> Stage:
    """Return the stage with all expressions in front of its state, or all that it has, as functions over Arrow arrays.

    Where one of them is not among those that Arrow computes, the stage is returned as it is.
    """
    reading = _Reading(stage, spark)
    nodes = dict(stage.plan.nodes)
    for name in stage.nodes:
        node = nodes[name]
        if isinstance(node, SourceNode):
            reading.sides[name] = (node.key, node.value)
        elif isinstance(node, ProcessorNode) and isinstance(node.operation, STATELESS):
            if any(parent not in reading.sides for parent in stage.parents(name)):
                continue  # behind the state
            operation = reading.step(name, node)
            if operation is None:
                return stage
            nodes[name] = replace(node, operation=operation)
    return stage if not reading.found else replace(stage, plan=_with(stage.plan, nodes))


def _with(plan: Topology, nodes: Mapping[str, Any]) -> Topology:
    return replace(plan, nodes=nodes)


Sides = tuple[Serde | None, Serde | None]


class _Reading:
    """Steps one after the other, with the serdes of what is behind each."""

    def __init__(self, stage: Stage, spark: SparkSession) -> None:
        self.stage = stage
        self.spark = spark
        self.sides: dict[str, Sides] = {}
        self.found = False

    def step(self, name: str, node: ProcessorNode) -> Any:
        """Return a step's operation without expressions, or None where that cannot be."""
        operation: Any = node.operation
        before = {self.sides[parent] for parent in self.stage.parents(name)}
        sides: Sides = before.pop() if len(before) == 1 else (None, None)
        made = operation
        if any(each.is_native for each in functions_of(operation)):
            self.found = True
            made = self._replaced(operation, sides)
            if made is None:
                return None
        self.sides[name] = _behind(made, sides)
        return made

    def _replaced(self, operation: Any, sides: Sides) -> Any:
        if isinstance(operation, operations.Filter):
            return self._function(operation, "predicate", sides, "boolean")
        if isinstance(operation, operations.MapValues):
            return self._mapped(operation, sides, "value", operation.value)
        if isinstance(operation, operations.SelectKey):
            return self._mapped(operation, sides, "key", operation.key)
        if isinstance(operation, operations.FlatMapValues):
            made = self._function(operation, "mapper", sides, "array<string>")
            suits = operation.value is None or operation.value.name == "string"
            return None if made is None or not suits else replace(made, value=serde_of("string"))
        if isinstance(operation, operations.Branch):
            return self._branch(operation, sides)
        return None

    def _read(self, function: Function, sides: Sides) -> ArrowExpression | None:
        known = [name for name, serde in zip(SIDES, sides, strict=True) if serde is not None and serde.name == "string"]
        return arrow_expression(self.spark, function.expression, frozenset(known))

    def _function(self, operation: Any, name: str, sides: Sides, kind: str) -> Any:
        found = self._read(getattr(operation, name), sides)
        if found is None or found.kind != kind:
            return None
        return replace(operation, **{name: _as_function((found,))})

    def _mapped(self, operation: Any, sides: Sides, side: str, serde: Serde | None) -> Any:
        found = self._read(operation.mapper, sides)
        if found is None or found.kind not in SERDES:
            return None
        own = SERDES[found.kind]
        if serde is not None and serde.name != own and (own, serde.name) != ("int", "long"):
            return None
        chosen = serde if serde is not None else serde_of(own)
        return replace(operation, mapper=_as_function((found,)), **{side: chosen})

    def _branch(self, operation: operations.Branch, sides: Sides) -> Any:
        made: list[Function | None] = []
        for each in operation.predicates:
            if each is None or not each.is_native:
                made.append(each)
                continue
            found = self._read(each, sides)
            if found is None or found.kind != "boolean":
                return None
            made.append(_as_function((found,)))
        return replace(operation, predicates=tuple(made))


def _as_function(results: tuple[ArrowExpression, ...]) -> Function:
    with_key = any("key" in each.columns() for each in results)
    return Function(call=_Step(results, with_key), with_key=with_key, vectorised=True)


def _behind(operation: Any, sides: Sides) -> Sides:
    """Return the serdes of what a step forwards."""
    key, value = sides
    if isinstance(operation, operations.Map | operations.FlatMap | operations.SelectKey):
        key = operation.key
    if isinstance(operation, operations.Map | operations.FlatMap | operations.MapValues | operations.FlatMapValues):
        value = operation.value
    return key, value

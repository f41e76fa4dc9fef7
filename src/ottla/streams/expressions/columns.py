"""A typed expression over Arrow arrays: by Arrow's own kernels where they say what Spark says, else value by value.

A kernel that fails over a column (an overflow) is asked nothing more: the values are taken one by one, so that the error is
that of the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

from ottla.streams.expressions.bound import Bound
from ottla.streams.expressions.evaluator import function_of
from ottla.streams.expressions.kinds import Kind, Refused

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KERNELS", "arrays_function", "arrow_type"]

_SIMPLE = {
    "boolean": "bool_",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "binary": "binary",
    "void": "null",
}


def arrow_type(kind: Kind) -> pa.DataType:
    """Return a type as Arrow's."""
    import pyarrow as pa

    if kind.name in _SIMPLE:
        return getattr(pa, _SIMPLE[kind.name])()
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name == "timestamp":
        return pa.timestamp("us", "UTC")
    if kind.name == "array":
        assert kind.element is not None
        return pa.list_(arrow_type(kind.element))
    if kind.name == "struct":
        return pa.struct([(name, arrow_type(each)) for name, each in kind.fields])
    raise Refused(f"{kind} in columns is not known here")


def _same(name: str) -> Callable[..., Any]:
    def call(to: Any, *arguments: Any) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, name)(*arguments)

    return call


def _cased(name: str) -> Callable[..., Any]:
    """Return upper or lower of ASCII; other text is Python's, whose case mappings are Java's."""

    def call(to: Any, text: Any) -> Any:
        import pyarrow.compute as pc

        if pc.all(pc.string_is_ascii(text)).as_py() is False:
            return None
        return getattr(pc, f"ascii_{name}")(text)

    return call


def _trimmed(name: str) -> Callable[..., Any]:
    def call(to: Any, text: Any) -> Any:
        import pyarrow.compute as pc

        return getattr(pc, name)(text, characters=" ")

    return call


def _cast(to: Any, value: Any) -> Any:
    return value.cast(to)


def _length(to: Any, text: Any) -> Any:
    import pyarrow.compute as pc

    return pc.utf8_length(text).cast(to)


def _concatenated(to: Any, *texts: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.string()))


def _split(to: Any, text: Any, pattern: Any) -> Any:
    import pyarrow.compute as pc

    return pc.split_pattern(text, pattern=pattern.as_py())


KERNELS: Mapping[str, Callable[..., Any]] = {
    **{name: _same(name) for name in ("equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: _same(name) for name in ("and_kleene", "or_kleene", "invert", "is_null", "is_valid", "coalesce")},
    **{name: _same(name) for name in ("add_checked", "subtract_checked", "multiply_checked", "negate_checked")},
    "upper": _cased("upper"),
    "lower": _cased("lower"),
    "trim": _trimmed("utf8_trim"),
    "ltrim": _trimmed("utf8_ltrim"),
    "rtrim": _trimmed("utf8_rtrim"),
    "length": _length,
    "concat": _concatenated,
    "split": _split,
    "cast": _cast,
    "text_of_whole": _cast,
    "text_bytes": _cast,
}
"""By `Bound.arrow`: called with the result's type and the arguments; None where it cannot say for these values."""


def arrays_function(expression: Bound, zone: tzinfo = UTC) -> Callable[[Mapping[str, pa.Array], int], pa.Array]:
    """Return a function of columns by name and their length, which returns the column of results."""
    names = tuple(sorted(expression.columns()))
    one_by_one = function_of(expression, names, zone)
    kind = arrow_type(expression.kind)
    in_kernels = _in_kernels(expression)

    def call(columns: Mapping[str, pa.Array], count: int) -> pa.Array:
        import pyarrow as pa

        if in_kernels:
            found = _computed(expression, columns, count)
            if found is not None:
                return found
        if not names:
            return pa.array([one_by_one() for _ in range(count)], kind)
        lists = [_listed(columns[name]) for name in names]
        return pa.array(list(map(one_by_one, *lists)), kind)

    return call


def _in_kernels(part: Bound) -> bool:
    """True where every part has a kernel, and none may fail that Spark would not have run: in `and` and `or`."""
    if part.form in ("column", "literal"):
        return part.kind.name in _SIMPLE and part.kind.name != "void"
    if part.arrow not in KERNELS or not all(map(_in_kernels, part.arguments)):
        return False
    return part.form != "lazy" or not any(map(_may_fail, part.arguments))


def _may_fail(part: Bound) -> bool:
    return part.arrow.endswith("_checked") or any(map(_may_fail, part.arguments))


def _computed(expression: Bound, columns: Mapping[str, pa.Array], count: int) -> Any:
    """Return the result of kernels; None where one of them cannot say."""
    import pyarrow as pa

    try:
        found = _kernel(expression, columns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, count)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _kernel(part: Bound, columns: Mapping[str, pa.Array]) -> Any:
    import pyarrow as pa

    if part.form == "column":
        return columns[part.value].cast(arrow_type(part.kind))
    if part.form == "literal":
        return pa.scalar(part.value, arrow_type(part.kind))
    arguments = [_kernel(each, columns) for each in part.arguments]
    found = KERNELS[part.arrow](arrow_type(part.kind), *arguments)
    if found is None:
        raise pa.ArrowInvalid("not in kernels")
    return found


def _listed(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]

"""Which arguments are computed where another is null: for every function and operator of several, as Spark interprets it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from ottla.streams.expressions import Kind, columns_function, compiled, kinds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = {
    "s": kinds.STRING,
    "i": kinds.INT,
    "l": kinds.BIGINT,
    "d": kinds.DOUBLE,
    "f": kinds.FLOAT,
    "b": kinds.BOOLEAN,
    "m": kinds.decimal(10, 2),
    "a": kinds.array_of(kinds.STRING),
    "z": kinds.BIGINT,
}
"""By the letter of their type; all are null but `z`, which is zero."""
_ARROW = {
    "s": pa.string(),
    "i": pa.int32(),
    "l": pa.int64(),
    "d": pa.float64(),
    "f": pa.float32(),
    "b": pa.bool_(),
    "m": pa.decimal128(10, 2),
    "a": pa.list_(pa.string()),
    "z": pa.int64(),
}
ROW = {**dict.fromkeys(COLUMNS), "z": 0}
NULL = {letter: letter for letter in "sildfbma"}
GOOD = {
    "s": "'abc'",
    "i": "2",
    "l": "2L",
    "d": "2.0D",
    "f": "cast(2.0D as float)",
    "b": "(z = 0)",
    "m": "1.25",
    "a": "split('a,b', ',')",
}
_ZERO = "(1L div z)"
FAILING = {
    "s": f"cast({_ZERO} as string)",
    "i": f"cast({_ZERO} as int)",
    "l": _ZERO,
    "d": f"cast({_ZERO} as double)",
    "f": f"cast(cast({_ZERO} as double) as float)",
    "b": f"({_ZERO} > 1)",
    "m": f"cast({_ZERO} as decimal(10,2))",
    "a": f"split(cast({_ZERO} as string), ',')",
}
FORMS = [
    *(("{} || {}", "ss"), ("{} || {} || {}", "sss"), ("concat({}, {}, {})", "sss"), ("concat({}, {})", "si")),
    *(("concat_ws({}, {}, {})", "sss"), ("concat_ws({}, {})", "sa"), ("substring({}, {}, {})", "sii")),
    *(("substr({}, {})", "si"), ("left({}, {})", "si"), ("right({}, {})", "si"), ("repeat({}, {})", "si")),
    *(("lpad({}, {}, {})", "sis"), ("rpad({}, {}, {})", "sis"), ("replace({}, {}, {})", "sss")),
    *(("instr({}, {})", "ss"), ("startswith({}, {})", "ss"), ("endswith({}, {})", "ss"), ("contains({}, {})", "ss")),
    *(("coalesce({}, {})", "ss"), ("nvl2({}, {}, {})", "sii"), ("nullif({}, {})", "ii"), ("if({}, {}, {})", "bii")),
    *(("case when {} then {} else {} end", "bss"), ("{} between {} and {}", "iii"), ("{} and {}", "bb")),
    *(("{} or {}", "bb"), ("mod({}, {})", "ii"), ("pmod({}, {})", "ii"), ("greatest({}, {}, {})", "iii")),
    *(("least({}, {}, {})", "ddd"), ("greatest({}, {})", "ss"), ("array({}, {})", "ss"), ("struct({}, {})", "si")),
    *(("{}[{}]", "ai"), ("{} + {} + {}", "iii"), ("{} + ({} - {})", "iii"), ("({} + {}) * {}", "iii")),
    *((f"{{}} {sign} {{}}", types) for sign in ("=", "<", "<=>") for types in ("ii", "dd", "ss", "mi")),
    *((f"{{}} {sign} {{}}", types) for sign in ("+", "-", "*") for types in ("ii", "il", "dd", "mm", "mi", "ff")),
    *(
        ("{} / {}", "ii"),
        ("{} / {}", "dd"),
        ("{} / {}", "mi"),
        ("{} div {}", "il"),
        ("{} % {}", "il"),
        ("{} % {}", "dd"),
    ),
]


def cases() -> Iterator[str]:
    """Yield each form with a null and what fails at each two of its places."""
    for form, types in FORMS:
        for null, failing in permutations(range(len(types)), 2):
            found = [GOOD[letter] for letter in types]
            found[null], found[failing] = NULL[types[null]], FAILING[types[failing]]
            yield form.format(*found)


def said(text: str) -> set[str]:
    """Return what we say of the row, by value and in columns."""
    expression = compiled(text, COLUMNS)
    found = set[str]()
    table = {name: pa.array([ROW[name]], kind) for name, kind in _ARROW.items()}
    for call in (
        lambda: expression.function(tuple(COLUMNS))(*ROW.values()),
        lambda: columns_function(expression)(table, 1),
    ):
        try:
            call()
            found.add("answers")
        except ArithmeticError:
            found.add("fails")
    return found


def spark_says(frame: DataFrame, text: str) -> set[str]:
    try:
        frame.selectExpr(f"({text}) as found").collect()
        return {"answers"}
    except PySparkException:
        return {"fails"}


@pytest.mark.slow  # a query of its own for each expression, of which most fail
def test_arguments_beside_a_null_are_computed_where_spark_computes_them(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({name: pa.array([ROW[name]], kind) for name, kind in _ARROW.items()}))
    wrong = [text for text in cases() if said(text) != spark_says(frame, text)]
    assert wrong == []


def test_what_stands_behind_a_null_is_computed_by_concat_alone() -> None:
    assert said("s || cast((1L div z) as string)") == {"fails"}
    assert said("concat('a', s, cast((1L div z) as string))") == {"fails"}
    assert said("s = cast((1L div z) as string)") == {"answers"}
    assert said("replace(s, 'a', cast((1L div z) as string))") == {"answers"}


def test_a_null_of_a_whole_type_meets_a_decimal() -> None:
    kind: Kind = compiled("cast(null as int) + m", COLUMNS).kind
    assert str(kind) == "decimal(13,2)"

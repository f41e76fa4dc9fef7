"""Rows, and expressions over them, for which Spark is asked and the evaluator too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from ottla.streams.expressions import Kind, Refused, columns_function, compiled, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COLUMNS", "FIXED", "FIXED_FAILING", "ROWS", "differences", "expressions"]

COLUMNS: Mapping[str, Kind] = {
    "s": kinds.STRING,
    "t": kinds.STRING,
    "b": kinds.BOOLEAN,
    "y": kinds.TINYINT,
    "h": kinds.SMALLINT,
    "i": kinds.INT,
    "l": kinds.BIGINT,
    "f": kinds.FLOAT,
    "d": kinds.DOUBLE,
    "m": kinds.decimal(10, 2),
    "ts": kinds.TIMESTAMP,
    "a": kinds.array_of(kinds.STRING),
    "p": Kind("struct", fields=(("x", kinds.BIGINT), ("n", kinds.STRING))),
}
_ARROW = {
    "s": pa.string(),
    "t": pa.string(),
    "b": pa.bool_(),
    "y": pa.int8(),
    "h": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "m": pa.decimal128(10, 2),
    "ts": pa.timestamp("us", "UTC"),
    "a": pa.list_(pa.string()),
    "p": pa.struct([("x", pa.int64()), ("n", pa.string())]),
}
_NAN, _INFINITE = float("nan"), float("inf")
_LISTS: dict[str, Sequence[Any]] = {
    "s": ["", "a", "Straße", " ab  ", "10", "-7", "1.5", "x,y,,z", "ΑΣ", "İ😀b", "TRUE", "%_a", "\u00a0n\t", None],
    "t": ["a", "b", "ab", "", "9223372036854775807", "128", "1e3", "no", "b😀", " ", None],
    "b": [True, False, None],
    "y": [0, 1, -1, 127, -128, None],
    "h": [0, 3, -3, 32767, -32768, None],
    "i": [0, 1, -1, 7, 2147483647, -2147483648, 2, None],
    "l": [0, 1, -5, 9223372036854775807, -9223372036854775808, 1_700_000_000_000, 3, None],
    "f": [0.0, 1.5, -2.25, 3.4028234663852886e38, 0.10000000149011612, _NAN, _INFINITE, None],
    "d": [0.0, -0.0, 1.5, -1e300, 0.1, _NAN, _INFINITE, -_INFINITE, 9.3e18, 3.0, None],
    "m": [Decimal("0.00"), Decimal("1.25"), Decimal("-99999999.99"), Decimal("3.10"), None],
    "ts": [0, 1, -1, 1_700_000_000_123_000, 951_827_696_000_000, -62_135_596_800_000_000, None],
    "a": [[], ["a"], ["a", None, "c"], None],
    "p": [{"x": 1, "n": "one"}, {"x": None, "n": None}, {"x": -4, "n": ""}, None],
}
ROWS = [{name: values[at % len(values)] for name, values in _LISTS.items()} for at in range(110)]
"""Each column's values, which repeat in steps of their own, so that they meet."""

FIXED = [
    *("upper(s)", "lower(s)", "length(s)", "reverse(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "ucase(t)"),
    *("lcase(t)", "char_length(s)", "character_length(s)", "len(s)", "s || t", "s || i", "concat(s, t, 'x')"),
    *("concat(s, i, b, m)", "concat_ws('-', s, t)", "concat_ws(s, t, a, 'z')", "concat_ws(',', a)"),
    *("concat_ws(null, s)", "concat(s, ts)", "substring(s, 2, 2)", "substring(s, -2, 1)", "substr(s, 0, 2)"),
    *("substring(s, i, 2)", "substring(s, -9, 8)", "substr(s, 2)", "left(s, 2)", "right(s, 2)", "left(s, y)"),
    *("right(s, y)", "repeat(t, 2)", "repeat(t, -1)", "lpad(s, 4, '*-')", "rpad(s, 4, t)", "lpad(s, 3)"),
    *("rpad(s, y, 'q')", "replace(s, 'a', 'bb')", "replace(s, t, '')", "replace(s, t)", "instr(s, t)"),
    *("instr(s, '')", "startswith(s, t)", "endswith(s, t)", "contains(s, t)", "split(s, ',')", "split(s, ' ')"),
    *(r"split(s, r'\W+')", "split(s, '[ab]')", r"split(s, r'(a|b)\s?')", "split(s, '.')", "split(s, '^a')"),
    *(
        r"split(s, r'\W+', 2)",
        "split(s, ',', 3)",
        "split(s, ',', 1)",
        "split(s, ',', 0)",
        r"split(lower(s), r'[^\p{L}]+')",
    ),
    *(r"split(trim(s), r'\s*,\s*')", r"split(s, r'[\s\p{Punct}]+?')", r"split(s, r'(?i)A|B')", r"split(s, r'\|')"),
    *(
        r"regexp_replace(s, r'[^a-z]+', '-')",
        r"regexp_replace(s, r'(\w)(\d)', '$2<$1>')",
        "regexp_replace(s, 'b|a', '')",
    ),
    *(r"regexp_extract(s, r'(\w+),(\w)', 2)", r"regexp_extract(s, r'(\d+)')", r"regexp_extract(s, r'^-?\d*', 0)"),
    *(r"regexp_extract_all(s, r'(\w)(\w)', 2)", r"regexp_extract_all(s, r'([a-z])')", r"regexp_count(s, r'\w')"),
    *(r"regexp_count(s, r'[,.]\s?')", r"regexp_extract(s, r'(a)|(b)', 2)", r"s rlike r'(?i)\bab\b'", r"s rlike r'b$'"),
    *(r"split(lower(s), '\\W+')", r"concat(s, '\\', t, r'\w')", r"regexp_extract(s, '^(\\S+) *(.*)$', 2)"),
    *("size(split(s, ','))", "s like '%a%'", "s like '_a'", "s not like 'a%'", "s like '%😀_'", "s like ''"),
    *("t like 'a'", "s rlike r'^[a-c]+'", "s rlike 'a|b'", r"s rlike r'\d+'", "regexp_like(s, r'(x|y),.')"),
    *(r"s rlike r'[^a\s]{2,3}'", "s not rlike 'a'", "isnull(s)", "s is null", "s is not null", "isnotnull(b)"),
    *("b is true", "b is not true", "b is false", "coalesce(s, t, 'z')", "nvl(i, l)", "ifnull(i, 0)"),
    *("nvl2(s, i, l)", "nullif(i, 1)", "nullif(s, 'a')", "if(b, i, l)", "if(i > 0, s, null)"),
    *("case when i > 1 then s when b then t else 'n' end", "case i when 1 then 'o' end"),
    *("case when l > 5 then 1 else 2.5D end", "i in (1, 2, 3)", "s in ('a', 'b', null)", "i not in (1, null)"),
    *("l in (1, 5)", "i between 0 and 5", "s between 'a' and 'b'", "not b", "b and i > 0", "b or i > 0"),
    *("not (b or s = 'a')", "i = l", "i <=> l", "s <=> t", "d <=> d", "s <=> null", "s = t", "s < t", "s >= t"),
    *("s <> t", "s != 'a'", "b = b", "d = d", "d < 1.5", "d > f", "d >= 0.0D", "f = 0.1D", "f < d", "m > 1"),
    *("m = 1.25", "m < i", "m >= d", "ts < ts", "b <=> false", "d <=> f", "m <=> i", "y < h", "ts = ts"),
    *("ts <=> null", "null <=> null", "d != d", "m != 0", "l >= y", "-d", "-m", "abs(d)", "abs(m)", "i / 2"),
    *("d / 2", "d * f", "f * f", "f + i", "f + l", "f + y", "d + i", "d % 3", "f % 2", "i % 3", "l % 3"),
    *("i div 2", "y div 2", "mod(i, 3)", "pmod(i, 3)", "pmod(-7, 3)", "pmod(i, -3)", "pmod(-7, -3)", "i * 1.5"),
    *("l * 1.5", "m + 1", "m - i", "m * m", "m / 3", "m * 2.25", "m + m", "1.5 + 2.25", "10.0 / 3", "l + 1.5"),
    *("m * l", "d * 1.5", "f * 1.5", "1L + i", "2.5D * i", "1S + y", "10BD + m", "-9223372036854775808"),
    *("1e3 + i", ".5 + i", "1. + i", "-1.5 * i", "floor(nullif(d, d + 1))", "floor(if(abs(d) < 9e18D, d, 0.5D))"),
    *("ceil(cast('nan' as double))", "ceil(if(d < 9e18D and d > -9e18D, d, 1.0D))", "ceil(i)", "floor(l)"),
    *("sqrt(d)", "sqrt(i)", "least(i, l)", "greatest(i, l, 3)", "least(d, 1.5D)", "greatest(d, 0.0D)"),
    *("greatest(s, t)", "least(s, t, null)", "greatest(ts, ts)", "cast(i as string)", "cast(b as string)"),
    *("cast(m as string)", "cast(ts as string)", "cast(i as bigint)", "cast(l as double)", "cast(y as float)"),
    *("cast(i as float)", "cast(f as double)", "cast(d as float)", "cast(b as int)", "cast(b as double)"),
    *("cast(i as boolean)", "cast(d as boolean)", "cast(m as boolean)", "cast(m as double)"),
    *("try_cast(m as decimal(5,1))", "cast(i as decimal(12,2))", "cast(y as decimal(5,2))", "cast(ts as bigint)"),
    *("cast(s as binary)", "try_cast(s as int)", "try_cast(t as bigint)", "try_cast(t as tinyint)"),
    *("try_cast(s as double)", "try_cast(t as double)", "try_cast(s as boolean)", "try_cast(t as boolean)"),
    *("try_cast(d as int)", "try_cast(d as bigint)", "try_cast(f as smallint)", "try_cast(l as int)"),
    *("try_cast(i as tinyint)", "try_cast(m as int)", "cast(' 12 ' as int)", "cast('+5' as bigint)"),
    *("try_cast('1.0' as int)", "cast('.5' as double)", "cast('1d' as double)", "cast('Infinity' as double)"),
    *("try_cast('nan' as double)", "try_cast('-NaN' as double)", "try_cast('' as int)", "cast(null as int)"),
    *("cast(null as string)", "try_cast('y' as boolean)", "cast('T' as boolean)"),
    *("if(size(a) > 1, a[1], 'none')", "size(a)", "cardinality(a)", "array(i, 1)", "array(s, null)", "p.x"),
    *("p.n", "p.x + 1", "P.N", "struct(i, s as n)", "named_struct('k', i, 'v', p.n)", "struct(p.x as q).q"),
    *("coalesce(p.n, s)", "year(ts)", "month(ts)", "day(ts)", "dayofmonth(ts)", "hour(ts)", "minute(ts)"),
    *("second(ts)", "unix_micros(ts)", "unix_millis(ts)", "unix_seconds(ts)", "timestamp_millis(i)"),
    *("timestamp_millis(1700000000000L)", "ts > timestamp_millis(0)", "i > 0 and 10 / i > 1"),
    *("i = 0 or 10 / i > 1", "if(i = 0, 0.0D, 10 / i)", "not i = 1", "not i > 1 and b", "!b", "12 / 2 / 3"),
    *("7 % 4 * 2", "- 3", "i <> 1 or b", "s is null or i is null", "s is null and b", "X'0aff'", "true", "null"),
    *("'x'", "s || 'a' || t", "not not b", "i in (1) and b", "not s in ('a')", "i % 100 + 1"),
    *("i % 100 + l % 100", "cast(i % 50 as tinyint) + 1Y", "cast(h % 9 as smallint) * 2S"),
    *("(l % 1000) * (i % 1000)", "-(i % 100)", "abs(i % 100)", "i % 100 - 1 - 1", "l % 1000 / 3"),
    *("(i % 7) / (l % 1000 + 2000)", "i % 9 - -1", "i % 100 > 2 and s like 'a%' or b", "m / 7"),
    *("(i % 100) / cast(3 as decimal(4,1))",),
]
"""Each function and operator that is known, and how it meets null and the ends of types."""
FIXED_FAILING = [
    *("i + 1", "i + l", "y + h", "y + y", "i * i", "l - 1", "l * 2", "-i", "-l", "abs(i)", "l / i", "-7 % i"),
    *("l div -1", "i / m", "m / i", "1Y + y", "i - -1", "-2147483648 + i", "9223372036854775807 - l", "ceil(d)"),
    *("ceil(d / 1e290D)", "ceiling(d)", "cast(m as decimal(5,1))", "a[0]"),
    *("coalesce(s, cast(1 div 0 as string))", "i + 1 * 2", "i - 1 - 1", "-i + 1"),
    *("i + 1 > 2 and s like 'a%' or b", "(i + 1) * 2", "- (i)", "concat_ws(s, t, cast(1 % 0 as string))"),
    *("nullif(s, s) || cast(1 div l as string)", "concat(t, cast(null as string), cast(l % i as string), s)"),
    *("replace(case when s is null then '' end, concat(s, t), 'a') || cast(0 div l as string)",),
]
"""Those that are errors of some rows."""


def _answers(spark: SparkSession, texts: Sequence[str], session_rows: Any) -> list[tuple[str, list[Any]] | None]:
    """Return Spark's types and results; None for what it refuses or fails at."""
    from pyspark.errors import PySparkException

    try:
        frame = session_rows.selectExpr(*(f"({text}) as c{at}" for at, text in enumerate(texts)))
        found = [each.dataType.simpleString() for each in frame.schema.fields]
        asked = frame.selectExpr(
            *(f"unix_micros(c{at})" if k == "timestamp" else f"c{at}" for at, k in enumerate(found))
        )
        rows = asked.collect()
        return [(kind, [_plain(row[at]) for row in rows]) for at, kind in enumerate(found)]
    except PySparkException:
        if len(texts) == 1:
            return [None]
        middle = len(texts) // 2
        return [*_answers(spark, texts[:middle], session_rows), *_answers(spark, texts[middle:], session_rows)]


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return value.asDict() if hasattr(value, "asDict") else value


def differences(spark: SparkSession, texts: Sequence[str]) -> tuple[list[str], int]:
    """Return where the evaluator's types and results, by value and by column, are not Spark's; and how many it refused."""
    table = pa.table({name: pa.array([row[name] for row in ROWS], kind) for name, kind in _ARROW.items()})
    said, found, asked = 0, list[str](), list[str]()
    for text in texts:
        try:
            compiled(text, COLUMNS)
            asked.append(text)
        except Refused:
            said += 1
    frame = spark.createDataFrame(table)
    failing = [text for text in asked if _fails(text)]  # one by one: a query of several fails as a whole
    asked = [text for text in asked if text not in failing]
    answers = [each for at in range(0, len(asked), 50) for each in _answers(spark, asked[at : at + 50], frame)]
    for text, answer in zip(asked, answers, strict=True):
        found += [*_compare(text, answer, ROWS), *_compare_columns(text, table, answer)]
    for text in failing:
        (answer,) = _answers(spark, [text], frame)
        found += [*_compare(text, answer, ROWS), *_compare_columns(text, table, answer)]
        good = [at for at, row in enumerate(ROWS) if not _fails(text, [row])]
        if good:
            (answer,) = _answers(spark, [text], spark.createDataFrame(table.take(good)))
            found += _compare(text, answer, [ROWS[at] for at in good])
    return found, said


def _fails(text: str, rows: Sequence[Mapping[str, Any]] = ROWS) -> bool:
    call = compiled(text, COLUMNS).function(tuple(COLUMNS))
    try:
        for row in rows:
            call(*row.values())
    except ArithmeticError:
        return True
    return False


def _compare(text: str, answer: tuple[str, list[Any]] | None, given: Sequence[Mapping[str, Any]]) -> list[str]:
    expression = compiled(text, COLUMNS)
    call = expression.function(tuple(COLUMNS))
    ours, failed = [], False
    for row in given:
        try:
            ours.append(call(*row.values()))
        except ArithmeticError:
            failed = True
            ours.append(ArithmeticError)
    if answer is None:
        return [] if failed else [f"{text}: Spark fails, we said {ours[:5]}"]
    if failed:
        at = ours.index(ArithmeticError)
        return [f"{text}: we fail at {given[at]}, Spark said {answer[1][at]!r}"]
    if str(expression.kind) != answer[0]:
        return [f"{text}: Spark's type is {answer[0]}, ours {expression.kind}"]
    wrong = [at for at, pair in enumerate(zip(ours, answer[1], strict=True)) if not _same(*pair)]
    return [f"{text}: for {given[at]} Spark said {answer[1][at]!r}, we {ours[at]!r}" for at in wrong[:1]]


def _compare_columns(text: str, table: pa.Table, answer: tuple[str, list[Any]] | None) -> list[str]:
    call = columns_function(compiled(text, COLUMNS))
    try:
        made = call({name: table[name].combine_chunks() for name in table.column_names}, len(table))
        made = made.cast(pa.int64()) if pa.types.is_timestamp(made.type) else made
        ours: list[Any] = made.to_pylist()
    except ArithmeticError:
        return [] if answer is None else [f"{text}: in columns we fail, Spark said {answer[1][:3]}"]
    if answer is None:
        return [f"{text}: Spark fails, in columns we said {ours[:5]}"]
    wrong = [at for at, pair in enumerate(zip(ours, answer[1], strict=True)) if not _same(*pair)]
    return [f"{text}: in columns for {ROWS[at]} Spark said {answer[1][at]!r}, we {ours[at]!r}" for at in wrong[:1]]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or (one == other and str(one)[:1] == str(other)[:1])
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other and str(one) == str(other)
    return type(one) is type(other) and bool(one == other)


# -- expressions at random


def _leaf(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


_INT = _leaf("i", "l", "y", "h", "1", "0", "-3", "2147483647", "5L", "p.x", "length(s)", "size(a)")
_REAL = _leaf("d", "f", "1.5D", "0.0D", "-2e3", "cast(i as double)")
_TEXT = _leaf("s", "t", "'a'", "''", "'x,y'", "p.n", "cast(i as string)", "upper(s)", "trim(s)")
_TRUTH = _leaf("b", "true", "false", "s is null", "i > 0", "null = 1")


def _node(children: dict[str, st.SearchStrategy[str]]) -> dict[str, st.SearchStrategy[str]]:
    whole, real, text, truth = (children[name] for name in ("whole", "real", "text", "truth"))

    def of(form: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda found: form.format(*found))

    signs, compare = _leaf("+", "-", "*"), _leaf("=", "<", "<=", ">", ">=", "<>", "<=>")
    return {
        "whole": st.one_of(
            of("{0} {1} {2}", whole, signs, whole),
            of("({0}) % ({1})", whole, whole),
            of("({0}) div ({1})", whole, whole),
            of("if({0}, {1}, {2})", truth, whole, whole),
            of("coalesce({0}, {1})", whole, whole),
            of("instr({0}, {1})", text, text),
            of("try_cast({0} as bigint)", text),
            of("greatest({0}, {1})", whole, whole),
            of("-({0})", whole),
        ),
        "real": st.one_of(
            of("({0}) {1} ({2})", real, signs, real),
            of("({0}) / ({1})", whole, whole),
            # Spark evaluates the first once, in a projection before guards: `null + nullif(1 / 0, d)` fails there alone.
            of("nullif({0}, {1})", _REAL, real),
            of("case when {0} then {1} else {2} end", truth, real, whole),
        ),
        "text": st.one_of(
            of("concat({0}, {1})", text, text),
            of("{0} || {1}", text, text),
            of("substring({0}, {1}, 2)", text, _leaf("1", "-2", "0", "y")),
            of("concat_ws({0}, {1}, {2})", text, text, text),
            of("case when {0} then {1} end", truth, text),
            of("replace({0}, {1}, {2})", text, text, text),
            of("lower({0})", text),
            of("cast({0} as string)", whole),
        ),
        "truth": st.one_of(
            of("({0}) {1} ({2})", whole, compare, whole),
            of("({0}) {1} ({2})", real, compare, real),
            of("({0}) {1} ({2})", text, compare, text),
            of("({0}) and ({1})", truth, truth),
            of("{0} or not ({1})", truth, truth),
            of("({0}) in ('a', '10', null)", text),
            of("({0}) like 'a%'", text),
            of("({0}) is not null", real),
        ),
    }


def _grown(depth: int) -> dict[str, st.SearchStrategy[str]]:
    found: dict[str, st.SearchStrategy[str]] = {"whole": _INT, "real": _REAL, "text": _TEXT, "truth": _TRUTH}
    for _ in range(depth):
        made = _node(found)
        found = {name: st.one_of(found[name], made[name]) for name in found}
    return found


def expressions(depth: int = 3) -> st.SearchStrategy[str]:
    """Return expressions of any type, nested up to a depth."""
    return st.one_of(*_grown(depth).values())

"""Drawn statements: every kind of node, names that are keywords or need quotes, numbers at their bounds."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from ottla.sql import types as t
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s

NAMES = st.sampled_from(
    [
        "A",
        "B1",
        "_C",
        "D@E",
        "lower",
        "with blank",
        "a`b",
        "SELECT",
        "KEY",
        "EMIT",
        "MAP",
        "ID",
        "1ST",
        "DAY",
        "IF",
        "TYPE",
    ]
)
SOURCES = st.sampled_from(["S1", "T_2", "lower-case", "TABLE", "EMIT", "KEY", "TABLES", "SOURCE"])
TEXTS = st.text(st.characters(exclude_characters="$", codec="utf-8"), max_size=8)
DURATIONS = st.builds(q.Duration, st.integers(0, 99), st.sampled_from(["DAYS", "HOURS", "SECONDS", "MILLISECONDS"]))

LITERALS = st.one_of(
    st.just(e.NullLiteral()),
    st.builds(e.BooleanLiteral, st.booleans()),
    st.builds(e.IntegerLiteral, st.integers(-(2**31), 2**31 - 1)),
    st.builds(e.LongLiteral, st.integers(2**31, 2**63 - 1)),
    st.builds(e.LongLiteral, st.integers(-(2**63), -(2**31) - 1)),
    st.builds(e.DoubleLiteral, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(
        e.DecimalLiteral,
        st.decimals(-(10**6), 10**6, places=3).map(lambda d: d + Decimal(0) if d else Decimal("0.000")),
    ),
    st.builds(e.DecimalLiteral, st.integers(-99, 99).map(Decimal)),
    st.builds(e.StringLiteral, TEXTS),
)

TYPES: st.SearchStrategy[t.SqlType] = st.recursive(
    st.one_of(
        st.sampled_from([*t.PRIMITIVES.values()]),
        st.integers(1, 38).flatmap(lambda p: st.builds(t.DecimalType, st.just(p), st.integers(0, p))),
    ),
    lambda inner: st.one_of(
        st.builds(t.ArrayType, inner),
        st.builds(t.MapType, inner, inner),
        st.lists(st.tuples(NAMES, inner), max_size=3, unique_by=lambda each: each[0]).map(
            lambda f: t.StructType(tuple(f))
        ),
    ),
    max_leaves=4,
)


def _tuples(inner: st.SearchStrategy, low: int = 1, high: int = 3) -> st.SearchStrategy:
    return st.lists(inner, min_size=low, max_size=high).map(tuple)


def _nested(inner: st.SearchStrategy[e.Expression]) -> st.SearchStrategy[e.Expression]:
    pairs = st.tuples(inner, inner)
    functions = st.sampled_from(["LCASE", "COUNT", "MY FUNCTION", "REPLACE"])
    body = st.one_of(inner, st.builds(e.LambdaVariable, st.just("X")))
    lambdas = st.builds(e.Lambda, st.just(("X",)), body)
    return st.one_of(
        st.builds(e.Dereference, inner, NAMES),
        st.builds(e.Subscript, inner, inner),
        st.builds(e.Sign, st.sampled_from(["-", "+"]), inner),
        st.builds(e.Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
        st.builds(e.Comparison, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]), inner, inner),
        st.builds(e.Logical, st.sampled_from(["AND", "OR"]), inner, inner),
        st.builds(e.Not, inner),
        st.builds(e.IsNull, inner, st.booleans()),
        st.builds(e.Between, inner, inner, inner),
        st.builds(e.In, inner, _tuples(inner)),
        st.builds(e.Like, inner, inner, st.sampled_from([None, "!", "'"])),
        st.builds(e.Case, st.none() | inner, _tuples(pairs), st.none() | inner),
        st.builds(e.Cast, inner, TYPES),
        st.builds(e.Call, functions, _tuples(st.one_of(inner, st.builds(e.TimeUnit, st.just("DAYS"))))),
        st.builds(lambda first, last: e.Call("TRANSFORM", (first, last)), inner, lambdas),
        st.builds(e.MakeArray, _tuples(inner, 0)),
        st.builds(e.MakeMap, _tuples(pairs, 0)),
        st.builds(e.MakeStruct, _tuples(st.tuples(NAMES, inner), 0)),
    )


EXPRESSIONS: st.SearchStrategy[e.Expression] = st.recursive(
    st.one_of(LITERALS, st.builds(e.Column, NAMES.filter(lambda name: name != "X")), st.just(e.Call("COUNT", ()))),
    _nested,
    max_leaves=8,
)

SELECTED = st.one_of(
    st.builds(q.Selected, EXPRESSIONS, st.none() | NAMES),
    st.just(q.AllOf()),
    st.builds(q.AllFields, st.builds(e.Column, NAMES)),
)
WINDOWS = st.one_of(
    st.builds(
        q.Window,
        st.sampled_from(["TUMBLING", "SESSION"]),
        DURATIONS,
        st.none(),
        st.none() | DURATIONS,
        st.none() | DURATIONS,
    ),
    st.builds(q.Window, st.just("HOPPING"), DURATIONS, DURATIONS, st.none() | DURATIONS, st.none() | DURATIONS),
)
FROM = st.builds(q.Source, SOURCES, SOURCES)
WITHIN = st.builds(q.Within, DURATIONS, DURATIONS, st.none() | DURATIONS)
JOINS = st.builds(q.Join, st.sampled_from(["INNER", "LEFT", "RIGHT", "OUTER"]), FROM, EXPRESSIONS, st.none() | WITHIN)


ORDERS = st.builds(q.Ordered, EXPRESSIONS, st.booleans(), st.none() | st.booleans())


def queries(*, persistent: bool) -> st.SearchStrategy[q.Query]:
    """Queries; persistent ones have their EMIT."""
    emits = st.sampled_from(["CHANGES", "FINAL"])
    optional = st.none() | EXPRESSIONS
    groups = st.none() | _tuples(EXPRESSIONS)
    return st.builds(
        q.Query,
        _tuples(SELECTED),
        FROM,
        _tuples(JOINS, 0, 2),
        st.none() | WINDOWS,
        optional,
        groups,
        groups,
        optional,
        emits if persistent else st.none() | emits,
        st.none() | st.integers(0, 9),
        st.just(()) if persistent else _tuples(ORDERS, 0, 2),
    )


PROPERTIES = st.lists(st.tuples(NAMES, LITERALS), max_size=3, unique_by=lambda each: each[0]).map(tuple)
COLUMNS = _tuples(
    st.one_of(
        st.builds(s.ColumnDefinition, NAMES, TYPES, st.sampled_from(["VALUE", "KEY", "PRIMARY KEY", "HEADERS"])),
        st.builds(s.ColumnDefinition, NAMES, TYPES, st.just("HEADER"), TEXTS),
    ),
    0,
)
KINDS = st.sampled_from(["STREAM", "TABLE"])
PERSISTENT = queries(persistent=True)
VARIABLES = st.sampled_from(["name", "Other_1", "select"])

SIMPLE: st.SearchStrategy[s.Statement] = st.one_of(
    st.builds(s.CreateSource, KINDS, SOURCES, COLUMNS, PROPERTIES, st.booleans(), st.booleans(), st.booleans()),
    st.builds(s.CreateAs, KINDS, SOURCES, PERSISTENT, PROPERTIES, st.booleans(), st.booleans()),
    st.builds(s.InsertInto, SOURCES, PERSISTENT, PROPERTIES),
    st.builds(s.InsertValues, SOURCES, _tuples(NAMES, 0), _tuples(LITERALS, 0)),
    st.builds(s.DropSource, KINDS, SOURCES, st.booleans(), st.booleans()),
    st.builds(s.AlterSource, KINDS, SOURCES, _tuples(st.tuples(NAMES | st.just("COLUMN"), TYPES))),
    st.builds(s.CreateType, NAMES, TYPES, st.booleans()),
    st.builds(s.DropType, NAMES, st.booleans()),
    st.builds(s.CreateConnector, st.sampled_from(["SOURCE", "SINK"]), NAMES, PROPERTIES.filter(bool), st.booleans()),
    st.builds(s.DropConnector, NAMES, st.booleans()),
    st.builds(s.QueryStatement, queries(persistent=False)),
    st.builds(s.Show, st.sampled_from(["STREAMS", "TABLES", "QUERIES", "TOPICS", "ALL TOPICS"]), st.booleans()),
    st.builds(s.Show, st.sampled_from(["CONNECTORS", "SINK CONNECTORS", "CONNECTOR PLUGINS", "TYPES", "PROPERTIES"])),
    st.builds(s.Describe, st.just("SOURCE"), SOURCES, st.booleans()),
    st.builds(s.Describe, st.sampled_from(["FUNCTION", "CONNECTOR"]), NAMES),
    st.builds(s.Describe, st.sampled_from(["STREAMS", "TABLES"]), st.none(), st.booleans()),
    st.builds(s.PrintTopic, TEXTS, st.booleans(), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
    st.builds(s.Control, st.sampled_from(["TERMINATE", "PAUSE", "RESUME"]), st.none() | NAMES),
    st.builds(s.SetProperty, TEXTS, TEXTS, st.booleans()),
    st.builds(s.UnsetProperty, TEXTS),
    st.builds(s.DefineVariable, VARIABLES, TEXTS),
    st.builds(s.UndefineVariable, VARIABLES),
    st.builds(s.AssertTopic, TEXTS, st.booleans(), PROPERTIES, st.none() | DURATIONS),
    st.builds(s.AssertSchema, st.none() | TEXTS, st.none() | LITERALS, st.booleans(), st.none() | DURATIONS),
    st.builds(s.AssertValues, SOURCES, _tuples(NAMES, 0), _tuples(LITERALS, 0), st.booleans()),
    st.builds(s.AssertSource, KINDS, SOURCES, COLUMNS, PROPERTIES),
    st.builds(s.RunScript, TEXTS),
)
STATEMENTS = st.one_of(SIMPLE, st.builds(s.Explain, st.none(), SIMPLE), st.builds(s.Explain, NAMES))

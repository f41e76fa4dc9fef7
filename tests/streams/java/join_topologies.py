"""The topologies of joins that are compared with Java's results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.streams.java.steps import op, out, source
from tests.streams.java.topologies import Plan

__all__ = ["foreign_key_joins", "global_joins", "stream_stream_joins", "stream_table_joins", "table_table_joins"]

_SERDES = {"key": "string", "value": "string", "other_value": "string"}
_TWO = {"l": "string", "r": "string"}
_APART = {"sequence_only": "records that go through a topic come in later than those that do not"}
KINDS = ("join", "left_join", "outer_join")


def _windows(before: int, after: int, grace: int) -> dict[str, int]:
    return {"before": before, "after": after, "grace": grace}


def stream_stream_joins() -> Iterator[Plan]:
    """Windowed joins."""
    heads = [source("l", "string"), source("r", "string")]
    windows = {
        "even": _windows(10, 10, 5),
        "even without grace": _windows(10, 10, 0),
        "only before": _windows(12, 0, 4),
        "only after": _windows(0, 12, 8),
        "uneven": _windows(3, 15, 20),
        "with a gap": _windows(-3, 15, 5),
        "nearly none": _windows(1, 0, 10),
        "by the old rule": {"before": 10, "after": 10},
        "by the old rule, uneven": {"before": 3, "after": 15},
    }
    for kind in KINDS:
        for name, window in windows.items():
            step = op(kind, "l", "j", fn="pair", windows=window, **{"with": "r"}, **_SERDES)
            yield f"stream-stream {kind}, {name}", [*heads, step, *out("j", "string")], _TWO, {"count": 60}
    window = _windows(10, 10, 5)
    named: dict[str, Any] = {"name": "meet", "store": "met"}
    step = op("left_join", "l", "j", fn="pair_key", windows=window, **{"with": "r"}, **_SERDES, **named)
    yield "stream-stream left_join with names", [*heads, step, *out("j", "string")], _TWO, {"headers": True}
    for kind in KINDS:
        own = op(kind, "l", "j", fn="pair", windows=window, **{"with": "l"}, **_SERDES)
        yield f"stream-stream {kind} with itself", [heads[0], own, *out("j", "string")], {"l": "string"}, {}
        rekeyed = [op("select_key", "l", "lk", fn="first"), op("select_key", "r", "rk", fn="first")]
        step = op(kind, "lk", "j", fn="pair", windows=window, **{"with": "rk"}, **_SERDES)
        topics = {"l": "foreign", "r": "foreign"}
        yield f"stream-stream {kind} by another key", [*heads, *rekeyed, step, *out("j", "string")], topics, _APART
        twice = [
            source("third", "string"),
            op(kind, "l", "j", fn="pair", windows=window, **{"with": "r"}, **_SERDES),
            op("left_join", "j", "k", fn="pair", windows=_windows(8, 8, 30), **{"with": "third"}, **_SERDES),
        ]
        yield (
            f"stream-stream {kind}, then another",
            [*heads, *twice, *out("k", "string")],
            {**_TWO, "third": "string"},
            {},
        )


def stream_table_joins() -> Iterator[Plan]:
    """A record meets a table's row."""
    stream, table = source("l", "string"), source("r", "string", "table")
    for kind in KINDS[:2]:
        step = op(kind, "l", "j", fn="pair_key", **{"with": "r"}, **_SERDES)
        yield f"stream-table {kind}", [stream, table, step, *out("j", "string")], _TWO, {"headers": True}
        rekeyed = [op("select_key", "l", "k", fn="first"), op(kind, "k", "j", fn="pair", **{"with": "r"}, **_SERDES)]
        topics = {"l": "foreign", "r": "string"}
        keys = {"keys": ("p", "q", "r"), **_APART}
        yield f"stream-table {kind} by another key", [stream, table, *rekeyed, *out("j", "string")], topics, keys
        mapped = [op("map_values", "r", "m", fn="upper"), op("filter", "m", "f", fn="key_not_b")]
        step = op(kind, "l", "j", fn="pair", **{"with": "f"}, **_SERDES)
        yield (
            f"stream-table {kind} with a computed table",
            [stream, table, *mapped, step, *out("j", "string")],
            _TWO,
            {},
        )
        counted = [source("r", "string"), op("group_by_key", "r", "g"), op("count", "g", "c")]
        step = op(kind, "l", "j", fn="pair", **{"with": "c"}, **{**_SERDES, "other_value": "long"})
        yield f"stream-table {kind} with counts", [stream, *counted, step, *out("j", "string")], _TWO, {}
        versioned = source("r", "string", "table", store="rows", versioned=60)
        step = op(kind, "l", "j", fn="pair", **{"with": "r"}, **_SERDES)
        yield f"stream-table {kind}, versioned", [stream, versioned, step, *out("j", "string")], _TWO, {"count": 60}
        keyed = {"l": "string!", "r": "string"}  # with a key that is null Kafka's buffer fails
        step = op(kind, "l", "j", fn="pair", grace=12, name="waiting", **{"with": "r"}, **_SERDES)
        yield (
            f"stream-table {kind}, versioned with grace",
            [stream, versioned, step, *out("j", "string")],
            keyed,
            {"count": 60},
        )


def table_table_joins() -> Iterator[Plan]:
    """Rows of the same key."""
    heads = [source("l", "string", "table"), source("r", "string", "table")]
    for kind in KINDS:
        step = op(kind, "l", "j", fn="pair", **{"with": "r"})
        yield f"table-table {kind}", [*heads, step, *out("j", "string", table=True)], _TWO, {}
        dropping = op(kind, "l", "j", fn="drop_x", **{"with": "r"})
        yield f"table-table {kind} to null", [*heads, dropping, *out("j", "string", table=True)], _TWO, {}
        stored = op(kind, "l", "j", fn="pair", store="joined", key="string", value="string", **{"with": "r"})
        yield f"table-table {kind}, materialized", [*heads, stored, *out("j", "string", table=True)], _TWO, {}
        computed = [op("filter", "l", "lf", fn="starts_x"), op("map_values", "r", "rm", fn="upper")]
        step = op(kind, "lf", "j", fn="pair", **{"with": "rm"})
        yield (
            f"table-table {kind} of computed tables",
            [*heads, *computed, step, *out("j", "string", table=True)],
            _TWO,
            {},
        )
        grouped = [
            op(kind, "l", "j", fn="pair", **{"with": "r"}),
            op("group_by", "j", "g", fn="prefix_pair", key="string", value="string"),
            op("aggregate", "g", "a", initial="empty", fn="concat_plus", subtract="concat_minus", value="string"),
            *out("a", "string", table=True),
        ]
        options = {"keys": ("aa", "ab", "ba"), "sequence_only": "intermediate rows are concatenated"}
        yield f"table-table {kind}, grouped", [*heads, *grouped], _TWO, options
        third = [
            source("third", "string", "table"),
            op(kind, "l", "j", fn="pair", **{"with": "r"}),
            op("outer_join", "j", "k", fn="pair", **{"with": "third"}),
            *out("k", "string", table=True),
        ]
        yield f"table-table {kind}, then another", [*heads, *third], {**_TWO, "third": "string"}, {}
        own = op(kind, "l", "j", fn="pair", **{"with": "l"})
        untold = {"sequence_only": "joined with itself, a row that is deleted is gone on both sides: nobody is told"}
        yield (
            f"table-table {kind} with itself",
            [heads[0], own, *out("j", "string", table=True)],
            {"l": "string"},
            untold,
        )
        versioned = [source(each, "string", "table", store=f"{each}-rows", versioned=60) for each in "lr"]
        step = op(kind, "l", "j", fn="pair", **{"with": "r"})
        yield f"table-table {kind}, versioned", [*versioned, step, *out("j", "string", table=True)], _TWO, {}


def foreign_key_joins() -> Iterator[Plan]:
    """Rows that name the key of another table's row (KIP-213)."""
    heads = [source("l", "string", "table"), source("f", "string", "table")]
    topics = {"l": "foreign", "f": "string"}
    for kind in ("fk_join", "fk_left_join"):
        join = {"with": "f", "foreign": "first"}
        step = op(kind, "l", "j", fn="pair", **join)
        yield kind, [*heads, step, *out("j", "string", table=True)], topics, {"count": 60}
        step = op(kind, "l", "j", fn="pair", store="joined", key="string", value="string", name="enriched", **join)
        yield f"{kind}, named and materialized", [*heads, step, *out("j", "string", table=True)], topics, {"count": 60}
        filtered = [op("filter", "l", "lf", fn="key_not_b"), op("map_values", "f", "fm", fn="upper")]
        step = op(kind, "lf", "j", fn="pair", **{**join, "with": "fm"}, value="string")
        yield (
            f"{kind} of computed tables",
            [*heads, *filtered, step, *out("j", "string", table=True)],
            topics,
            {"count": 60},
        )
        twice = [
            op(kind, "l", "j", fn="pair", **join, key="string", value="string"),
            op(kind, "j", "k", fn="pair", **join, key="string", value="string"),
        ]
        yield f"{kind}, then another", [*heads, *twice, *out("k", "string", table=True)], topics, {"count": 60}
        grouped = [
            op(kind, "l", "j", fn="pair", **join, key="string", value="string"),
            op("group_by", "j", "g", fn="prefix_pair", key="string", value="string"),
            op("count", "g", "c"),
            *out("c", table=True),
        ]
        yield f"{kind}, grouped and counted", [*heads, *grouped], topics, {"count": 60}
        versioned = [source(each, "string", "table", store=f"{each}-rows", versioned=60) for each in "lf"]
        step = op(kind, "l", "j", fn="pair", **join)
        yield f"{kind}, versioned", [*versioned, step, *out("j", "string", table=True)], topics, {"count": 60}


def global_joins() -> Iterator[Plan]:
    """A record meets a row of a table that is everywhere."""
    heads = [source("l", "string"), source("f", "string", "global_table")]
    topics = {"l": "foreign", "f": "string"}
    for kind in KINDS[:2]:
        join = {"with": "f", "select": "first"}
        step = op(kind, "l", "j", fn="pair_key", **join)
        yield f"stream-global {kind}", [*heads, step, *out("j", "string")], topics, {"headers": True}
        stored = [heads[0], source("f", "string", "global_table", store="all")]
        behind = [
            op("group_by_key", "j", "g", key="string", value="string"),
            op("count", "g", "c"),
            *out("c", table=True),
        ]
        yield f"stream-global {kind}, counted", [*stored, step, *behind], topics, {}

"""The topologies that are compared with Java's results: streams, aggregations, windows, tables, suppression, processors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.streams.java.steps import op, out, source, time, windowed

__all__ = ["aggregations", "cogroups", "processors", "stateless", "suppressions", "tables", "windows"]

Plan = tuple[str, list[dict[str, Any]], dict[str, str], dict[str, Any]]
"""A name, the steps, the topics' kinds of values, and options for the inputs."""

LONGS = {"in": "long"}
_UNADDED = {"sequence_only": "without cache Kafka subtracts the initial value, which was never added"}
_FORGETS = {"sequence_only": "the processor counts in an attribute, which does not outlive it"}
_HOLDS = {"sequence_only": "what is held back depends on how often the table's changes are told"}
_KEYED = op("group_by_key", "in", "g")


def stateless() -> Iterator[Plan]:
    """Steps of streams that keep nothing."""
    for step, fn in [("filter", "even"), ("filter_not", "even"), ("map_values", "double"), ("map_values", "drop_odd")]:
        yield f"{step} {fn}", [source("in"), op(step, "in", "s", fn=fn), *out("s")], LONGS, {"headers": True}
    yield (
        "map_values to text",
        [source("in"), op("map_values", "in", "s", fn="with_key"), *out("s", "string")],
        LONGS,
        {},
    )
    yield "map", [source("in"), op("map", "in", "s", fn="swap_text"), *out("s", "string")], LONGS, {"headers": True}
    yield "flat_map", [source("in"), op("flat_map", "in", "s", fn="with_bang"), *out("s")], LONGS, {"headers": True}
    words = [source("in", "string"), op("flat_map_values", "in", "s", fn="words"), *out("s", "string")]
    yield "flat_map_values", words, {"in": "words"}, {}
    yield "select_key", [source("in"), op("select_key", "in", "s", fn="mod3_text"), *out("s")], LONGS, {}
    merged = [source("in"), source("more"), op("merge", "in", "s", **{"with": "more"}), *out("s")]
    yield "merge", merged, {"in": "long", "more": "long"}, {}
    branches = [{"id": "one", "fn": "even"}, {"id": "two", "fn": "positive"}, {"id": "rest"}]
    ends = [*out("one", topic="evens"), *out("two", topic="positives"), *out("rest", topic="others")]
    yield "split with default", [source("in"), op("split", "in", "", branches=branches), *ends], LONGS, {}
    yield "split", [source("in"), op("split", "in", "", branches=branches[:2], name="parts-"), *ends[:2]], LONGS, {}
    yield "repartition", [source("in"), op("repartition", "in", "s", name="again"), *out("s")], LONGS, {"headers": True}
    unnamed = [source("in"), op("select_key", "in", "k", fn="mod3_text"), op("repartition", "k", "s"), *out("s")]
    yield "select_key and repartition", unnamed, LONGS, {}
    chosen = op("to", "in", "", topic_by_key="out-", key="string", value="long")
    yield "topic by key", [source("in"), chosen], LONGS, {}
    yield "many topics", [source("in", topics=["in", "more"]), *out("in")], {"in": "long", "more": "long"}, {}
    chain = [
        op("filter", "in", "f", fn="positive", name="positives"),
        op("map_values", "f", "m", fn="double", name="twice"),
    ]
    yield "named steps", [source("in", name="the-source"), *chain, *out("m")], LONGS, {}
    extracted = [source("in", extractor="minus_10"), op("group_by_key", "in", "g"), windowed("g", time(10, grace=5))]
    yield "timestamp extractor", [*extracted, op("count", "w", "c"), *out("c", table=True, key=None)], LONGS, {}


def aggregations() -> Iterator[Plan]:
    """Aggregates by key."""
    count = [source("in"), _KEYED, op("count", "g", "c", store="counts"), *out("c", table=True)]
    yield "count", count, LONGS, {"headers": True}
    yield (
        "count in memory",
        [source("in"), _KEYED, op("count", "g", "c", memory=True), *out("c", table=True)],
        LONGS,
        {},
    )
    for fn in ("sum", "max", "last", "first", "null_if_same"):
        yield (
            f"reduce {fn}",
            [source("in"), _KEYED, op("reduce", "g", "c", fn=fn, store="s"), *out("c", table=True)],
            LONGS,
            {},
        )
    concat = op("aggregate", "g", "c", initial="empty", fn="concat", value="string")
    yield "aggregate", [source("in"), _KEYED, concat, *out("c", "string", table=True)], LONGS, {}
    clear = op("aggregate", "g", "c", initial="zero", fn="clear_at_3", value="long")
    yield "aggregate to null", [source("in"), _KEYED, clear, *out("c", table=True)], LONGS, {}
    rekeyed = op("group_by", "in", "g", fn="mod3_text", key="string", value="long")
    yield "group_by and count", [source("in"), rekeyed, op("count", "g", "c"), *out("c", table=True)], LONGS, {}
    named = op("group_by", "in", "g", fn="mod3_text", key="string", value="long", name="by-rest")
    yield (
        "group_by with a name",
        [source("in"), named, op("count", "g", "c", store="counts"), *out("c", table=True)],
        LONGS,
        {},
    )
    twice = [op("select_key", "in", "k", fn="mod3_text"), op("group_by_key", "k", "g", key="string", value="long")]
    reduce = op("reduce", "g", "c", fn="sum", value="long")
    yield "select_key, group_by_key", [source("in"), *twice, reduce, *out("c", table=True)], LONGS, {}
    again = [
        op("to_stream", "c", "cs"),
        op("group_by", "cs", "g2", fn="mod3_text", key="string", value="long"),
        op("count", "g2", "c2"),
        *out("c2", table=True),
    ]
    yield (
        "count of counts",
        [source("in"), _KEYED, op("count", "g", "c"), *again],
        LONGS,
        {"sequence_only": "intermediate values are told and counted"},
    )
    words = [
        source("in", "string"),
        op("flat_map_values", "in", "w", fn="words"),
        {"op": "group_by", "of": "w", "id": "g", "fn": "same", "key": "string", "value": "string"},
        op("count", "g", "c", store="counts"),
        *out("c", table=True),
    ]
    yield "word count", words, {"in": "words!"}, {}


def windows() -> Iterator[Plan]:
    """Aggregates by key and window, emitted on update and on close."""
    kinds = {
        "tumbling": time(10, grace=5),
        "tumbling without grace": time(10),
        "hopping": time(10, 4, grace=7),
        "hopping by one third": time(12, 4, grace=100),
        "sliding": {"kind": "sliding", "difference": 7, "grace": 9},
        "sliding without grace": {"kind": "sliding", "difference": 7, "grace": 0},
        "sliding with long grace": {"kind": "sliding", "difference": 12, "grace": 60},
        "session": {"kind": "session", "gap": 6, "grace": 8},
        "session without grace": {"kind": "session", "gap": 6, "grace": 0},
        "session with long grace": {"kind": "session", "gap": 4, "grace": 60},
        "unlimited": {"kind": "unlimited", "start": 5},
    }
    for name, kind in kinds.items():
        head = [source("in"), _KEYED, windowed("g", kind)]
        yield (
            f"{name} count",
            [*head, op("count", "w", "c", store="counts"), *out("c", table=True, key=None)],
            LONGS,
            {},
        )
        merge = {"merge": "concat"} if kind["kind"] == "session" else {}
        concat = op("aggregate", "w", "c", initial="empty", fn="concat", value="string", store="s", **merge)
        yield f"{name} aggregate", [*head, concat, *out("c", "string", table=True, key=None)], LONGS, {}
        if kind["kind"] == "unlimited":
            continue
        closing = [source("in"), _KEYED, windowed("g", kind, emit="close")]
        concat = op("aggregate", "w", "c", initial="empty", fn="concat", value="string", retention=100_000, **merge)
        yield f"{name} emitted on close", [*closing, concat, *out("c", "string", table=True, key=None)], LONGS, {}
    for name in ("tumbling", "sliding", "session"):
        head = [source("in"), _KEYED, windowed("g", kinds[name])]
        yield (
            f"{name} reduce",
            [*head, op("reduce", "w", "c", fn="last", value="long"), *out("c", table=True, key=None)],
            LONGS,
            {},
        )
        text = [op("to_stream", "c", "s", fn="window_text"), *out("s")]
        counted = op("count", "w", "c", memory=True)
        yield f"{name} count in memory, key as text", [*head, counted, *text], LONGS, {}
    far = [source("in"), _KEYED, windowed("g", kinds["tumbling"]), op("count", "w", "c", retention=100)]
    yield "tumbling with longer retention", [*far, *out("c", table=True, key=None)], LONGS, {"leap": 200}
    clear = op("aggregate", "w", "c", initial="zero", fn="clear_at_3", value="long")
    yield (
        "tumbling to null",
        [source("in"), _KEYED, windowed("g", time(20, grace=20)), clear, *out("c", table=True, key=None)],
        LONGS,
        {},
    )


def cogroups() -> Iterator[Plan]:
    """Several streams into one aggregate."""
    head = [
        source("in"),
        source("more", "string"),
        op("group_by_key", "in", "g"),
        op("group_by_key", "more", "h"),
        op("cogroup", "g", "c1", fn="concat"),
        op("cogroup", "c1", "c2", fn="concat_plus", **{"with": "h"}),
    ]
    topics = {"in": "long", "more": "string"}
    whole = op("aggregate", "c2", "a", initial="empty", value="string", store="s")
    yield "cogroup", [*head, whole, *out("a", "string", table=True)], topics, {}
    for name, kind in {
        "tumbling": time(10, grace=5),
        "sliding": {"kind": "sliding", "difference": 8, "grace": 8},
        "session": {"kind": "session", "gap": 5, "grace": 10},
    }.items():
        merge = {"merge": "concat"} if name == "session" else {}
        steps = [
            op("windowed_by", "c2", "w", windows=kind),
            op("aggregate", "w", "a", initial="empty", key="string", value="string", **merge),
        ]
        yield f"cogroup {name}", [*head, *steps, *out("a", "string", table=True, key=None)], topics, {}


def tables() -> Iterator[Plan]:
    """Tables: sources, filters, maps, re-grouping."""
    table = source("in", "long", "table")
    kept = source("in", "long", "table", store="rows")
    yield "table", [kept, *out("in", table=True)], LONGS, {}
    yield "table without store", [table, *out("in", table=True)], LONGS, {}
    for start, label in ((table, ""), (kept, " of a stored table")):
        for step, fn in (
            ("filter", "even"),
            ("filter_not", "even"),
            ("map_values", "drop_odd"),
            ("map_values", "double"),
        ):
            yield f"table {step} {fn}{label}", [start, op(step, "in", "t", fn=fn), *out("t", table=True)], LONGS, {}
    for step, fn in (("filter", "even"), ("filter_not", "even"), ("map_values", "drop_odd")):
        stored = op(step, "in", "t", fn=fn, store="kept", key="string", value="long")
        yield f"table {step} {fn}, materialized", [table, stored, *out("t", table=True)], LONGS, {}
    grouped = op("group_by", "in", "g", fn="mod3_pair", key="string", value="long")
    yield "table group_by count", [table, grouped, op("count", "g", "c"), *out("c", table=True)], LONGS, {}
    reduce = op("reduce", "g", "c", fn="sum", subtract="minus", store="s")
    yield "table group_by reduce", [table, grouped, reduce, *out("c", table=True)], LONGS, {}
    concat = op("aggregate", "g", "c", initial="empty", fn="concat_plus", subtract="concat_minus", value="string")
    yield (
        "table group_by aggregate",
        [table, grouped, concat, *out("c", "string", table=True)],
        LONGS,
        {"sequence_only": True},
    )
    same = op("group_by", "in", "g", fn="prefix_pair", key="string", value="long")
    yield "table group_by same key", [table, same, reduce, *out("c", table=True)], LONGS, {"keys": ("aa", "ab", "ba")}
    filtered = [
        table,
        op("filter", "in", "f", fn="even"),
        op("group_by", "f", "g", fn="mod3_pair", key="string", value="long"),
    ]
    yield "table filter, group_by count", [*filtered, op("count", "g", "c"), *out("c", table=True)], LONGS, {}
    mapped = [
        table,
        op("map_values", "in", "f", fn="double"),
        op("group_by", "f", "g", fn="mod3_pair", key="string", value="long"),
    ]
    yield "table map_values, group_by reduce", [*mapped, reduce, *out("c", table=True)], LONGS, {}
    made = [source("in"), op("to_table", "in", "t"), *out("t", table=True)]
    yield "to_table", made, LONGS, {}
    stored = [source("in"), op("to_table", "in", "t", store="rows", key="string", value="long"), *out("t", table=True)]
    yield "to_table with a store", stored, LONGS, {}
    rekeyed = [
        source("in"),
        op("select_key", "in", "k", fn="mod3_text"),
        op("to_table", "k", "t", key="string", value="long"),
    ]
    yield "select_key, to_table", [*rekeyed, *out("t", table=True)], LONGS, {}
    counts = [
        source("in"),
        _KEYED,
        op("count", "g", "c"),
        op("group_by", "c", "g2", fn="mod3_pair", key="string", value="long"),
    ]
    yield "table of counts grouped again", [*counts, op("count", "g2", "d"), *out("d", table=True)], LONGS, _UNADDED
    versioned = source("in", "long", "table", store="rows", versioned=50)
    yield "versioned table", [versioned, *out("in", table=True)], LONGS, {}
    yield "versioned table filter", [versioned, op("filter", "in", "f", fn="even"), *out("f", table=True)], LONGS, {}
    yield (
        "versioned table group_by count",
        [versioned, grouped, op("count", "g", "c"), *out("c", table=True)],
        LONGS,
        {},
    )
    yield "versioned table group_by reduce", [versioned, grouped, reduce, *out("c", table=True)], LONGS, {}


def suppressions() -> Iterator[Plan]:
    """Suppression until windows close, or for a time."""
    for name, kind in {
        "tumbling": time(10, grace=5),
        "hopping": time(10, 5, grace=3),
        "session": {"kind": "session", "gap": 6, "grace": 8},
        "sliding": {"kind": "sliding", "difference": 6, "grace": 8},
    }.items():
        head = [source("in"), _KEYED, windowed("g", kind), op("count", "w", "c", key="string")]
        final = op("suppress", "c", "s", until="window_close")
        yield f"suppress {name} until it closes", [*head, final, *out("s", table=True, key=None)], LONGS, {}
    head = [source("in"), _KEYED, op("count", "g", "c")]
    for wait in (0, 10):
        waits = op("suppress", "c", "s", until="time_limit", wait=wait, name="waits")
        yield f"suppress for {wait} ms", [*head, waits, *out("s", table=True)], LONGS, _HOLDS
    full = op("suppress", "c", "s", until="time_limit", wait=1000, max_records=2)
    yield "suppress two records", [*head, full, *out("s", table=True)], LONGS, {"keys": "abcdef", **_HOLDS}
    stop = op("suppress", "c", "s", until="time_limit", wait=1000, max_records=3, full="stop")
    yield "suppress and stop when full", [*head, stop, *out("s", table=True)], LONGS, {"keys": "abcdef", **_HOLDS}
    rows = [source("in", "long", "table"), op("suppress", "in", "s", until="time_limit", wait=8)]
    yield "suppress a table", [*rows, *out("s", table=True)], LONGS, _HOLDS
    grouped = op("group_by", "s", "g", fn="mod3_pair", key="string", value="long")
    yield (
        "suppress a table, group_by count",
        [*rows, grouped, op("count", "g", "c"), *out("c", table=True)],
        LONGS,
        _HOLDS,
    )
    filtered = op("filter", "s", "f", fn="even")
    yield "suppress a table, filter", [*rows, filtered, *out("f", table=True)], LONGS, _HOLDS


def processors() -> Iterator[Plan]:
    """Processors of one's own, with stores and punctuators."""
    store = {"op": "store", "name": "sums", "kind": "key_value", "key": "string", "value": "long"}
    sums = op("process", "in", "p", processor="running_sum", stores=["sums"])
    whole = {"in": "long!"}
    yield "process with a store", [store, source("in"), sums, *out("p")], whole, {"headers": True}
    for kind in ("stream", "wall"):
        flush = op("process", "in", "p", processor="flush", stores=["sums"], every=15, type=kind)
        yield f"flush at {kind} time", [store, source("in"), flush, *out("p")], whole, {"advance": 10}
        clock = op("process", "in", "p", processor="clock", every=7, type=kind)
        yield (
            f"{kind} clock",
            [source("in", "string"), clock, *out("p", "string")],
            {"in": "string!"},
            {"advance": 5, **_FORGETS},
        )
    yield "process forwards twice", [source("in"), op("process", "in", "p", processor="later"), *out("p")], whole, {}
    times = op("process_values", "in", "p", processor="times")
    yield "process_values times", [source("in"), times, *out("p", "string")], LONGS, {}
    header = op("process_values", "in", "p", processor="header")
    yield "process_values header", [source("in"), header, *out("p")], LONGS, {"headers": True}
    behind = [op("group_by_key", "p", "g", key="string", value="long"), op("count", "g", "c"), *out("c", table=True)]
    yield "process and count", [store, source("in"), sums, *behind], whole, {}

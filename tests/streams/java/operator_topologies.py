"""Large topologies whose every sink is an operator of `docs/streams-operators.md`: few plans, run once each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.streams.java.steps import op, out, source, time, windowed
from tests.streams.java.topologies import Plan

__all__ = ["operators"]

_KEYED = op("group_by_key", "in", "g")
_STRINGS = {"key": "string", "value": "string"}
_JOINED = {**_STRINGS, "other_value": "string"}
_MEETING = {"windows": {"before": 10, "after": 10, "grace": 5}}
_FINAL = {"sequence_only": "what is held back, or joined by foreign key, depends on how often changes are told"}


def operators() -> Iterator[Plan]:
    """One plan for each part of the page."""
    yield "streams", [*_streams()], {"in": "long", "more": "long", "text": "words"}, {"headers": True, "count": 30}
    yield "aggregates", [*_aggregates()], {"in": "long", "more": "string"}, {**_FINAL, "count": 30}
    yield "declared aggregates", [*_declared()], {"in": "long!"}, {"count": 30}
    yield "tables", [*_tables()], {"in": "long", "more": "long"}, {"count": 30}
    topics = {"l": "foreign", "r": "string", "t": "string", "u": "string", "f": "string"}
    yield "joins", [*_joins()], topics, {"count": 45, "headers": True}
    yield "foreign keys", [*_foreign_keys()], {"l": "foreign", "f": "string"}, {**_FINAL, "count": 30}
    yield "processors", [*_processors()], {"in": "long!"}, {"advance": 10, "count": 12}


def _streams() -> Iterator[dict[str, Any]]:
    yield from (source("in"), source("more"), source("text", "string"))
    yield from out("in", topic="streamed")
    for step, fn, id in (
        ("filter", "even", "kept"),
        ("filter_not", "even", "left"),
        ("map_values", "double", "doubled"),
        ("select_key", "mod3_text", "rekeyed"),
        ("flat_map", "with_bang", "banged"),
        ("peek", "", "seen"),
    ):
        yield op(step, "in", id, fn=fn)
        yield from out(id, topic=id)
    yield op("map", "in", "swapped", fn="swap_text")
    yield from out("swapped", "string", topic="swapped")
    yield op("flat_map_values", "text", "words", fn="words")
    yield from out("words", "string", topic="words")
    yield op("split", "in", "", branches=[{"id": "one", "fn": "even"}, {"id": "two", "fn": "positive"}, {"id": "rest"}])
    for id in ("one", "two", "rest"):
        yield from out(id, topic=f"branch-{id}")
    yield op("merge", "in", "merged", **{"with": "more"})
    yield from out("merged", topic="merged")
    yield op("repartition", "in", "again", name="again")
    yield from out("again", topic="repartitioned")
    yield op("to", "in", "", topic_by_key="chosen-", key="string", value="long")


def _aggregates() -> Iterator[dict[str, Any]]:
    yield from (source("in"), _KEYED)
    yield op("count", "g", "c", store="counts")
    yield from out("c", table=True, topic="counted")
    yield op("reduce", "g", "r", fn="null_if_same", store="reduced")
    yield from out("r", table=True, topic="reduced")
    yield op("aggregate", "g", "a", initial="empty", fn="concat", value="string", store="texts")
    yield from out("a", "string", table=True, topic="aggregated")
    yield from (source("more", "string"), op("group_by_key", "more", "h"), op("cogroup", "g", "c1", fn="concat"))
    yield op("cogroup", "c1", "c2", fn="concat_plus", **{"with": "h"})
    yield op("aggregate", "c2", "cogrouped", initial="empty", value="string", store="cogrouped")
    yield from out("cogrouped", "string", table=True, topic="cogrouped")
    kinds = {
        "tumbling": time(10, grace=5),
        "hopping": time(10, 4, grace=7),
        "sliding": {"kind": "sliding", "difference": 7, "grace": 9},
        "session": {"kind": "session", "gap": 6, "grace": 8},
        "unlimited": {"kind": "unlimited", "start": 5},
    }
    for name, kind in kinds.items():
        yield windowed("g", kind, f"w-{name}")
        yield op("count", f"w-{name}", f"c-{name}", key="string")
        yield from out(f"c-{name}", table=True, topic=name, key=None)
    yield windowed("g", kinds["tumbling"], "closing", emit="close")
    yield op("count", "closing", "c-closed", retention=100_000)
    yield from out("c-closed", table=True, topic="closed", key=None)
    yield op("suppress", "c-hopping", "final", until="window_close")
    yield from out("final", table=True, topic="suppressed", key=None)
    yield op("suppress", "c", "waiting", until="time_limit", wait=10)
    yield from out("waiting", table=True, topic="waited")
    yield op("group_by", "in", "by-rest", fn="mod3_text", key="string", value="long")
    yield op("count", "by-rest", "c-rest")
    yield from out("c-rest", table=True, topic="regrouped")


def _declared() -> Iterator[dict[str, Any]]:
    yield from (source("in"), _KEYED)
    yield op("count", "g", "count")
    for fn in ("sum", "min", "max", "first", "last"):
        yield op("reduce", "g", fn, fn=fn)
    yield op("group_by", "in", "by-rest", fn="mod3_text", key="string", value="long")
    yield op("count", "by-rest", "c-rest")
    yield from out("c-rest", table=True, topic="regrouped")
    yield op("aggregate", "g", "list", initial="empty", fn="concat_plus", value="string")
    for id in ("count", "sum", "min", "max", "first", "last"):
        yield from out(id, table=True, topic=id)
    yield from out("list", "string", table=True, topic="list")
    for name, kind in {"tumbling": time(10, grace=500), "hopping": time(12, 4, grace=500)}.items():
        yield windowed("g", kind, f"w-{name}")
        yield op("count", f"w-{name}", f"c-{name}")
        yield op("reduce", f"w-{name}", f"s-{name}", fn="sum")
        yield from out(f"c-{name}", table=True, topic=f"{name}-count", key=None)
        yield from out(f"s-{name}", table=True, topic=f"{name}-sum", key=None)


def _tables() -> Iterator[dict[str, Any]]:
    yield from (source("in", "long", "table", store="rows"), source("more"))
    yield from out("in", table=True, topic="table")
    for step, fn, id in (
        ("filter", "even", "t-kept"),
        ("filter_not", "even", "t-left"),
        ("map_values", "drop_odd", "t-mapped"),
    ):
        yield op(step, "in", id, fn=fn)
        yield from out(id, table=True, topic=id)
    yield op("to_table", "more", "made")
    yield from out("made", table=True, topic="made")
    yield op("to_stream", "in", "changes", fn="key_x")
    yield from out("changes", topic="changes")
    yield op("group_by", "in", "tg", fn="mod3_pair", key="string", value="long")
    yield op("reduce", "tg", "t-summed", fn="sum", subtract="minus", store="sums")
    yield from out("t-summed", table=True, topic="t-summed")


def _joins() -> Iterator[dict[str, Any]]:
    yield from (source("l", "string"), source("r", "string"))
    yield from (source("t", "string", "table"), source("u", "string", "table"), source("f", "string", "global_table"))
    for kind in ("join", "left_join", "outer_join"):
        yield op(kind, "l", f"ss-{kind}", fn="pair", **_MEETING, **{"with": "r"}, **_JOINED)
        yield from out(f"ss-{kind}", "string", topic=f"stream-stream-{kind}")
        yield op(kind, "t", f"tt-{kind}", fn="pair", **{"with": "u"})
        yield from out(f"tt-{kind}", "string", table=True, topic=f"table-table-{kind}")
    for kind in ("join", "left_join"):
        yield op(kind, "l", f"st-{kind}", fn="pair_key", **{"with": "t"}, **_JOINED)
        yield from out(f"st-{kind}", "string", topic=f"stream-table-{kind}")
        yield op(kind, "l", f"sg-{kind}", fn="pair_key", select="first", **{"with": "f"})
        yield from out(f"sg-{kind}", "string", topic=f"stream-global-{kind}")


def _foreign_keys() -> Iterator[dict[str, Any]]:
    yield from (source("l", "string", "table"), source("f", "string", "table"))
    for kind in ("fk_join", "fk_left_join"):
        yield op(kind, "l", kind, fn="pair", foreign="first", **{"with": "f"}, **_STRINGS)
        yield from out(kind, "string", table=True, topic=kind)


def _processors() -> Iterator[dict[str, Any]]:
    for name in ("sums", "stream-sums", "wall-sums"):
        yield {"op": "store", "name": name, "kind": "key_value", "key": "string", "value": "long"}
    yield source("in")
    yield op("process", "in", "running", processor="running_sum", stores=["sums"])
    yield from out("running", topic="processed")
    yield op("process_values", "in", "times", processor="times")
    yield from out("times", "string", topic="timed")
    for kind in ("stream", "wall"):
        yield op("process", "in", kind, processor="flush", stores=[f"{kind}-sums"], every=15, type=kind)
        yield from out(kind, topic=f"{kind}-flushed")

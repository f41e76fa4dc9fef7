"""Tables of the DSL: sources, filters, maps, re-grouping with adder and subtractor, cogroup, transformers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import Materialized, Serdes, StreamsBuilder, Topology
from tests.streams.engine.plans import JSON, LONG, STRING, Codec, Run, record

Row = tuple[Any, Any, int]


def rows(run: Run, *records: tuple[str | None, str | None, int], value: Codec = STRING) -> list[Row]:
    """Feed a table's topic and return the results; what leaves for a repartition topic comes back in."""
    entry = next(iter(run.plan.nodes))
    outputs = run.batch([record(*each) for each in records], source=entry)
    return [
        (STRING.deserialize(each.key), value.deserialize(each.value), each.timestamp)
        for each in _through_repartition(run, outputs)
    ]


def _through_repartition(run: Run, outputs: list[Any]) -> list[Any]:
    found = []
    sources = {topic: name for name, node in run.plan.nodes.items() for topic in getattr(node, "topics", ())}
    for each in outputs:
        inner = each.topic.removeprefix("app-")
        if inner not in run.plan.repartition_topics:
            found.append(each)
            continue
        again = record("", "", each.timestamp)._replace(key=each.key, value=each.value)
        found += _through_repartition(run, run.batch([again], source=sources[inner]))
    return found


def filtered(*, kept: bool) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=Serdes.string(), value_serde=Serdes.string())
    made = Materialized("kept") if kept else None
    table.filter(lambda value: value > "5", materialized=made).to_stream().to("out")
    return builder.build()


def test_a_filter_that_keeps_nothing_forwards_deletions_it_cannot_know_to_be_needless() -> None:
    assert rows(Run(filtered(kept=False)), ("a", "3", 1), ("a", "7", 2), ("a", "4", 3)) == [
        ("a", None, 1),
        ("a", "7", 2),
        ("a", None, 3),
    ]


def test_with_cache_a_kept_filter_does_not_tell_of_rows_that_never_were() -> None:
    assert rows(Run(filtered(kept=True), cache=True), ("a", "3", 1), ("b", "7", 2)) == [("b", "7", 2)]


def regrouped() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=Serdes.string(), value_serde=Serdes.string())
    grouped = table.group_by(
        lambda key, value: (value[0], value), key_serde=Serdes.string(), value_serde=Serdes.string()
    )
    grouped.count().to_stream().to("out", key_serde=Serdes.string(), value_serde=Serdes.long())
    return builder.build()


def test_a_row_that_changes_group_leaves_the_old_one() -> None:
    run = Run(regrouped())
    assert rows(run, ("k", "a1", 1), ("l", "a2", 2), value=LONG) == [("a", 1, 1), ("a", 2, 2)]
    assert rows(run, ("k", "b1", 3), value=LONG) == [("a", 1, 3), ("b", 1, 3)]
    assert rows(run, ("l", None, 4), value=LONG) == [("a", 0, 4)]


def cogrouped() -> Topology:
    builder = StreamsBuilder()
    one = builder.stream("in", key_serde=Serdes.string(), value_serde=Serdes.string()).group_by_key()
    two = builder.stream("other", key_serde=Serdes.string(), value_serde=Serdes.string()).group_by_key()
    both = one.cogroup(lambda key, value, found: [*found, value]).cogroup(
        two, lambda key, value, found: [*found, value * 2]
    )
    table = both.aggregate(list, materialized=Materialized("store", value_serde=Serdes.json()))
    table.to_stream().to("out", value_serde=Serdes.json())
    return builder.build()


def test_a_cogroup_coalesces_the_updates_of_all_its_streams() -> None:
    run = Run(cogrouped(), cache=True)
    one, two = (name for name, node in run.plan.nodes.items() if hasattr(node, "topics"))
    run.executor.process(one, [record("a", "x", 1)])
    run.executor.process(two, [record("a", "y", 2)])
    assert [(each.key, JSON.deserialize(each.value), each.timestamp) for each in run.finish()] == [
        (b"a", ["x", "yy"], 2)
    ]


class Numbered:
    """A transformer that counts how often it was called."""

    def init(self, context: Any) -> None:
        self.calls = 0

    def transform(self, key: str, value: str | None) -> str:
        self.calls += 1
        return f"{value}#{self.calls}"


def test_a_transformer_of_a_tables_values_sees_deletions_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=Serdes.string(), value_serde=Serdes.string())
    table.process_values(Numbered, value_serde=Serdes.string()).to_stream().to("out")
    assert [row[1] for row in rows(Run(builder.build()), ("a", "x", 1), ("a", None, 2))] == ["x#1", "None#2"]


@settings(max_examples=40, deadline=None)
@given(
    changes=st.lists(st.tuples(st.sampled_from("klm"), st.sampled_from(["a1", "a2", "b1", None])), max_size=25),
    reload=st.booleans(),
    cache=st.booleans(),
)
def test_counts_by_group_are_those_of_the_tables_last_rows(
    changes: list[tuple[str, str | None]], reload: bool, cache: bool
) -> None:
    run = Run(regrouped(), reload=reload, cache=cache, block_entries=1)
    last: dict[str, int] = {}
    for at in range(0, len(changes), 4):
        batch = [(key, value, time) for time, (key, value) in enumerate(changes[at : at + 4])]
        last |= {key: count for key, count, _ in rows(run, *batch, value=LONG)}
    groups = [value[0] for value in dict(changes).values() if value is not None]
    assert {key: count for key, count in last.items() if count} == {group: groups.count(group) for group in groups}

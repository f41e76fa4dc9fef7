"""Offsets of one cluster translated to another's: as Kafka's own store does it, and never ahead of what was read."""

from __future__ import annotations

import json
import random
import subprocess
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import Offset, TopicPartition
from ottla.mirror.offset_syncs import SLOTS, OffsetSyncStore, SyncPlan
from ottla.mirror.records import OffsetSync
from tests import peer

PLACE = TopicPartition("topic", 3)
HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "sync_slots.json").read_text())["cases"]
"""What Kafka 4.3.0's class said of some streams: SyncSlots.java prints it."""


def store_of(stream: str) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.read_to_end()
    for each in stream.split():
        upstream, downstream = map(int, each.split(":"))
        store.add(OffsetSync(PLACE, Offset(upstream), Offset(downstream)))
    return store


def shown(store: OffsetSyncStore) -> str:
    slots = store.slots(PLACE)
    assert slots is not None and len(slots) == SLOTS
    texts = groupby(f"{each.upstream}:{each.downstream}" for each in slots)
    return " ".join(f"{text}*{len(list(same))}" for text, same in texts)


def translations(store: OffsetSyncStore, asked: str) -> str:
    offsets = [int(each.partition("=")[0]) for each in asked.split()]
    return " ".join(f"{each}={store.translate(PLACE, each)}" for each in offsets)


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_slots_and_translations_are_those_of_kafkas_store(case: dict[str, str]) -> None:
    store = store_of(case["stream"])
    assert shown(store) == case["slots"]
    assert translations(store, case["translated"]) == case["translated"]


@pytest.mark.peer
@pytest.mark.slow  # javac and a JVM, for what the recorded streams show of a few
def test_ten_thousand_streams_are_kept_as_kafkas_class_keeps_them(tmp_path: Path) -> None:
    if reason := peer.missing():
        pytest.skip(reason)
    jars = str(peer.cache() / "lib" / "*")
    source = HERE / "java" / "SyncSlots.java"
    subprocess.run(["javac", "-cp", jars, "-d", str(tmp_path), str(source)], check=True)
    drawn = random.Random(5)
    streams = [stream_of(drawn) for _ in range(10_000)]
    command = [*peer.java(), "-cp", f"{jars}:{tmp_path}", "org.apache.kafka.connect.mirror.SyncSlots"]
    done = subprocess.run(command, input="\n".join(streams) + "\n", capture_output=True, text=True, check=True)
    for stream, line in zip(streams, done.stdout.splitlines(), strict=True):
        slots, _, translated = line.partition("|")
        store = store_of(stream)
        texts = groupby(slots.split())
        assert shown(store) == " ".join(f"{text}*{len(list(same))}" for text, same in texts), stream
        assert translations(store, translated) == translated.strip(), stream


def stream_of(drawn: random.Random) -> str:
    upstream, downstream, step = drawn.randrange(5), drawn.randrange(5), drawn.choice((1, 100, 1000, 1 << 40))
    found = []
    for _ in range(drawn.randrange(1, 200)):
        found.append(f"{upstream}:{downstream}")
        upstream = max(0, upstream - 50) if drawn.random() < 0.01 else upstream + drawn.randrange(1, step + 1)
        downstream += drawn.randrange(1, min(step, 200) + 1)
    return " ".join(found)


def test_nothing_is_translated_before_the_topic_was_read_or_of_what_has_no_sync() -> None:
    store = OffsetSyncStore()
    store.add(OffsetSync(PLACE, Offset(1), Offset(1)))
    assert store.translate(PLACE, 1) is None
    store.read_to_end()
    assert store.translate(PLACE, 1) == 1
    assert store.translate(TopicPartition("other", 0), 1) is None


def test_without_checkpoints_of_before_only_the_newest_sync_counts_at_the_start() -> None:
    store = OffsetSyncStore(keeps_history=False)
    for offset in (1, 100, 200):
        store.add(OffsetSync(PLACE, Offset(offset), Offset(offset)))
    store.read_to_end()
    assert (store.translate(PLACE, 150), store.translate(PLACE, 201)) == (-1, 201)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 5)), min_size=1, max_size=300),
    st.integers(0, 60_000),
    st.integers(0, 50),
)
def test_a_translation_is_never_ahead_of_what_was_read(steps: list[tuple[int, int]], asked: int, lag_max: int) -> None:
    """Upstream has gaps, as transactions make them; each record that arrives is told where the plan says so."""
    plan, store = SyncPlan(lag_max), OffsetSyncStore()
    store.read_to_end()
    arrived: list[tuple[int, int]] = []
    upstream, downstream = 0, 0
    for gap, _ in steps:
        upstream, downstream = upstream + gap, downstream + 1
        arrived.append((upstream, downstream))
        sync = plan.arrived(OffsetSync(PLACE, Offset(upstream), Offset(downstream)))
        if sync is not None:
            store.add(sync)
    for each in plan.take_pending().values():
        store.add(each)
    found = store.translate(PLACE, asked)
    assert found is not None
    unread = [down for up, down in arrived if up >= asked]
    if unread:  # whoever goes on there on the target reads it
        assert found <= unread[0]


def test_few_records_are_told_and_the_last_of_each_partition_with_a_commit() -> None:
    plan = SyncPlan(100)
    told = [
        offset for offset in range(1000) if plan.arrived(OffsetSync(PLACE, Offset(offset), Offset(offset))) is not None
    ]
    assert told == [0, *range(101, 1000, 101)]
    assert [each.upstream for each in plan.take_pending().values()] == [999]
    assert not plan.take_pending()


def test_a_gap_upstream_and_a_step_back_downstream_are_told_at_once() -> None:
    plan = SyncPlan(100)
    for upstream, downstream, is_told in ((5, 9, True), (6, 10, False), (8, 11, True), (9, 3, True), (10, 4, False)):
        found = plan.arrived(OffsetSync(PLACE, Offset(upstream), Offset(downstream)))
        assert (found is not None) is is_told, upstream


@given(
    st.integers(0, 50),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 40), st.booleans()), min_size=1, max_size=30
    ),
)
def test_records_of_a_batch_are_told_as_those_one_by_one(
    lag_max: int, pieces: list[tuple[int, int, int, bool]]
) -> None:
    whole, single = SyncPlan(lag_max), SyncPlan(lag_max)
    upstream = downstream = 0
    for gap, other, count, commits in pieces:
        upstream, downstream = upstream + gap, downstream + other
        told = whole.arrived_batch(PLACE, upstream, downstream, count)
        syncs = [OffsetSync(PLACE, Offset(upstream + row), Offset(downstream + row)) for row in range(count)]
        assert told == [each for each in syncs if single.arrived(each) is not None]
        upstream, downstream = upstream + count, downstream + count
        if commits:
            assert whole.take_pending() == single.take_pending()
    assert whole.take_pending() == single.take_pending()

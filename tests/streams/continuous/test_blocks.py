"""Blocks of columns on hosts: what leaves is what records alone would have made, in every partition's order."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.streams import BlockRecords, Executor, StreamsBuilder
from ottla.wire import Record, build_batch
from tests.streams.continuous.worlds import NOW_MS, WAIT_SECONDS_MAX, World, counting
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


def given(count: int, *, headers: bool) -> list[Record]:
    """Return records some of which have no key, no value, and a time before the one ahead of them."""
    return [
        Record(
            0,
            NOW_MS + number - 50 * (number % 7 == 0),
            None if number % 11 == 0 else f"key-{number % 13}".encode(),
            None if number % 17 == 0 else f"Some text {number}".encode(),
            (("h", b"%d" % number),) if headers and number % 3 == 0 else (),
        )
        for number in range(count)
    ]


@BOTH
@pytest.mark.parametrize("headers", [False, True], ids=["plain", "headers"])
def test_every_record_of_a_block_leaves_as_it_would_alone(world: World, guarantee: str, headers: bool) -> None:
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(world.name).map_values("upper(value)").to(world.out)
    records = given(1500, headers=headers)
    for first in range(0, 1500, 300):
        batch = bytes(build_batch(records[first : first + 300]))
        world.client.produce({TopicPartition(world.name, 0): batch})
    world.application(builder.build(), ThreadHostJobs(), processing_guarantee=guarantee).start()
    until(lambda: len(world.read(world.out)) >= 1500, "every result", seconds=WAIT_SECONDS_MAX)
    wanted: dict[bytes | None, list[Any]] = {}
    for each in records:
        value = None if each.value is None else each.value.upper()
        wanted.setdefault(each.key, []).append((value, each.timestamp, tuple(each.headers)))
    found: dict[bytes | None, list[Any]] = {}
    for each in world.read(world.out):
        found.setdefault(each.key, []).append((each.value, each.timestamp, tuple(each.headers)))
    assert found == wanted


@BOTH
def test_counts_of_blocks_are_those_of_their_words_through_restarts(
    world: World, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[int] = []
    process_block = Executor.process_block

    def counted(self: Executor, source: str, block: BlockRecords) -> None:
        blocks.append(len(block))
        process_block(self, source, block)

    monkeypatch.setattr(Executor, "process_block", counted)
    for part in range(2):
        world.feed(*[f"w{number % 5} every" for number in range(700)], partition=part)
        application = world.application(counting(world.name), ThreadHostJobs(), processing_guarantee=guarantee)
        application.start()
        total = 700 * (part + 1)
        world.await_counts(every=total, **{f"w{number}": total // 5 for number in range(5)})
        application.close()
    assert blocks and min(blocks) >= 128

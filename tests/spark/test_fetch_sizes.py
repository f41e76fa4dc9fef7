"""What a Fetch asks for, where a task wants a part of what waits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from ottla.base import Millis, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.spark.source.client_pool import pooled_client
from ottla.spark.source.columns import SCHEMA
from ottla.spark.source.fetch_sizes import BYTES_MIN, TOPICS_MAX, FetchSizes
from ottla.spark.source.options import read_options
from ottla.spark.source.positions import Stretch
from ottla.spark.source.reader import read_range
from ottla.wire import Record, build_batch
from tests.spark.conftest import create_topic

if TYPE_CHECKING:
    from ottla.spark.source.options import ReadOptions

FULL = 4 << 20
TWO_COLUMNS = StructType([field for field in SCHEMA.fields if field.name in ("value", "offset")])
pytestmark = pytest.mark.spark


def test_a_topic_that_was_never_read_is_asked_for_all_that_there_is_room_for() -> None:
    assert FetchSizes().wanted_bytes("t", offsets=1, bytes_max=FULL) == FULL


def test_so_much_is_asked_for_as_the_offsets_before_needed_and_never_more_than_allowed() -> None:
    sizes = FetchSizes()
    sizes.saw("t", offsets=1000, size_bytes=100_000)
    assert 100 * 100 <= sizes.wanted_bytes("t", offsets=100, bytes_max=FULL) <= 100 * 110 + BYTES_MIN
    assert sizes.wanted_bytes("t", offsets=1 << 40, bytes_max=FULL) == FULL
    assert sizes.wanted_bytes("t", offsets=1, bytes_max=1000) == 1000
    assert sizes.wanted_bytes("other", offsets=1, bytes_max=FULL) == FULL
    sizes.saw("t", offsets=1 << 40, size_bytes=100)
    assert sizes.wanted_bytes("t", offsets=100, bytes_max=FULL) == BYTES_MIN


def test_topics_that_were_seen_long_ago_are_forgotten() -> None:
    sizes = FetchSizes()
    for number in range(TOPICS_MAX):
        sizes.saw(f"t{number}", offsets=1, size_bytes=1)
    sizes.saw("t0", offsets=1, size_bytes=1)
    sizes.saw("one more", offsets=1, size_bytes=1)
    asked = {name: sizes.wanted_bytes(name, offsets=1, bytes_max=FULL) for name in ("t0", "t1", "t2", "one more")}
    assert asked == {"t0": BYTES_MIN + 1, "t1": FULL, "t2": BYTES_MIN + 1, "one more": BYTES_MIN + 1}


def options_of(broker: str, topic: str) -> ReadOptions:
    return read_options({"kafka.bootstrap.servers": broker, "subscribe": topic}, streaming=False)


def offsets_read(wanted: Stretch, options: ReadOptions) -> list[int]:
    return [offset for batch in read_range(wanted, TWO_COLUMNS, options) for offset in batch["offset"].to_pylist()]


def test_a_later_task_asks_for_its_part_and_reads_it_whole_where_records_are_larger_than_those_before(
    broker: str, client: BlockingClient
) -> None:
    topic = create_topic(client, "fetch-sizes", 1)
    place = TopicPartition(topic, 0)
    for size, batches in ((100, 40), (20_000, 40)):
        records = [Record(timestamp=Millis(1), key=None, value=b"x" * size, headers=()) for _ in range(25)]
        for _ in range(batches):
            client.produce({place: bytes(build_batch(records))})
    options = options_of(broker, topic)

    def asked(offsets: int) -> int:
        with pooled_client(options.connecting, reading=True) as pooled:
            return pooled.sizes.wanted_bytes(topic, offsets=offsets, bytes_max=options.fetch_bytes)

    bounds = [7, 990, 1010, 1011, 1999, 2000]
    assert offsets_read(Stretch(place, Offset(0), Offset(7)), options) == list(range(7))
    assert asked(7) < 2 * BYTES_MIN
    for start, end in pairwise(bounds):
        assert offsets_read(Stretch(place, Offset(start), Offset(end)), options) == list(range(start, end))
    assert asked(10) > 10 * 20_000

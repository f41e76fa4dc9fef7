"""The console's values: decoders, history, ages, windows of a search, figures and findings."""

from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal
from random import Random

import cbor2
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import Millis, Offset, TopicPartition
from ottla.console.figures.forecast import forecast
from ottla.console.figures.history import Bucket, History
from ottla.console.figures.offset_times import OffsetTimes
from ottla.console.figures.partition_lags import PartitionLags
from ottla.console.figures.samples import BrokerSample, GroupSample, PartitionSample, Sample, topic_figures
from ottla.console.figures.views import KeptSummary, Seen, findings, group_row, overview, why_behind
from ottla.console.records.decoding import decode, registry_frame
from ottla.console.records.scan_plan import Limits, Progress, newest_first, reason_to_end, windows_backwards
from ottla.wire import Record

ORDERS_0, ORDERS_1, ORDERS_2 = (TopicPartition("orders", each) for each in range(3))


@pytest.mark.parametrize(
    ("data", "decoder", "value"),
    [
        (None, "null", None),
        (b'{"a": 1}', "json", {"a": 1}),
        (b"42", "json", 42),
        (b"hello", "text", "hello"),
        (b"\x00\x00\x00\x07", "int32", 7),
        (b"\xff\xff\xff\xff\xff\xff\xff\xfe", "int64", -2),
        (b"\x00\x00\x00\x00\x05\x01", "hex", "00 00 00 00 05 01"),
        (b"", "text", ""),
        (msgpack.packb({"a": [1, None, b"\xff"], 7: "x"}), "msgpack", {"a": [1, None, "/w=="], "7": "x"}),
        (cbor2.dumps({"a": Decimal("1.5"), "b": [b"\xff"]}), "cbor", {"a": "1.5", "b": ["/w=="]}),
    ],
)
def test_bytes_are_what_the_first_decoder_says_that_fits(data: bytes | None, decoder: str, value: object) -> None:
    found = decode(data)
    assert (found.decoder, found.value) == (decoder, value)


def test_a_decoder_that_is_asked_for_says_why_it_does_not_fit() -> None:
    found = decode(b"\xffabc", "text")
    assert found.decoder == "int32" and found.attempts[0].reason == "not UTF-8: byte 0 is 0xff"


HOSTILE = {
    "lists that never end": b"\x9f" * 30_000,
    "a list of 2^63": b"\x9b\x7f" + b"\xff" * 7,
    "bytes of 2^63": b"\x5b\x7f" + b"\xff" * 7,
    "a list that holds itself": b"\xd8\x1c\x81\xd8\x1d\x00",
    "shared values, doubled a hundred times": b"\x82\xd8\x1c\x80" + b"\xd8\x1c\x82\xd8\x1d\x00\xd8\x1d\x00" * 100,
    "texts that stand for others": b"\xd9\x01\x00\x82\x63abc\xd8\x19\x00",
    "maps in maps": b"\x81\xa1" * 3000,
    "a map of 2^32": b"\xdf\xff\xff\xff\xff",
    "lists in lists": b"\x91" * 30_000 + b"\xc0",
    "a number of a gigabyte": b"\xc2\x5a\x3f\xff\xff\xff",
    "a fraction beyond measure": b"\xc4\x82\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\x01",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("decoder", ["msgpack", "cbor", None])
def test_hostile_bytes_are_told_why_they_are_none(name: str, decoder: str | None) -> None:
    began_s = time.process_time()
    found = decode(HOSTILE[name], decoder)
    assert len(str(found.value)) < 4 * len(HOSTILE[name]) + 100
    assert time.process_time() - began_s < 2
    if decoder is not None:
        assert found.decoder != decoder and found.attempts[0].decoder == decoder


def test_what_is_asked_for_may_be_a_single_value_and_has_nothing_behind_it() -> None:
    assert decode(b"\xcd\x01\x00", "msgpack").value == 256
    assert decode(b"\x19\x01\x00", "cbor").value == 256
    assert "bytes follow" in decode(b"\xa1\x01\x02extra", "cbor").attempts[0].reason
    assert decode(b"\x81\x00\x00\x01\x02").decoder == "hex"  # a list of one, and then something else


def bytes_free(*left: float, every_s: int = 120) -> list[Bucket]:
    return [Bucket(index * every_s * 1000, each, each, each) for index, each in enumerate(left)]


def test_a_disk_that_fills_steadily_has_a_day_on_which_it_is_full() -> None:
    points = bytes_free(*(1000.0 - 10 * each for each in range(20)))
    found = forecast(points, points[-1].at_ms)
    assert found is not None and found.full_in_s == pytest.approx(810 / 10 * 120) and found.seen_s == 19 * 120


@pytest.mark.parametrize(
    "left",
    [
        (1000.0,) * 30,
        tuple(1000.0 + each for each in range(30)),
        tuple(1000.0 - 100 * (each % 5) for each in range(30)),  # retention empties it as fast as it fills
        (1000.0, 900.0, 800.0),
    ],
)
def test_a_disk_that_does_not_fill_has_none(left: tuple[float, ...]) -> None:
    points = bytes_free(*left)
    assert forecast(points, points[-1].at_ms) is None


def test_an_hour_of_lag_is_kept_by_partition_a_point_a_minute() -> None:
    lags = PartitionLags()
    for index in range(12 * 90):  # 90 minutes, each 5 s
        lags.add(index * 5_000, {"g": {ORDERS_0: index // 12, ORDERS_1: None}})
    assert lags.of("g", ORDERS_0) == list(range(30, 90)) and lags.of("g", ORDERS_1) == []
    lags.add(91 * 60_000, {"h": {ORDERS_0: 1}})
    assert lags.of("g", ORDERS_0) == [] and lags.of("h", ORDERS_0) == [1]


def test_a_registrys_frame_is_known_by_its_first_byte() -> None:
    assert registry_frame(b"\x00\x00\x00\x01\x02rest") == 258
    assert registry_frame(b"\x01\x00\x00\x01\x02") is None and registry_frame(b"\x00\x00") is None


@given(st.binary(max_size=40))
def test_any_bytes_have_a_decoder(data: bytes) -> None:
    assert decode(data).decoder in ("json", "text", "msgpack", "cbor", "int32", "int64", "hex")


def test_history_keeps_an_hour_as_it_was_and_older_points_in_coarse_buckets() -> None:
    history = History()
    for index in range(3000):  # 250 minutes, each 5 s
        history.add("lag/g", index * 5_000, float(index))
    last = 2999 * 5_000
    fine = history.read("lag/g", last - 60_000, last)
    assert [each.last for each in fine] == [float(each) for each in range(2987, 3000)]
    coarse = history.read("lag/g", 0, last)
    assert coarse[0].at_ms == 0 and coarse[-1].last == 2999.0 and len(coarse) <= 600
    assert coarse[0].least == 0.0 and max(each.most for each in coarse) == 2999.0


def test_the_series_that_changed_longest_ago_leaves_where_there_are_too_many() -> None:
    history = History(series_max=2)
    history.add("a", 0, 1)
    history.add("b", 5_000, 1)
    history.add("a", 10_000, 2)
    history.add("b", 10_000, 1)
    history.add("c", 15_000, 1)
    assert history.names() == ["a", "b"] and history.newest("c") == 1
    history.add("c", 20_000, 2)
    assert history.names() == ["a", "c"] and history.newest("b") == 1


def test_thousands_of_series_that_stand_still_drive_none_out() -> None:
    history = History(series_max=5)
    for at in range(20):
        for index in range(1000):
            history.add(f"lag/{index}", at * 5_000, 7)
        history.add("lag/moves", at * 5_000, at)
    assert len(history.names()) == 5 and len(history.read("lag/moves", 0, 100_000)) == 19


def test_a_clock_set_back_adds_to_the_newest_bucket() -> None:
    history = History()
    history.add("a", 100_000, 1)
    history.add("a", 50_000, 9)
    assert [(each.last, each.most) for each in history.read("a", 0, 200_000)] == [(9.0, 9.0)]


def test_the_age_of_a_committed_offset_is_that_of_the_first_record_not_read() -> None:
    times = OffsetTimes()
    for at, end in ((0, 100), (5_000, 100), (10_000, 150), (15_000, 200)):
        times.add(at, {ORDERS_0: end})
    assert times.age_ms(ORDERS_0, 200, 20_000) == 0
    assert times.age_ms(ORDERS_0, 150, 20_000) == 10_000
    assert times.age_ms(ORDERS_0, 120, 20_000) == 15_000
    assert times.age_ms(ORDERS_0, 50, 20_000) is None
    times.add(20_000, {ORDERS_0: 5})  # made anew under its name
    assert times.age_ms(ORDERS_0, 3, 25_000) is None


def test_windows_backwards_come_to_the_beginning_and_grow() -> None:
    starts, until = {0: 100, 1: 0}, {0: 1000, 1: 0}
    seen, turn = [], 0
    while found := windows_backwards(starts, until, wanted=100, turn=turn):
        seen.append(found[0])
        until[0] = found[0].start
        turn += 1
    assert [(each.start, each.end) for each in seen] == [(900, 1000), (500, 900), (100, 500)]


def test_a_search_ends_at_the_first_limit_that_it_reaches() -> None:
    limits = Limits(hits=2, records=10, bytes=1 << 20, seconds=5)
    assert reason_to_end(Progress(hits=1, records=9), limits, 4) is None
    assert reason_to_end(Progress(hits=2), limits, 0) == "2 hits"
    assert reason_to_end(Progress(records=10), limits, 0) == "10 records"
    assert reason_to_end(Progress(bytes=1 << 20), limits, 0) == "1 MiB"
    assert reason_to_end(Progress(), limits, 5) == "5 s"


ROWS = st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 20), max_size=8).map(list), max_size=4)


@given(times=ROWS, room=st.integers(0, 12))
def test_what_finds_no_room_is_a_partitions_older_part(times: dict[int, list[int]], room: int) -> None:
    rows = {index: [Record(Offset(at), Millis(time)) for at, time in enumerate(each)] for index, each in times.items()}
    shown, left_out = newest_first(rows, room)
    assert len(shown) == min(room, sum(map(len, rows.values())))
    for index, each in rows.items():
        offsets = sorted(record.offset for partition, record in shown if partition == index)
        first = left_out[index] + 1 if index in left_out else 0
        assert offsets == list(range(first, len(each)))


def sample(
    at_ms: int, ends: dict[TopicPartition, int], committed: dict[TopicPartition, int], state: str = "Stable"
) -> Sample:
    topics: dict[str, dict[int, PartitionSample]] = {}
    for each, end in ends.items():
        topics.setdefault(each.topic, {})[each.partition] = PartitionSample(1, (1, 2), (1, 2), 0, end)
    return Sample(
        at_ms=at_ms,
        cluster_id="c",
        controller=1,
        brokers={1: BrokerSample("a", 9092, None, 10, 100, 50)},
        topics=topics,
        internal=frozenset(),
        groups={"g": GroupSample(state, "consumer", "consumer", committed)},
    )


def seen(old: Sample, new: Sample, rate: float | None = None) -> Seen:
    times = OffsetTimes()
    for each in (old, new):
        times.add(each.at_ms, each.ends())
    history = History()
    if rate is not None:
        history.add("consumed/g", new.at_ms, rate)
    return Seen(new, old, history, times, 5.0)


def test_rates_are_of_two_samples_and_a_topic_made_anew_begins_at_nothing() -> None:
    old, new = sample(0, {ORDERS_0: 100, ORDERS_1: 50}, {}), sample(10_000, {ORDERS_0: 300, ORDERS_1: 10}, {})
    (figures,) = topic_figures(new, old)
    assert (figures.rate, figures.records, figures.replicas) == (20.0, 310, 2)
    assert topic_figures(new, None)[0].rate is None


def test_a_group_that_consumes_less_than_comes_in_is_never_caught_up() -> None:
    old = sample(0, {ORDERS_0: 0}, {ORDERS_0: 0})
    new = sample(600_000, {ORDERS_0: 600_000}, {ORDERS_0: 60})
    row = group_row(seen(old, new, rate=0.1), "g", new.groups["g"])
    assert (row["lag"], row["caught_up_in_s"]) == (599_940, -1)


def test_one_partition_with_most_of_the_lag_is_named() -> None:
    ends = {ORDERS_0: 10_000, ORDERS_1: 10_000, ORDERS_2: 10_000}
    old = sample(0, dict.fromkeys(ends, 1), dict.fromkeys(ends, 0))
    new = sample(600_000, ends, {ORDERS_0: 10_000, ORDERS_1: 1, ORDERS_2: 10_000})
    members = {str(each): frozenset({each}) for each in ends}
    found = why_behind(seen(old, new, rate=33.0), "g", members)
    assert found is not None and found.startswith("Partition orders-1 has 100% of the lag")


FOUR = tuple(TopicPartition("orders", each) for each in range(4))
TWO_MEMBERS = {"a": frozenset(FOUR[:2]), "b": frozenset(FOUR[2:])}
ENDS = dict.fromkeys(FOUR, 10_000)


@pytest.mark.parametrize(
    ("committed", "members", "words"),
    [
        (
            (10_000, 10_000, 9_000, 8_000),
            TWO_MEMBERS,
            "100% of the lag is in the 2 partitions of member b, which is slower",
        ),
        ((10_000, 9_990, 0, 0), TWO_MEMBERS, "2 partitions of member b, and none of their offsets moves"),
        ((5_000, 6_000, 5_500, 5_000), TWO_MEMBERS, "2 members share 4 partitions"),
        ((5_000, 6_000, 5_500, 5_000), {str(each): frozenset({each}) for each in FOUR}, "more partitions"),
        ((1, 1, 1, 1), TWO_MEMBERS, "It reads nothing: 2 members are there"),
        ((10_000, 10_000, 10_000, 10), TWO_MEMBERS, "Partition orders-3 has 100% of the lag"),
        ((10_000, 10_000, 10_000, 10_000), TWO_MEMBERS, None),
    ],
)
def test_why_a_group_is_behind_names_what_is_the_matter(
    committed: tuple[int, ...], members: dict[str, frozenset[TopicPartition]], words: str | None
) -> None:
    old = sample(0, dict.fromkeys(FOUR, 1), dict.fromkeys(FOUR, 0))
    new = sample(600_000, ENDS, dict(zip(FOUR, committed, strict=True)))
    found = why_behind(seen(old, new, rate=(sum(committed) - 4) / 600), "g", members)
    assert found is None if words is None else found is not None and words in found, found


@pytest.mark.parametrize("seed", range(50))
def test_a_healthy_group_is_told_nothing_of(seed: int) -> None:
    random = Random(seed)
    ends = {each: 10_000 + random.randrange(5_000) for each in FOUR}
    committed = {each: end - random.randrange(200) for each, end in ends.items()}
    old = sample(0, dict.fromkeys(FOUR, 10_000), dict.fromkeys(FOUR, 9_900))
    new = sample(random.choice((5_000, 60_000)), ends, committed)
    assert why_behind(seen(old, new, rate=random.uniform(50, 5_000)), "g", TWO_MEMBERS) is None


def test_a_group_without_members_is_a_finding_and_one_that_keeps_up_is_none() -> None:
    ends = {ORDERS_0: 100}
    quiet = seen(sample(0, ends, ends), sample(5_000, ends, ends))
    assert findings(quiet) == [] and overview(quiet).with_findings()["verdict"] == "Working."
    new = sample(5_000, ends, {ORDERS_0: 40}, "Empty")
    (found,) = findings(seen(sample(0, ends, {ORDERS_0: 40}, "Empty"), new))
    assert found.title == "g has nobody who reads" and "60 records wait" in found.text


def test_partitions_without_a_leader_and_copies_behind_are_found() -> None:
    base = sample(0, {ORDERS_0: 1, ORDERS_1: 1}, {})
    topics = {
        "orders": {0: PartitionSample(-1, (1, 2), ()), 1: PartitionSample(1, (1, 2), (1,), 0, 1)},
        "other": {0: PartitionSample(1, (1, 2), (1,), 0, 1)},
    }
    broken = replace(base, topics=topics)
    titles = [each.title for each in findings(seen(base, broken))]
    assert titles == ["orders has partitions without a leader", "other has copies that are behind"]
    assert str(overview(seen(base, broken)).with_findings()["verdict"]).startswith("Parts cannot be reached")


class Counting(History):
    """A history that counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.read_of: list[str] = []

    def read(self, name: str, from_ms: int, to_ms: int, points: int = 600) -> list[Bucket]:
        self.read_of.append(name)
        return super().read(name, from_ms, to_ms, points)


def test_a_brokers_disk_is_forecast_once_for_an_answer() -> None:
    ends = {ORDERS_0: 100}
    found = replace(seen(sample(0, ends, ends), sample(5_000, ends, ends)), history=Counting())
    overview(found)
    assert isinstance(found.history, Counting)
    disks = [name for name in found.history.read_of if name.startswith("disk/")]
    assert disks == [f"disk/{node}" for node in found.sample.brokers] and disks


def test_a_summary_is_made_once_for_a_sample() -> None:
    ends = {ORDERS_0: 100}
    first = seen(sample(0, ends, ends), sample(5_000, ends, ends))
    kept = KeptSummary()
    assert kept.of(first) is kept.of(replace(first, period_s=10.0))
    moved = seen(first.sample, sample(10_000, {ORDERS_0: 200}, ends))
    assert kept.of(moved).figures["lag"] == 100 and kept.of(first).figures["lag"] == 0

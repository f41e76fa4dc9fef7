"""How the driver shares out offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.base import Offset, TopicPartition
from ottla.spark.source.positions import Multiples, Stretch, limited, offsets_of_json, offsets_to_json, split_ranges

ends = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1)


def at(offsets: dict[int, int]) -> dict[TopicPartition, Offset]:
    return {TopicPartition("t", partition): Offset(offset) for partition, offset in offsets.items()}


@given(waiting=ends, rows=st.integers(1, 500))
def test_a_limited_batch_moves_everyone_and_passes_nobodys_end(waiting: dict[int, tuple[int, int]], rows: int) -> None:
    start = at({partition: begin for partition, (begin, _) in waiting.items()})
    latest = at({partition: begin + more for partition, (begin, more) in waiting.items()})
    found = limited(start, latest, rows)
    moved = {each: found[each] - start[each] for each in found}
    assert all(start[each] <= found[each] <= latest[each] for each in found)
    assert all(moved[each] > 0 for each in found if latest[each] > start[each])
    assert sum(moved.values()) <= rows + len(waiting)  # those with less than one row round up


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=6), wanted=st.integers(1, 20))
def test_split_ranges_cover_everything_once(sizes: list[int], wanted: int) -> None:
    ranges = [Stretch(TopicPartition("t", n), Offset(10), Offset(10 + size)) for n, size in enumerate(sizes)]
    split = split_ranges(ranges, wanted)
    covered = [(each.partition, offset) for each in split for offset in range(each.start, each.end)]
    assert covered == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert len(split) >= min(wanted, sum(sizes))
    assert all(each.end > each.start for each in split)


def test_offsets_are_written_as_sparks_kafka_connector_writes_them() -> None:
    offsets = at({1: 5, 0: 3})
    assert offsets_to_json(offsets) == {"t": {"0": 3, "1": 5}}
    assert offsets_of_json(offsets_to_json(offsets)) == offsets


@given(waiting=ends, multiple=st.integers(1, 50), rows=st.one_of(st.none(), st.integers(1, 500)))
def test_multiples_end_batches_at_whole_multiples_and_pass_nobodys_end(
    waiting: dict[int, tuple[int, int]], multiple: int, rows: int | None
) -> None:
    start = at({partition: begin for partition, (begin, _) in waiting.items()})
    latest = at({partition: begin + more for partition, (begin, more) in waiting.items()})
    found = Multiples(multiple, None).ends(start, latest, rows, 0.0)
    moved = {each: found[each] - start[each] for each in found}
    assert all(found[each] <= latest[each] and moved[each] % multiple == 0 for each in found)
    assert all(moved[each] > 0 for each in found if latest[each] - start[each] >= multiple)


def test_what_is_less_than_a_multiple_waits_until_the_delay_is_over_or_others_come() -> None:
    multiples = Multiples(10, 5000)
    assert multiples.ends(at({0: 0}), at({0: 7}), None, 100.0) == at({0: 0})
    assert multiples.ends(at({0: 0}), at({0: 8}), None, 104.9) == at({0: 0})
    assert multiples.ends(at({0: 0}), at({0: 8}), None, 105.0) == at({0: 8})
    assert multiples.ends(at({0: 8}), at({0: 9}), None, 105.1) == at({0: 8})
    assert multiples.ends(at({0: 8}), at({0: 39}), None, 106.0) == at({0: 38})

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import KafkaError, NodeId
from ottla.metadata import Broker, decide
from tests.metadata.clusters import uuid


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> Broker:
    return Broker(NodeId(broker_id), 0, uuid(broker_id), rack=rack, fenced=fenced)


@given(
    racks=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_replicas_never_share_a_broker_and_share_a_rack_only_for_want_of_racks(
    racks: list[int], partitions: int, factor: int, seed: int
) -> None:
    brokers = [broker(10 * rack + index, f"r{rack}") for rack, size in enumerate(racks) for index in range(size)]
    factor = min(factor, len(brokers))
    placed = decide.place(brokers, partitions=partitions, replication_factor=factor, rng=Random(seed))
    rack_of = {each.id: each.rack for each in brokers}
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert len({rack_of[each] for each in replicas}) == min(factor, len(racks))


@pytest.mark.parametrize("racks", [[None] * 6, ["a", "b", "c"] * 2])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_leaders_and_replicas_are_spread_evenly(racks: list[str | None], factor: int) -> None:
    brokers = [broker(index, rack) for index, rack in enumerate(racks)]
    placed = decide.place(brokers, partitions=36, replication_factor=factor, rng=Random(1))
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {6}
    held = Counter(each for replicas in placed for each in replicas)
    assert max(held.values()) - min(held.values()) <= 6


def test_a_fenced_broker_never_leads_and_holds_replicas_only_where_it_must() -> None:
    brokers = [broker(1), broker(2), broker(3, fenced=True)]
    two = decide.place(brokers, partitions=12, replication_factor=2, rng=Random(1))
    assert all(3 not in replicas for replicas in two)
    three = decide.place(brokers, partitions=12, replication_factor=3, rng=Random(1))
    assert all(replicas[-1] == 3 for replicas in three)


def test_a_broker_whose_directories_are_cordoned_gets_nothing() -> None:
    cordoned = replace(broker(1), log_dirs=(uuid(1),), cordoned_log_dirs=(uuid(1),))
    assert decide.place([cordoned, broker(2)], partitions=3, replication_factor=1, rng=Random(1)) == [(2,)] * 3


def test_without_an_unfenced_broker_nothing_is_placed() -> None:
    with pytest.raises(KafkaError):
        decide.place([broker(1, fenced=True)], partitions=1, replication_factor=1, rng=Random(1))

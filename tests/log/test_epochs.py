"""Leader epochs: where they begin, where they end, and what truncation leaves of them (KIP-101, KIP-279)."""

from __future__ import annotations

import pytest

from ottla.base import CorruptionError, Offset
from ottla.log import OsDisk
from ottla.log.leader_epochs import LeaderEpochs, read_epochs


def epochs(*pairs: tuple[int, int], end: int = 100) -> LeaderEpochs:
    found = LeaderEpochs()
    for epoch, offset in pairs:
        found.assign(epoch, offset)
    found.log_end_offset = Offset(end)
    return found


def pairs(found: LeaderEpochs) -> list[tuple[int, int]]:
    return [tuple(each) for each in found.starts]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 10)), (3, (1, 10)), (4, (4, 15)), (5, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins(asked: int, answer: tuple[int, int]) -> None:
    assert tuple(epochs((1, 5), (4, 10), end=15).end_offset_for(asked)) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert tuple(epochs().end_offset_for(0)) == (-1, -1)


def test_a_new_epoch_takes_the_place_of_what_lies_beyond_it() -> None:
    found = epochs((1, 5), (4, 10), (6, 20))
    found.assign(5, 15)
    assert pairs(found) == [(1, 5), (4, 10), (5, 15)]
    found.assign(5, 18)
    assert pairs(found)[-1] == (5, 15)


def test_truncation_from_the_end_and_from_the_start() -> None:
    found = epochs((1, 5), (4, 10), (6, 20))
    found.truncate_from_end(20)
    assert pairs(found) == [(1, 5), (4, 10)]
    found.truncate_from_start(12)
    assert pairs(found) == [(4, 12)]
    found.truncate_from_start(12)
    assert pairs(found) == [(4, 12)]


def test_the_epoch_of_an_offset() -> None:
    found = epochs((1, 5), (4, 10))
    assert [found.epoch_of(each) for each in (4, 5, 9, 10, 50)] == [-1, 1, 1, 4, 4]


def test_the_file_is_kafkas(tmp_path: object) -> None:
    assert epochs((1, 5), (4, 10)).encoded() == b"0\n2\n1 5\n4 10\n"
    path = f"{tmp_path}/leader-epoch-checkpoint"
    file = OsDisk().open(path, create=True)
    file.pwrite(0, b"0\n2\n1 5\n4 10\n")
    assert pairs(read_epochs(OsDisk(), path)) == [(1, 5), (4, 10)]
    for damage in (b"0\n3\n1 5\n", b"9\n0\n", b"0\n", b"0\n1\nx y\n"):
        file.truncate(0)
        file.pwrite(0, damage)
        with pytest.raises(CorruptionError):
            read_epochs(OsDisk(), path)

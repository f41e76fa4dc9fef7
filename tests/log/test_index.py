"""The index files: Kafka's bytes, and looking things up in them."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest

from ottla.log import OsDisk
from ottla.log.index import OFFSET_ENTRY, PENDING_MAX, TIME_ENTRY, Index


@pytest.mark.parametrize("count", [0, 1, PENDING_MAX - 1, PENDING_MAX, 700, 2000])
def test_the_entry_at_or_below_a_key_is_found_written_or_not(tmp_path: Path, count: int) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", OFFSET_ENTRY, 0)
    entries = [(3 * at + 1, 100 * at) for at in range(count)]
    for entry in entries:
        index.append(*entry)
    keys = [key for key, _ in entries]
    for again in (index, None):
        found = again or Index(OsDisk(), f"{tmp_path}/i", OFFSET_ENTRY, (tmp_path / "i").stat().st_size if count else 0)
        for key in {0, 1, 2, 3, 4, count, 3 * count, 3 * count + 5}:
            at = bisect_right(keys, key)
            assert found.floor(key) == (entries[at - 1] if at else None)
        assert len(found) == count and found.last() == (entries[-1] if entries else None)
        index.write()


def test_cutting_keeps_what_lies_below(tmp_path: Path) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", TIME_ENTRY, 0)
    for at in range(1000):
        index.append(10_000 + at, 2 * at)
    index.cut(1001, field=1)
    assert len(index) == 501 and index.last() == (10_500, 1000)
    index.cut(10_000, field=0)
    assert len(index) == 0 and index.last() is None and index.floor(1 << 40) is None


def test_the_bytes_are_big_endian_pairs(tmp_path: Path) -> None:
    index = Index(OsDisk(), f"{tmp_path}/i", TIME_ENTRY, 0)
    index.append(0x0102030405060708, 0x0A0B0C0D)
    index.write()
    assert (tmp_path / "i").read_bytes() == bytes([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13])

"""Damage in what was fsynced is no torn tail, although no recovery point was stored since: the log stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base import CorruptionError
from ottla.log import OsDisk
from ottla.log.flush_mark import FLUSH_MARK_FILE, HEAD, SLOT_BYTES, flushed_end
from tests.log.records import NOW, batch
from tests.log.test_recovery import ZERO, contents, everything, opened, written

MAGIC_AT = 16


def flushed(folder: Path, count: int = 4) -> tuple[Path, int]:
    """Write and flush a log, and let its process end at once; return the file and the size of each of its batches."""
    log = written(folder, count)
    log.flush()
    log.abandon()
    path = folder / f"{ZERO}.log"
    return path, path.stat().st_size // count


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("place", [lambda size: 30, lambda size: 2 * size + 90, lambda size: 3 * size + 90])
def test_a_wrong_bit_in_what_was_flushed_is_damage_and_cuts_nothing(
    tmp_path: Path, place: Callable[[int], int]
) -> None:
    path, size = flushed(tmp_path / "t-0")
    spoil(path, place(size))
    before = path.read_bytes()
    for _ in range(2):  # a second start finds the same
        with pytest.raises(CorruptionError, match="had been flushed"):
            opened(tmp_path / "t-0")
        assert path.read_bytes() == before


@pytest.mark.parametrize("at", [*range(4), *range(8, HEAD.size)])
def test_a_wrong_bit_in_the_header_of_the_last_flushed_batch_is_damage_too(tmp_path: Path, at: int) -> None:
    path, size = flushed(tmp_path / "t-0")
    spoil(path, 3 * size + at)  # but in the low half of its offset, which no checksum covers: that passes for a gap
    if 12 <= at < MAGIC_AT:  # the epoch: no checksum covers it
        assert opened(tmp_path / "t-0").log_end_offset == 4
    else:
        with pytest.raises(CorruptionError, match="had been flushed"):
            opened(tmp_path / "t-0")


def test_what_was_appended_after_the_flush_is_cut_where_it_is_torn(tmp_path: Path) -> None:
    path, size = flushed(tmp_path / "t-0")
    log = written(tmp_path / "u-0", 8)
    log.abandon()
    path.write_bytes(path.read_bytes() + (tmp_path / "u-0" / f"{ZERO}.log").read_bytes()[4 * size : 6 * size])
    spoil(path, 5 * size + 90)
    again = opened(tmp_path / "t-0")
    assert again.log_end_offset == 5 and everything(again) == contents(5)


@pytest.mark.parametrize("is_new_epoch", [True, False])
def test_a_mark_counts_no_more_when_its_batch_was_truncated(tmp_path: Path, is_new_epoch: bool) -> None:
    log = written(tmp_path / "t-0", 4)
    log.flush()
    epoch = 7 if is_new_epoch else log.leader_epochs.latest
    log.truncate_to(1)
    for at in range(4):
        log.append(bytearray(_other(at)), leader_epoch=epoch, now_ms=1)
    log.abandon()
    assert flushed_end(OsDisk(), str(tmp_path / "t-0")) == 0
    path = tmp_path / "t-0" / f"{ZERO}.log"
    spoil(path, path.stat().st_size - 3)
    assert opened(tmp_path / "t-0").log_end_offset == 4


def _other(at: int) -> bytes:
    return bytes(batch([b"other %d" % at + b"." * 80], timestamp=NOW + at))


def test_a_mark_that_is_half_written_leaves_the_one_before(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", 2)
    log.flush()
    log.append(bytearray(_other(2)), leader_epoch=7, now_ms=1)
    log.flush()
    log.abandon()
    disk, folder = OsDisk(), str(tmp_path / "t-0")
    assert flushed_end(disk, folder) == 3
    path = tmp_path / "t-0" / FLUSH_MARK_FILE
    whole = path.read_bytes()
    assert len(whole) == 2 * SLOT_BYTES
    path.write_bytes(whole[: SLOT_BYTES + 11])
    assert flushed_end(disk, folder) == 2
    path.write_bytes(b"")
    assert flushed_end(disk, folder) == 0
    path.unlink()
    assert flushed_end(disk, folder) == 0

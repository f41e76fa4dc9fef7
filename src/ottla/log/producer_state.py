"""The producers of a log and their snapshots on disk: loading, replaying, writing, dropping.

A snapshot lies at the base offset of each of the newest segments and where the log was closed. A restart takes the newest
that reads back and replays the batches after it. A batch can be replayed without its records but for a transaction's end.

Of many producers a snapshot is not written where a segment begins, which would hold the event loop: they are frozen there,
and the next flush, which may run on a thread, writes them. A process that ends before leaves more to replay. Until it is
written no older snapshot goes, so that there always is one to begin from.

A `.txnindex` that is missing, or shorter, looks like one of a segment in which fewer transactions were aborted; without the
sum of what was written (`derived_sums.py`), as in a log that Apache Kafka wrote, nothing tells them apart. So the segment's
headers and markers are read once (`examine`), from the producers' newest snapshot on. That is Python work and may be long:
whoever has an event loop sends it to a worker process, and it changes no file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from ottla.base import CorruptionError, Millis, NoSpaceError, StorageError
from ottla.log.batch_headers import headers_between
from ottla.log.derived_sums import DerivedSums, FileSum, sum_of
from ottla.log.disk import Disk, join
from ottla.log.names import SNAPSHOT, base_offset_of, file_name
from ottla.log.producer_snapshot import decode_snapshot, encode_snapshot, write_snapshot
from ottla.log.producers import EndMarker, ProducerAppend, ProducerEntry, Producers
from ottla.log.segment import Segment
from ottla.log.types import AbortedTransaction
from ottla.wire import BatchHeader, Buffer, ControlType, control_type, iter_batch_records

__all__ = ["NOTHING_OPEN", "Doubt", "Examined", "ExaminedSegment", "ProducerState", "examine", "read_end_marker"]

AT_ONCE_MAX = 2_000
"""Producers of which a snapshot is written at once; each takes 2 µs (measured)."""
FROZEN_MAX: Final = 2
"""Snapshots that wait to be written: more where segments begin faster than they are flushed are written at once."""
_MARKER_VALUE: Final = Struct(">hi")


class ProducerState:
    """`producers`, and the snapshots of them in the log's folder."""

    __slots__ = ("_disk", "_folder", "_frozen", "_mutex", "_stale", "offsets", "producers", "sums")

    def __init__(self, disk: Disk, folder: str, expiration_ms: int, names: Iterable[str] | None = None) -> None:
        """Take the folder's snapshots; `names` are its files, where they are known."""
        self._disk = disk
        self._folder = folder
        found = [entry.name for entry in disk.scan(folder)] if names is None else names
        parsed = [base_offset_of(name) for name in found if name.endswith(SNAPSHOT)]
        self.offsets: list[int] = sorted(each[0] for each in parsed if each is not None)
        """Offsets of the snapshots on disk, ascending."""
        self.sums: dict[int, FileSum] = {}
        """Of snapshots whose content is known, by their offsets."""
        self._frozen: deque[tuple[int, dict[int, ProducerEntry]]] = deque()
        """What snapshots are still to be written of, by offset, oldest first."""
        self._mutex = disk.mutex()
        """Held by who changes which snapshots there are."""
        self._stale: list[int] = []
        """Offsets of snapshots that are dropped, and could not be removed."""
        self.producers = Producers(folder.rpartition("/")[2], expiration_ms)

    def know(self, sums: DerivedSums) -> None:
        """Believe a snapshot only where it is what was written, of those that something is known of."""
        named = {file_name(offset, SNAPSHOT): offset for offset in self.offsets}
        self.sums = {named[name]: each for name, each in sums.files.items() if name in named}

    def moved(self, folder: str) -> None:
        """Follow a rename of the folder."""
        self._folder = folder
        self.producers.name = folder.rpartition("/")[2]

    def load(self, segments: list[Segment], start: int, end: int, now_ms: Millis, *, newest: int | None = None) -> None:
        """Bring the producers to `end`, and drop the snapshots that lie elsewhere than from `start` to `end`."""
        self.adopt(self.read(segments, start, end, now_ms, newest=newest), start, end)

    def read(
        self, segments: list[Segment], start: int, end: int, now_ms: Millis, *, newest: int | None = None
    ) -> Producers:
        """Return the producers at `end`: of the newest good snapshot not beyond it (or `newest`), and the batches after.

        A snapshot holds a producer's last batch only; of what is replayed the last five are known, so that requests which
        were in flight when the process died are recognised when they are sent again. Changes nothing; raises StorageError.
        """
        producers = self.restored(start, end, now_ms, newest=newest)
        for segment in segments:
            if producers.end_offset < end and segment.size:
                _replay_segment(segment, producers, end)
        producers.end_offset = end
        return producers

    def restored(self, start: int, end: int, now_ms: Millis, *, newest: int | None = None) -> Producers:
        """Return the producers of the newest good snapshot from `start` to `end`, which tells its offset.

        None, at `start`, where there is no such snapshot. Raises StorageError.
        """
        producers = Producers(self.producers.name, self.producers.expiration_ms)
        producers.clear(min(start, end))
        for offset in reversed(self.offsets):
            if not start <= offset <= (end if newest is None else min(end, newest)):
                continue
            data = self._disk.read(self._path(offset)) or b""
            known = self.sums.get(offset)
            if (known is None or known == sum_of(data)) and _restore(
                producers, data, self._path(offset), offset, now_ms
            ):
                break
        return producers

    def adopt(self, producers: Producers, start: int, end: int) -> None:
        """Go on with these producers, of the log's records from `start` to `end`; nothing fails."""
        self.producers.take(producers)
        with self._mutex:
            self._thaw([each for each in self._frozen if start <= each[0] <= end])
            self._drop([each for each in self.offsets if not start <= each <= end])

    def replay(self, header: BatchHeader, batch: Buffer) -> list[AbortedTransaction]:
        """Take in a batch that the log holds already (its bytes only matter for control records); return what it aborted."""
        return _replay(self.producers, header, batch)

    def snapshot(self, offset: int) -> None:
        """Write a snapshot at an offset, which is where the producers have come to; raises StorageError."""
        with self._mutex:
            self._thaw([each for each in self._frozen if each[0] != offset])
            self._write(offset, self.producers)

    def snapshot_soon(self, offset: int) -> None:
        """As `snapshot`, but of many producers with the next `write_frozen`; raises StorageError."""
        if len(self.producers) <= AT_ONCE_MAX or len(self._frozen) >= FROZEN_MAX or offset in self.offsets:
            self.snapshot(offset)
        else:
            self._frozen.append((offset, self.producers.freeze()))

    def write_frozen(self) -> None:
        """Write the snapshots that wait for it, as far as there is room; may run on a thread. Raises StorageError."""
        while self._frozen:
            with self._mutex:
                if not self._frozen:
                    return
                offset, frozen = self._frozen[0]
                try:
                    self._write(offset, frozen.items())
                except NoSpaceError:
                    return
                self._frozen.popleft()

    def _thaw(self, kept: list[tuple[int, dict[int, ProducerEntry]]]) -> None:
        """Forget what waits to be written, but for these; `_mutex` is held."""
        if len(kept) < len(self._frozen):
            self._frozen.clear()
            self._frozen.extend(kept)

    def _write(self, offset: int, producers: Iterable[tuple[int, ProducerEntry]]) -> None:
        path = self._path(offset)
        self.offsets = [each for each in self.offsets if each != offset]
        data = encode_snapshot(producers)
        try:
            write_snapshot(self._disk, path, data)
        except StorageError:
            with suppress(StorageError):  # a torn one does not read back
                self._disk.unlink(path)
            raise
        self.sums[offset] = sum_of(data)
        self.offsets = sorted([*self.offsets, offset])

    def newest_path(self) -> str | None:
        """Return the newest snapshot's file."""
        return self._path(self.offsets[-1]) if self.offsets else None

    def finish(self, end: int) -> None:
        """End a recovery: drop snapshots beyond the end, and write one there."""
        with self._mutex:
            self._drop([each for each in self.offsets if each > end])
            self.settle()
        self.snapshot(end)

    def keep_only(self, bases: list[int]) -> None:
        """Drop the snapshots that are neither at a segment's base nor the newest; none while one is to be written."""
        if not self._frozen:
            with self._mutex:
                self._drop([each for each in self.offsets[:-1] if each not in bases])

    def forget_others(self, bases: list[int]) -> list[str]:
        """As `keep_only`, but only forget them; return the files to unlink."""
        if self._frozen:
            return []
        gone = [each for each in self.offsets[:-1] if each not in bases]
        self.offsets = [each for each in self.offsets if each not in gone]
        for each in gone:
            self.sums.pop(each, None)
        return [self._path(each) for each in gone]

    def clear(self, offset: int) -> None:
        """Forget every producer and drop every snapshot; the log begins at `offset`."""
        with self._mutex:
            self._thaw([])
            self._drop(self.offsets)
        self.producers.clear(offset)

    def _drop(self, offsets: list[int]) -> None:
        """Forget snapshots, and remove them if that can be done now."""
        if offsets:
            self._stale.extend(offsets)
            for each in offsets:
                self.sums.pop(each, None)
            self.offsets = [each for each in self.offsets if each not in offsets]
            with suppress(StorageError):
                self.settle()

    def settle(self) -> None:
        """Remove the snapshots that were dropped; raises StorageError, and may be tried again."""
        while self._stale:
            if self._stale[-1] not in self.offsets:  # written anew since
                self._disk.unlink(self._path(self._stale[-1]))
            self._stale.pop()

    def _path(self, offset: int) -> str:
        return join(self._folder, file_name(offset, SNAPSHOT))


def _restore(producers: Producers, data: bytes, path: str, offset: int, now_ms: Millis) -> bool:
    """Take a snapshot; False for one that was torn when the machine stopped: an older one and more replaying do as well."""
    try:
        entries = decode_snapshot(data, path)
    except CorruptionError:
        return False
    if any(max(entry.transaction_offset, _last_offset(entry)) >= offset for _, entry in entries):
        return False  # it knows what came later: it is another one's
    producers.restore(entries, offset, now_ms)
    return True


def _last_offset(entry: ProducerEntry) -> int:
    return entry.batches[-1].last_offset if entry.batches else -1


def _replay_segment(segment: Segment, producers: Producers, end: int) -> None:
    for header, position in segment.headers_from(producers.end_offset):
        if header.base_offset >= end:
            return
        if header.base_offset >= producers.end_offset:
            _replay(producers, header, segment.file.pread(position, header.size) if header.is_control else b"")


def _replay(producers: Producers, header: BatchHeader, batch: Buffer) -> list[AbortedTransaction]:
    producers.end_offset = header.next_offset
    if header.producer_id < 0:
        return []
    append = producers.prepare(header.producer_id)
    if header.is_control:
        add_marker(append, header, batch, check=False)
    else:
        append.add(header, header.base_offset, check_epoch=False, check_sequence=False)
    return producers.update(append)


def add_marker(append: ProducerAppend, header: BatchHeader, batch: Buffer, *, check: bool) -> None:
    """Note a control batch: where its record is a transaction's end, the transaction ends."""
    marker = read_end_marker(header, batch)
    if marker is not None:
        append.end_transaction(
            marker, header.producer_epoch, header.base_offset, header.max_timestamp, check_epoch=check
        )


def read_end_marker(header: BatchHeader, batch: Buffer) -> EndMarker | None:
    """Return the transaction's end that a control batch holds; None for other control records, or for none."""
    for record in iter_batch_records(batch, 0, header):
        kind = control_type(record.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT) and record.value is not None and len(record.value) >= 6:
            _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
            return EndMarker(kind == ControlType.COMMIT, coordinator_epoch)
        return None
    return None


# -- aborted transactions that no file tells of

NOTHING_OPEN = (1 << 63) - 1
"""Where the oldest open transaction begins, where there is none."""


class Doubt(NamedTuple):
    """What `examine` has to look into; holds as long as the log is not truncated (`cuts`)."""

    folder: str
    sources: tuple[tuple[int, str, int], ...]
    """Base offset, path and bytes of every segment, in order."""
    wanted: int
    """The base offset of the first one that is asked for."""
    upper_bound: int
    """Transactions that begin from here on do not matter."""
    snapshot_sums: tuple[tuple[int, FileSum], ...]
    cuts: int


class ExaminedSegment(NamedTuple):
    """What one segment says, as far as it had been written."""

    base_offset: int
    end_offset: int
    size: int
    aborted: tuple[AbortedTransaction, ...]
    open_from: int
    """Where the oldest transaction begins that is open at its end, or NOTHING_OPEN."""


class Examined(NamedTuple):
    """What came of a doubt."""

    cuts: int
    segments: tuple[ExaminedSegment, ...]


def examine(disk: Disk, doubt: Doubt) -> Examined:
    """Read what segments say from the wanted one on, until nothing is open that matters.

    Raises CorruptionError, StorageError.
    Where older segments have to be read since there is no snapshot, what they say is returned too, and all later ones are
    read, so that nobody reads them again.
    """
    state = ProducerState(disk, doubt.folder, 0)
    state.sums = dict(doubt.snapshot_sums)
    first = doubt.sources[0][0]
    producers = state.restored(first, doubt.wanted, Millis(0))  # at that time none had expired
    start = producers.end_offset
    found: list[ExaminedSegment] = []
    bases = [base for base, _, _ in doubt.sources]
    for at, (base, path, size) in enumerate(doubt.sources):
        if at + 1 < len(bases) and bases[at + 1] <= start:
            continue
        aborted: list[AbortedTransaction] = []
        end, file = base, disk.open(path)
        try:
            for header, position in headers_between(file, 0, size):
                end = header.next_offset
                if header.producer_id >= 0 and header.base_offset >= start:
                    batch = file.pread(position, header.size) if header.is_control else b""
                    aborted += _replay(producers, header, batch)
        finally:
            file.close()
        open_from = producers.first_open_offset
        oldest = NOTHING_OPEN if open_from is None else int(open_from)
        if base >= start:
            found.append(ExaminedSegment(base, end, size, tuple(aborted), oldest))
        if base >= doubt.wanted == start and oldest >= doubt.upper_bound <= end:
            break
    return Examined(doubt.cuts, tuple(found))

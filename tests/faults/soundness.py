"""A log held against its own bytes: indexes, producers, epochs, aborted transactions and files, each computed anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log import Log
from ottla.log.derived_sums import DERIVED_SUMS_FILE
from ottla.log.flush_mark import FLUSH_MARK_FILE
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.names import SNAPSHOT, file_name
from ottla.log.producer_state import read_end_marker
from ottla.log.recovery import DAMAGED
from ottla.wire import Attributes, BatchHeader, Record, crc_is_valid, iter_batch_records, iter_batches
from tests.sim.storage import Storage

__all__ = ["batches_of", "check_files", "check_sound"]


@dataclass
class _Told:
    """What the batches of a log tell."""

    epochs: list[tuple[int, int]] = field(default_factory=list)
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """(last sequence, its offset) of each producer."""
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each open transaction, by producer."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)."""
    written: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, base offset) of each batch of records."""
    end: int = 0


def batches_of(data: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    """Return the whole batches in some bytes, with their records."""
    return [(header, list(iter_batch_records(data, at, header))) for header, at in iter_batches(data)]


def check_sound(log: Log) -> None:
    """Everything that a log keeps beside its records is what they say; raises AssertionError."""
    told = _Told(end=int(log.segments[0].base_offset))
    bases = [each.base_offset for each in log.segments]
    assert bases == sorted(set(bases)), f"segments begin at {bases}"
    for at, segment in enumerate(log.segments):
        following = bases[at + 1] if at + 1 < len(bases) else log.log_end_offset
        data = segment.file.pread(0, segment.size)
        assert len(data) == segment.size, f"segment {segment.base_offset} has {len(data)} of {segment.size} bytes"
        places: dict[int, int] = {}
        covered = 0
        for header, position in iter_batches(data):
            assert crc_is_valid(data, position, header), f"checksum of the batch at {header.base_offset}"
            assert told.end <= header.base_offset, f"batch {header.base_offset} after {told.end}"
            assert header.next_offset <= following, f"batch {header.base_offset} reaches beyond {following}"
            places[int(header.last_offset)] = position
            covered = position + header.size
            _take(told, header, data[position:covered])
        assert covered == segment.size, f"segment {segment.base_offset}: {segment.size - covered} bytes are no batch"
        if segment.size:  # an empty one may wait for its files
            _check_indexes(log, at, places)
    assert told.end == log.log_end_offset or not told.end or log.log_end_offset == bases[-1], (
        f"the batches end at {told.end}, the log at {log.log_end_offset}"
    )
    _check_derived(log, told)


def _take(told: _Told, header: BatchHeader, batch: bytes) -> None:
    told.end = int(header.next_offset)
    epoch = int(header.partition_leader_epoch)
    if epoch >= 0 and (not told.epochs or told.epochs[-1][0] != epoch):
        told.epochs.append((epoch, int(header.base_offset)))
    producer = header.producer_id
    if producer < 0:
        return
    if header.is_control:
        marker = read_end_marker(header, batch)
        first = told.open.pop(producer, None)
        if marker is not None and first is not None and not marker.commit:
            told.aborted.append((producer, first, int(header.base_offset)))
        return
    told.written.append((producer, int(header.base_offset)))
    told.sequences[producer] = (header.base_sequence + header.last_offset_delta, int(header.last_offset))
    if header.attributes & Attributes.TRANSACTIONAL:
        told.open.setdefault(producer, int(header.base_offset))


def _check_indexes(log: Log, at: int, places: dict[int, int]) -> None:
    """Each entry points to a batch; each offset of the segment is found from them."""
    segment = log.segments[at]
    for index in (segment.offset_index, segment.time_index):
        index.write()
    entries = segment.offset_index.file().pread(0, 1 << 20)
    assert len(entries) == len(segment.offset_index) * OFFSET_ENTRY.size, f"{segment.offset_index.path}: its size"
    last = -1
    for relative, position in OFFSET_ENTRY.iter_unpack(entries):
        assert relative > last, f"{segment.offset_index.path}: {relative} after {last}"
        last = relative
        assert places.get(segment.base_offset + relative) == position, (
            f"{segment.offset_index.path}: offset {segment.base_offset + relative} at {position}"
        )
    times = segment.time_index.file().pread(0, 1 << 20)
    assert len(times) == len(segment.time_index) * TIME_ENTRY.size, f"{segment.time_index.path}: its size"
    before = -1
    for time, relative in TIME_ENTRY.iter_unpack(times):
        assert time > before, f"{segment.time_index.path}: {time} after {before}"
        before = time
        assert segment.base_offset + relative in places, f"{segment.time_index.path}: offset {relative}"
    for last_offset, position in places.items():
        found = segment.locate(last_offset)
        assert found is not None and found.position == position, f"offset {last_offset} is not found at {position}"


def _check_derived(log: Log, told: _Told) -> None:
    start = int(log.log_start_offset)
    kept = [(int(each.epoch), int(each.offset)) for each in log.leader_epochs.starts]
    assert kept == sorted(set(kept)), f"epochs {kept}"
    for epoch, offset in told.epochs:
        assert offset < start or log.leader_epochs.epoch_of(offset) == epoch, f"{offset} is of epoch {epoch}: {kept}"
    for producer, (sequence, offset) in told.sequences.items():
        if offset < start:  # deleted: it may be forgotten
            continue
        entry = log.producers.entries.get(producer)
        assert entry is not None, f"producer {producer} is not known"
        assert entry.last_sequence == sequence, f"producer {producer} is at {entry.last_sequence}, not {sequence}"
        first = told.open.get(producer, -1)
        assert entry.transaction_offset == first, f"transaction of {producer}: {entry.transaction_offset}, not {first}"
    for producer, entry in log.producers.entries.items():
        assert entry.last_offset < log.log_end_offset, f"producer {producer} is beyond the end"
    stable = min(told.open.values(), default=int(log.log_end_offset))
    assert log.last_stable_offset == stable, f"last stable offset {log.last_stable_offset}, not {stable}"
    found = log.aborted_transactions(start, int(log.log_end_offset))
    aborted = [(each.producer_id, int(each.first_offset), int(each.last_offset)) for each in found]
    expected = [each for each in told.aborted if each[2] >= start]
    # compaction removes aborted records before their entries: such an entry hides nothing
    idle = [each for each in aborted if not any(each[0] == by and each[1] <= at <= each[2] for by, at in told.written)]
    assert [each for each in aborted if each not in idle] == expected, f"aborted {aborted}, by the records {expected}"


def check_files(storage: Storage, log: Log) -> None:
    """The folder has the files of the log's segments, each as large as the log says, and nothing that was left behind."""
    allowed = {
        "leader-epoch-checkpoint",
        "partition.metadata",
        "leader-epoch-checkpoint.tmp",
        FLUSH_MARK_FILE,
        DERIVED_SUMS_FILE,
    }
    sizes: dict[str, int] = {}
    for segment in log.segments:
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            allowed.add(file_name(segment.base_offset, suffix))
        sizes[file_name(segment.base_offset, ".log")] = segment.size
    names = {path.rpartition("/")[2]: inode for path, inode in storage.walk(log.folder)}
    left = sorted(each for each in set(names) - allowed if not each.endswith((SNAPSHOT, DAMAGED)))
    assert not left, f"left behind: {left}"
    for name, size in sizes.items():
        assert len(names[name].data) == size, f"{name} has {len(names[name].data)} bytes, the log {size}"

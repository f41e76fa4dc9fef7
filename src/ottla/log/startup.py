"""Opening a sound folder: what the files' sizes and last entries tell, and nothing scanned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.base import CorruptionError, Millis, Uuid
from ottla.log.config import LogConfig
from ottla.log.derived_sums import DERIVED_SUMS_FILE, DerivedSums, read_sums
from ottla.log.disk import Disk, Entry, join
from ottla.log.epochs_told import epochs_of
from ottla.log.identity import Identities, write_topic_id
from ottla.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from ottla.log.names import INDEX, LOG, TIME_INDEX, base_offset_of, file_name
from ottla.log.producer_state import ProducerState
from ottla.log.properties import PARTITION_METADATA_FILE, read_topic_id
from ottla.log.recovery import Progress, load_segments, recover, tidy
from ottla.log.segment import Segment
from ottla.log.types import RecoveryReport

__all__ = ["Loaded", "load", "load_or_recover"]


@dataclass(slots=True)
class Loaded:
    """The parts of a log as found on disk."""

    segments: list[Segment]
    epochs: LeaderEpochs
    state: ProducerState
    log_start_offset: int
    log_end_offset: int
    topic_id: Uuid | None
    is_new: bool
    recovery: RecoveryReport | None
    notes: tuple[str, ...] = ()
    """What is missing after a clean end, a line each."""


def load_or_recover(
    disk: Disk,
    folder: str,
    config: LogConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    now_ms: int,
    clean: bool,
    topic_id: Uuid | None,
    recovered: RecoveryReport | None,
    progress: Progress | None,
    is_missing: bool = False,
    identities: Identities | None = None,
) -> Loaded:
    """Return a folder's log, making the folder where it is missing; recover it first where its end was not clean.

    With `is_missing` it is known to be, and `identities` gives it its `partition.metadata`.
    """
    disk.mkdir(folder)
    if is_missing:
        return _begin(disk, folder, config, log_start_offset, now_ms, topic_id, identities or Identities(disk))

    def recover_now() -> RecoveryReport:
        return recover(
            disk,
            folder,
            config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
            progress=progress,
        )

    report = recover_now() if recovered is None and not clean else recovered
    try:
        return load(disk, folder, config, log_start_offset, now_ms, topic_id, recovered=report)
    except CorruptionError:
        if report is not None:
            raise
    entries = disk.scan(folder)
    sums = read_sums(disk, folder).after_clean_end(*_last_segment(entries))
    notes = _missing(entries, sums)  # before a recovery, which takes the log as it is
    found = load(disk, folder, config, log_start_offset, now_ms, topic_id, recovered=recover_now())
    found.notes = notes
    return found


def load(
    disk: Disk,
    folder: str,
    config: LogConfig,
    log_start_offset: int,
    now_ms: int,
    topic_id: Uuid | None,
    *,
    recovered: RecoveryReport | None = None,
) -> Loaded:
    """Return a folder's log; raises CorruptionError where it is not sound, and has to be recovered first.

    Where it was just recovered, the last segment's batches are taken in again for what they tell of their producers.
    """
    entries = tidy(disk, folder)
    sums = read_sums(disk, folder) if DERIVED_SUMS_FILE in entries else DerivedSums()
    if recovered is None:
        sums = sums.after_clean_end(*_last_segment(entries.values()))
        if sums.ends is not None and log_start_offset > sums.ends.end_offset:  # no log begins there: a wrong checkpoint
            log_start_offset = sums.ends.start_offset
    segments = load_segments(disk, folder, entries, log_start_offset, now_ms)
    for segment in segments:
        _check_index_files(segment, entries)
        if recovered is not None and segment.base_offset >= recovered.scanned_from:
            segment.vouch()
        known = sums.segments.get(segment.base_offset)
        if known is not None and known.size == segment.size and not segment.trust(known) and recovered is None:
            raise CorruptionError(f"{segment.offset_index.path} or its .timeindex is not as long as it was")
    notes = _missing(entries.values(), sums) if recovered is None else ()
    state = ProducerState(disk, folder, config.producer_id_expiration_ms, entries)
    state.know(sums)
    start = max(log_start_offset, segments[0].base_offset if segments else 0)
    end = segments[-1].load_end() if segments else start
    if end < start:  # the records between were deleted, and what had replaced them did not survive
        for segment in reversed(segments):
            segment.remove()
        segments = []
    if not segments:
        state.clear(start)
        end = start
        room = config.segment_bytes if config.preallocate else 0
        segments = [Segment.create(disk, folder, start, now_ms, preallocate=room)]
    has_producers = bool(state.offsets) or bool(
        segments[0].size
    )  # a clean end leaves a snapshot; without one all is read
    state.keep_only([each.base_offset for each in segments])
    if has_producers:
        newest = (
            max((each.base_offset for each in segments if each.size), default=None) if recovered is not None else None
        )
        state.load(segments, start, end, Millis(now_ms), newest=newest)
    else:
        state.producers.clear(end)
    # after a crash nobody knows whether the first flush had come to make the folder's name and identity durable
    is_new = recovered is not None or PARTITION_METADATA_FILE not in entries or read_topic_id(disk, folder) is None
    return Loaded(
        segments,
        _epochs(disk, folder, segments, sums, start, end, recovered),
        state,
        start,
        end,
        _topic_id(disk, folder, entries, topic_id),
        is_new=is_new,
        recovery=recovered,
        notes=notes,
    )


def _last_segment(entries: Iterable[Entry]) -> tuple[int, int]:
    """Return the base offset of a folder's last segment, and its bytes; -1 and 0 where there is none."""
    found = [(parsed, each.size) for each in entries if (parsed := base_offset_of(each.name)) is not None]
    return max(((base, size) for (base, suffix), size in found if suffix == LOG), default=(-1, 0))


def _missing(entries: Iterable[Entry], sums: DerivedSums) -> tuple[str, ...]:
    """Return a line where a log is shorter than a clean end left it, or a segment of it is not there."""
    found = [(parsed, each.size) for each in entries if (parsed := base_offset_of(each.name)) is not None]
    sizes = {base: size for (base, suffix), size in found if suffix == LOG}
    return tuple(
        f"{file_name(base, LOG)} has {sizes.get(base, 0)} bytes, and had {known.size} when the log was closed: "
        "records are missing; bring the file back from a copy, or let another replica lead"
        for base, known in sorted(sums.segments.items())
        if sizes.get(base, 0) < known.size and base >= min(sizes, default=0)
    )


def _begin(
    disk: Disk,
    folder: str,
    config: LogConfig,
    start: int,
    now_ms: int,
    topic_id: Uuid | None,
    identities: Identities,
) -> Loaded:
    """Return a new log in an empty folder; what it costs are a folder, a file, and a name of another file."""
    room = config.segment_bytes if config.preallocate else 0
    if room:
        segment = Segment.create(disk, folder, start, now_ms, preallocate=room)
    else:
        segment = Segment.first(disk, folder, start, now_ms)
    state = ProducerState(disk, folder, config.producer_id_expiration_ms, ())
    state.producers.clear(start)
    epochs = _epochs(disk, folder, (), DerivedSums(), start, start, None)
    if topic_id is not None:
        identities.give(folder, topic_id)
    return Loaded([segment], epochs, state, start, start, topic_id, is_new=True, recovery=None)


def _check_index_files(segment: Segment, entries: dict[str, Entry]) -> None:
    for index, suffix in ((segment.offset_index, INDEX), (segment.time_index, TIME_INDEX)):
        entry = entries.get(file_name(segment.base_offset, suffix))
        if entry is None or entry.size % index.entry_size:
            raise CorruptionError(f"{index.path} is missing or holds a part of an entry")


def _epochs(
    disk: Disk,
    folder: str,
    segments: Sequence[Segment],
    sums: DerivedSums,
    start: int,
    end: int,
    recovered: RecoveryReport | None,
) -> LeaderEpochs:
    known = sums.files.get(LEADER_EPOCH_FILE)
    if recovered is not None:
        epochs, found = LeaderEpochs(recovered.leader_epochs), False
    elif segments:
        epochs, found = epochs_of(disk, folder, segments, known)
    else:
        epochs, found = LeaderEpochs(), False
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    epochs.log_end_offset = end  # type: ignore[assignment]
    if not found:
        epochs.changes += 1  # so that the first flush writes the file
    return epochs


def _topic_id(disk: Disk, folder: str, entries: dict[str, Entry], wanted: Uuid | None) -> Uuid | None:
    found = read_topic_id(disk, folder) if PARTITION_METADATA_FILE in entries else None
    if found is None and wanted is not None:
        if PARTITION_METADATA_FILE in entries:
            disk.unlink(join(folder, PARTITION_METADATA_FILE))  # other logs may have this file, too
        write_topic_id(disk, folder, wanted)
        found = wanted
    if found != wanted and wanted is not None:
        raise CorruptionError(f"{folder} belongs to another topic of this name: its id is not the one asked for")
    return found

"""The folder of `__cluster_metadata-0`: its log, its snapshots, and the election state beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ottla.base import (
    METADATA_TOPIC,
    CorruptionError,
    LeaderEpoch,
    Millis,
    NoSpaceError,
    Offload,
    Offset,
    StorageError,
    TopicPartition,
    Uuid,
)
from ottla.broker.quorum.reserve import Reserve
from ottla.broker.quorum.snapshot import (
    BOOTSTRAP_FILE,
    Snapshot,
    decoded,
    image_chunks,
    list_snapshots,
    read_records,
    read_snapshot,
    snapshot_name,
)
from ottla.log import AppendOrigin, Disk, Log, LogConfig, flushed_end, join, parent, replace_file
from ottla.metadata import Image, Record, decide
from ottla.raft import (
    NO_ELECTION,
    Append,
    ElectionState,
    Envelope,
    EpochStart,
    FetchReply,
    LogRange,
    LogView,
    SnapshotChunk,
    SnapshotId,
    SnapshotRange,
    VoterHistory,
    VoterSet,
    observed,
    parse_election_state,
    read_batches,
    render_election_state,
)
from ottla.wire import iter_batch_records, iter_batches

__all__ = ["METADATA_PARTITION", "METADATA_TOPIC_ID", "MetadataLog"]

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
"""The metadata log's name; its folder is `__cluster_metadata-0`."""

METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The metadata log's topic id, the same in every cluster (KIP-516)."""

ELECTION_FILE = "quorum-state"
PART = ".part"
"""Ends the name of a snapshot that is not whole yet."""

REPLAY_BYTES = 1 << 20
FETCH_BYTES = 8 << 20
"""Bytes read at once: on replay, and for a follower's fetch."""
SNAPSHOT_BYTES = 1 << 20
"""Bytes of a snapshot in one answer."""


class MetadataLog:
    """What the quorum keeps on disk. Everything runs on the loop but what says that it runs on a thread.

    What is before `flushed_offset` is durable.
    """

    def __init__(self, disk: Disk, folder: str, log: Log, view: LogView, now_ms: int, reserve: Reserve) -> None:
        self.folder = folder
        self.reserve = reserve
        self.view = view
        self.flushed_offset = self._flushing_to = view.end_offset
        self.bytes_since_snapshot = 0
        self.snapshot_at_ms = now_ms
        self._disk = disk
        self._log = log
        self._last_timestamp = Millis(0)

    @classmethod
    def open(
        cls,
        disk: Disk,
        metadata_log_dir: str,
        *,
        segment_bytes: int,
        segment_ms: int,
        now_ms: Millis,
        reserve_bytes: int = 0,
    ) -> MetadataLog:
        """Open the log of a formatted folder, cut a torn tail, and make what is left durable."""
        folder = join(metadata_log_dir, str(METADATA_PARTITION))
        disk.mkdir(folder)
        for entry in disk.scan(folder):
            if entry.name.endswith(PART):
                disk.unlink(join(folder, entry.name))
        snapshots = [snapshot for snapshot, _ in list_snapshots(disk, folder)]
        oldest, newest = (snapshots[0], snapshots[-1]) if snapshots else (SnapshotId(), SnapshotId())
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            retention_ms=-1,
            retention_bytes=-1,
            file_delete_delay_ms=0,
            max_message_bytes=FETCH_BYTES,
        )
        # A snapshot says what is committed, which this node's log may not have had on its device, or not at all.
        known = min(newest.end_offset, flushed_end(disk, folder))
        log = Log.open(
            disk,
            folder,
            config,
            now_ms=now_ms,
            recovery_point=known,
            log_start_offset=oldest.end_offset,
            topic_id=METADATA_TOPIC_ID,
        )
        if log.log_end_offset < newest.end_offset:  # a snapshot came from the leader, and the crash before its log
            log.truncate_fully_and_start_at(newest.end_offset)
        log.flush()
        reserve = Reserve(disk, metadata_log_dir, reserve_bytes)
        reserve.open()
        return cls(disk, folder, log, _view(log, snapshots), now_ms, reserve)

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""
        return self._log.log_end_offset

    # Election state

    def read_election(self) -> ElectionState:
        """Return what `quorum-state` says; nothing before the first election."""
        data = self._disk.read(join(self.folder, ELECTION_FILE))
        return parse_election_state(data.decode("utf-8", "replace")) if data else NO_ELECTION

    def write_election(self, state: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        """Make the election state durable; runs on a thread."""
        text = render_election_state(state, kraft_version=kraft_version, voters=voters)
        while True:
            try:
                return replace_file(self._disk, join(self.folder, ELECTION_FILE), text.encode())
            except NoSpaceError:
                if not self.reserve.give():
                    raise

    # The log

    def append(self, append: Append, *, decides: bool) -> None:
        """Append whole batches as they are: they carry their offsets and epoch.

        Where there is no room, some of the reserve goes for what a leader has `Reserve.promise`d it to, for the beginning of
        an epoch, and for what a follower has to take: it does not know what the records are for (`decides` is False).
        """
        batches = append.batches
        while True:
            try:
                self._log.append(bytearray(batches), origin=AppendOrigin.RAFT)
                break
            except NoSpaceError:
                urgent = append.control or not decides or self.reserve.is_promised(append.base_offset)
                if not urgent or not self.reserve.give():
                    raise
        self.bytes_since_snapshot += len(batches)
        self._last_timestamp = max(header.max_timestamp for header, _ in iter_batches(batches))

    def begin_flush(self) -> None:
        """Note, on the loop, what the next `flush` makes durable; what a truncation owes is done, where there is room."""
        with suppress(NoSpaceError):  # then the flush says so
            self._log.settle()
        self._flushing_to = self.end_offset

    def flush(self) -> None:
        """Make durable what was appended before the call; runs on a thread, beside appends and truncations."""
        self._log.flush()
        self.reserve.renew()

    def end_flush(self) -> Offset:
        """Return before which offset all is durable after `flush`: what was cut meanwhile and came anew is not."""
        self.flushed_offset = max(self.flushed_offset, self._flushing_to)
        assert self.flushed_offset <= self.end_offset, f"flushed to {self.flushed_offset} of {self.end_offset}"
        return self.flushed_offset

    def truncate_to(self, offset: Offset) -> None:
        """Remove the records from this offset on, with the whole batch that holds it."""
        self._log.truncate_to(offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self._flushing_to = min(self._flushing_to, self.end_offset)

    def replay(self, voters: VoterHistory, start: int) -> Iterator[tuple[Append, VoterHistory]]:
        """Yield the log's batches from `start` on, each with the voters after it."""
        offset = max(start, self._log.log_start_offset)
        while offset < self._log.log_end_offset:
            data = self._read(offset, self._log.log_end_offset, REPLAY_BYTES)
            self.bytes_since_snapshot += len(data)
            for batch in read_batches(data):
                if batch.header.base_offset < offset:
                    continue
                voters = observed(voters, batch)
                offset = batch.header.base_offset + batch.count
                self._last_timestamp = batch.header.max_timestamp
                control = batch.header.is_control
                yield Append(batch.header.base_offset, batch.count, batch.epoch, bytes(batch.data), control), voters

    def _read(self, offset: int, end: int, max_bytes: int) -> bytes:
        found = self._log.read(Offset(offset), max_bytes=max_bytes, upper_bound=Offset(end), min_one_batch=True)
        data = found.read()
        return data[: sum(header.size for header, _ in iter_batches(data))]

    def decode_records(self, batches: bytes) -> list[Record]:
        """Return the metadata records of a batch."""
        return [
            record
            for batch in read_batches(batches)
            for record in decoded(iter_batch_records(batch.data, 0, batch.header))
        ]

    def filled(self, envelope: Envelope) -> Envelope:
        """Return a message with the bytes that it only names."""
        message = envelope.message
        if isinstance(message, FetchReply) and isinstance(message.records, LogRange):
            wanted = message.records
            held = wanted.start < self.end_offset  # else the disk had no room for what the core meant to send
            data = self._read(wanted.start, wanted.end, FETCH_BYTES) if held else b""
            return replace(envelope, message=replace(message, records=data))
        if isinstance(message, SnapshotChunk) and isinstance(message.data, SnapshotRange):
            file = self._disk.open(join(self.folder, snapshot_name(message.snapshot)))
            data = file.pread(message.position, SNAPSHOT_BYTES)
            return replace(envelope, message=replace(message, data=data, size=file.size()))
        return envelope

    def close(self, clean: bool) -> None:
        """Close the log, durable to its end where `clean`; runs on a thread."""
        if clean:
            with suppress(NoSpaceError):  # every start reads the log from its newest snapshot on, whatever the end was
                self._log.close()
                return
        self._log.abandon()

    # Snapshots

    def bootstrap_records(self) -> tuple[Record, ...]:
        """Return the records that formatting left for the first leader, or the defaults where it left none."""
        path = join(parent(self.folder), BOOTSTRAP_FILE)
        data = self._disk.read(path)
        if data is None:
            return decide.bootstrap_records()
        return tuple(read_records(data, path)[0])

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Return a whole snapshot's size; None where there is no such snapshot."""
        return dict(list_snapshots(self._disk, self.folder)).get(snapshot)

    def newest_snapshot(self) -> Snapshot | None:
        """Return what the newest snapshot holds."""
        found = list_snapshots(self._disk, self.folder)
        return read_snapshot(self._disk, self.folder, found[-1][0]) if found else None

    async def write_snapshot(
        self, snapshot: SnapshotId, image: Image, voters: VoterHistory, now_ms: Millis, offload: Offload
    ) -> None:
        """Write a snapshot, a slice at a time, the bytes on a thread; it has its name only once it is durable.

        Where that fails it leaves nothing behind, if the disk lets it.
        """
        path = join(self.folder, snapshot_name(snapshot))
        try:
            file = self._disk.open(path + PART, create=True)
            try:
                await offload.thread(file.truncate, 0)
                position = 0
                for chunk in image_chunks(image, voters, timestamp=self._last_timestamp, written_at=now_ms):
                    await offload.thread(file.pwrite, position, chunk)
                    position += len(chunk)
                await offload.thread(file.fsync)
            finally:
                file.close()
            await offload.thread(self._publish, path)
        except StorageError:
            self.discard_part(snapshot)
            raise
        self.view = self.view.with_snapshot(snapshot)
        self.bytes_since_snapshot = 0
        self.snapshot_at_ms = now_ms

    def _publish(self, path: str) -> None:
        self._disk.rename(path + PART, path)
        self._disk.fsync_dir(self.folder)

    async def clean(
        self,
        now_ms: Millis,
        retention_bytes: int,
        retention_ms: int,
        offload: Offload,
        *,
        moved: Callable[[Offset], None],
    ) -> None:
        """Drop the oldest snapshots, and the log before the next one, while they are too large or too old.

        `moved` hears where the log starts, at once and each time before files go. The newest snapshot always stays.
        """
        moved(self._log.log_start_offset)
        found = list_snapshots(self._disk, self.folder)
        # one beyond the log's end was fetched, and found no room to begin the log anew
        snapshots = [each for each in found if each[0].end_offset <= self.end_offset]
        ages = {entry.name: now_ms - entry.modified_ms for entry in self._disk.scan(self.folder)}
        total = self._log.size + sum(size for _, size in snapshots)
        while len(snapshots) > 1:
            (oldest, size), (following, _) = snapshots[0], snapshots[1]
            too_large = 0 <= retention_bytes < total
            too_old = 0 <= retention_ms < ages.get(snapshot_name(following), 0)
            if not (too_large or too_old):
                break
            before = self._log.size
            self._log.delete_records_before(following.end_offset)
            moved(self._log.log_start_offset)
            for path in [*self._log.housekeep(now_ms), join(self.folder, snapshot_name(oldest))]:
                await offload.thread(self._disk.unlink, path)
            total -= size + before - self._log.size
            snapshots.pop(0)

    def write_snapshot_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Write a piece of a snapshot that is being fetched."""
        path = join(self.folder, snapshot_name(snapshot)) + PART
        file = self._disk.open(path, create=True)
        try:
            if position == 0:  # an attempt before this one may have left more, and another leader's bytes
                file.truncate(0)
            file.pwrite(position, data)
        finally:
            file.close()

    def discard_part(self, snapshot: SnapshotId) -> None:
        """Remove what there is of a snapshot that is not whole, to make room; what stays goes at the next start."""
        with suppress(StorageError):
            self._disk.unlink(join(self.folder, snapshot_name(snapshot)) + PART)

    def install(self, snapshot: SnapshotId) -> Snapshot:
        """Make a fetched snapshot durable, begin the log anew behind it, and return it; runs on a thread.

        Raises NoSpaceError where there is no room for that: the log is then as it was, and the snapshot is gone.
        """
        path = join(self.folder, snapshot_name(snapshot))
        try:
            file = self._disk.open(path + PART)
            try:
                file.fsync()
            finally:
                file.close()
            self._publish(path)
            loaded = read_snapshot(self._disk, self.folder, snapshot)
            self._log.truncate_fully_and_start_at(snapshot.end_offset)
        except NoSpaceError:
            self._disk.unlink(path)
            self.discard_part(snapshot)
            raise
        self.flushed_offset = snapshot.end_offset
        self.view = LogView.after(snapshot)
        return loaded


def _view(log: Log, snapshots: Sequence[SnapshotId]) -> LogView:
    """Return the log's shape: the snapshot at its start says what came before."""
    start_offset = log.log_start_offset
    start = next((each for each in snapshots if each.end_offset == start_offset), None)
    if start is None:
        if start_offset:
            raise CorruptionError(f"the metadata log starts at {start_offset}, and no snapshot ends there")
        start = SnapshotId()
    entries = tuple(
        EpochStart(LeaderEpoch(each.epoch), Offset(max(each.offset, start_offset))) for each in log.leader_epochs.starts
    )
    return LogView(start, log.log_end_offset, entries, max(snapshots, default=start))

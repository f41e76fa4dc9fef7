"""A log to compact on a simulated disk, for the tests of the cleaner."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ottla.log import (
    CleanerBuffers,
    CleaningPlan,
    CleaningResult,
    Log,
    LogConfig,
    clean,
    cleanable,
    install,
    plan_cleaning,
)
from ottla.wire import BatchHeader, Codec, Record, build_batch, iter_batch_records, iter_batches
from tests.log.records import NOW
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

__all__ = ["COMPACT", "FOLDER", "Bench", "keyed"]

FOLDER = "data/t-0"
COMPACT = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=1000,
    index_interval_bytes=200,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=5,
    retention_ms=-1,
)


def keyed(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    """Return a batch of these keys and values; `producer` is (id, epoch, first sequence)."""
    records = [
        Record(at, timestamp + at, key, value, (("h", key),))  # type: ignore[arg-type]
        for at, (key, value) in enumerate(pairs)
    ]
    producer_id, producer_epoch, base_sequence = producer
    return build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


class Bench:
    """One log, its disk, and the time."""

    def __init__(self, config: LogConfig = COMPACT, *, seed: int = 1, storage: Storage | None = None) -> None:
        self.rng = Random(seed)
        self.storage = storage or Storage(self.rng)
        self.trace = Trace()
        self.config = config
        self.now = NOW
        self.disk = self.new_disk()
        self.log = Log.open(self.disk, FOLDER, config, now_ms=self.now)

    def new_disk(self, crash_at: int | None = None) -> SimDisk:
        """Return the disk as a new process sees it."""
        process = Process(SimLoop(), "broker")
        return SimDisk(self.storage, process, self.rng, self.trace, crash_at=crash_at, now_ms=lambda: self.now)

    def put(self, *pairs: tuple[bytes | None, bytes | None], roll: bool = False, **fields: object) -> int:
        """Append a batch and return its first offset."""
        self.now += 10
        data = keyed(pairs, timestamp=self.now, **fields)  # type: ignore[arg-type]
        first = self.log.append(data, leader_epoch=0, now_ms=self.now).first_offset
        if roll:
            self.log.roll(self.now)
        return first

    def seal(self) -> None:
        """Let everything so far be in sealed segments, on the device."""
        self.log.roll(self.now)
        self.log.flush()

    def plan(self, *, stable: int | None = None, **buffers: float) -> CleaningPlan | None:
        """Return the plan of a cleaning with the lease taken, or None where nothing is due."""
        log = self.log
        stable = log.last_stable_offset if stable is None else stable
        found = cleanable(log, last_stable_offset=stable, now_ms=self.now)
        if not found.is_due(log.config.min_cleanable_dirty_ratio):
            return None
        lease = f"{log.folder}/cleaning.tmp"
        self.disk.open(lease, create=True)
        return plan_cleaning(
            log,
            found,
            now_ms=self.now,
            lease=lease,
            buffers=CleanerBuffers(**buffers),  # type: ignore[arg-type]
        )

    def clean(self, *, stable: int | None = None, **buffers: float) -> CleaningResult | None:
        """Clean the log as its broker would, and return what that did."""
        plan = self.plan(stable=stable, **buffers)
        if plan is None:
            return None
        result = clean(self.disk, plan)
        assert install(self.disk, self.log, plan, result, now_ms=self.now)
        self.disk.unlink(plan.lease)
        return result

    def reopen(self, *, crash: bool = True) -> None:
        """Open the log again, as after a crash that found no recovery point, or after a clean end."""
        if not crash:
            self.log.close()
        self.disk = self.new_disk()
        self.open_again(clean=not crash)

    def open_again(self, *, clean: bool = False, recovery_point: int = 0) -> None:
        """Open the log on the disk as it is."""
        cleaned_to = self.log.cleaned_to
        self.log = Log.open(self.disk, FOLDER, self.config, now_ms=self.now, clean=clean, recovery_point=recovery_point)
        self.log.cleaned_to = min(cleaned_to, self.log.log_end_offset)

    # -- what is there

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        """Return every batch of every segment with its records."""
        found = []
        for segment in self.log.segments:
            data = segment.file.pread(0, segment.size)
            for header, at in iter_batches(data):
                found.append((header, list(iter_batch_records(data, at, header))))
        return found

    def records(self) -> list[Record]:
        """Return the records, markers aside, as a consumer reads them from the log's start."""
        log, offset = self.log, self.log.log_start_offset
        found: list[Record] = []
        while offset < log.log_end_offset:
            data = log.read(offset, max_bytes=1 << 20, min_one_batch=True).read()
            if not data:
                break
            for header, at in iter_batches(data):
                if not header.is_control:
                    found += [each for each in iter_batch_records(data, at, header) if each.offset >= offset]
                offset = max(offset, header.next_offset)
        return found

    def values(self) -> dict[bytes | None, bytes | None]:
        """Return the last value of each key."""
        return {each.key: each.value for each in self.records()}

    def files(self) -> list[str]:
        """Return the names in the log's folder."""
        return [each.name for each in self.disk.scan(FOLDER)]

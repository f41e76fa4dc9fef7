"""Faults that the code had, put back: some failing call must find each. `make mutations` says which.

Each changes production code in this process only, as the mutations of the simulation do (`tests/sim/mutations.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ottla.base import CorruptionError, MissingFileError, NoSpaceError, Offset, StorageError
from ottla.broker import Node
from ottla.broker.replicas.failures import Cost, Failures
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.log_dir_moves import LogDirMoves
from ottla.broker.replicas.storage import Storage
from ottla.log import Log, LogDir
from ottla.log.disk import Disk, join
from ottla.log.durability import Durability
from ottla.log.index import Index
from ottla.log.names import DELETED, LOG, file_name
from ottla.log.properties import Owner
from ottla.log.segment import Segment
from ottla.log.transaction_index import TransactionIndex, encode_transactions
from ottla.replica import Role
from tests.faults.broker_runner import NODE_STORIES, broker_cases_of, run_broker_case
from tests.faults.runner import cases_of, run_case
from tests.sim.mutations import OUTDATED, Surgeon

__all__ = ["MUTATIONS", "Fault", "Finding", "found_by", "main"]


@dataclass(frozen=True)
class Finding:
    """What found a mutation."""

    where: str
    """The case, or the test."""
    error: str


@dataclass(frozen=True)
class Fault:
    """One way to be wrong, which the code once was."""

    name: str
    sentence: str
    look: Callable[[], Iterator[tuple[str, str]]]
    """Yields what was tried, and what broke there, or nothing."""
    operate: Callable[[Surgeon], None]


MUTATIONS: dict[str, Fault] = {}


def fault(
    name: str, sentence: str, look: Callable[[], Iterator[tuple[str, str]]]
) -> Callable[[Callable[[Surgeon], None]], Callable[[Surgeon], None]]:
    """Register a function as a mutation."""

    def register(operate: Callable[[Surgeon], None]) -> Callable[[Surgeon], None]:
        MUTATIONS[name] = Fault(name, sentence, look, operate)
        return operate

    return register


def calls(story: str, *kinds: str, of: str = "") -> Callable[[], Iterator[tuple[str, str]]]:
    """Return what fails every call of a story in these ways, or those whose name and path hold `of`."""

    def look() -> Iterator[tuple[str, str]]:
        of_broker = story in NODE_STORIES
        try:
            cases = list(broker_cases_of(story) if of_broker else cases_of(story))
        except AssertionError as error:  # found before anything fails: by a kill or a power loss at the story's end
            yield f"{story}, at its end", str(error)
            return
        for case in cases:
            if case.kind in kinds and of in f"{case.call.name} {case.call.path}":
                yield str(case), run_broker_case(case) if of_broker else run_case(case)

    return look


# -- what a failure costs


def _costs_directory(surgeon: Surgeon, of: type[StorageError]) -> None:
    original = Failures._judge

    def judge(self: Failures, error: StorageError, held: Any) -> Any:
        log_dir = self._storage.directory_of(error.path)
        if isinstance(error, of) and log_dir is not None:
            return Cost.DIRECTORY, log_dir
        return original(self, error, held)

    surgeon.put(Failures, "_judge", judge)


@fault("a lost file ends a directory", "A file that vanished passes for a failed disk.", calls("broker-read", "ENOENT"))
def _lost_file(surgeon: Surgeon) -> None:
    _costs_directory(surgeon, MissingFileError)


@fault(
    "damage ends a directory",
    "Bytes that are not what was written, such as a batch's header in a sealed segment, pass for a failed disk.",
    calls("broker-read-sealed", "rot-stays"),
)
def _damage(surgeon: Surgeon) -> None:
    _costs_directory(surgeon, CorruptionError)


@fault(
    "a rotten log is cut",
    "A start takes a wrong bit in what was fsynced for a torn tail, and cuts what follows.",
    calls("broker-start-unclean", "rot", "rot-stays", of=".log"),
)
def _cut(surgeon: Surgeon) -> None:
    from ottla.log import recovery

    surgeon.put(recovery, "flushed_end", lambda disk, folder: Offset(0))


@fault(
    "a start waits for nothing",
    "A start whose metadata log fails waits for what cannot come any more.",
    calls("broker-start-unclean", "EIO", of="pwrite /m"),
)
def _waits(surgeon: Surgeon) -> None:
    async def bring_up(self: Node) -> None:
        await self._serve()

    surgeon.put(Node, "_bring_up", bring_up)


@fault(
    "no room ends a directory",
    "A deletion that is refused for want of room passes for a failed disk.",
    calls("broker-delete-records", "ENOSPC", of="rename"),
)
def _no_room(surgeon: Surgeon) -> None:
    _costs_directory(surgeon, NoSpaceError)

    def set_aside(self: Segment, mark: str = "") -> list[str]:
        for path, moved in self._places():
            if not path.endswith(DELETED) and self._disk.exists(path):
                self._disk.rename(path, path + mark + DELETED)
                moved(path + mark + DELETED)
        return self.paths()

    def delete_records_before(self: Log, offset: int) -> None:
        if offset > self.log_start_offset:
            self._start_at(offset)
            self._set_aside(self._count_below_start())

    surgeon.put(Segment, "set_aside", set_aside)
    surgeon.put(Log, "delete_records_before", delete_records_before)


@fault("a move blames its target", "What fails while a replica moves is the target's.", calls("broker-move", "EIO"))
def _blame_target(surgeon: Surgeon) -> None:
    original = LogDirMoves._copy

    async def copy(self: LogDirMoves, move: Any) -> bool:
        try:
            return await original(self, move)
        except StorageError as error:
            raise StorageError(str(error), move.log_dir.path) from error

    surgeon.put(LogDirMoves, "_copy", copy)


# -- half of it


@fault(
    "a refused batch stays",
    "Index entries that find no room fail the append, whose batch stays in the log.",
    calls("produce-index", "ENOSPC"),
)
def _refused_stays(surgeon: Surgeon) -> None:
    def try_to_write(self: Index) -> None:
        self.write()

    surgeon.put(Index, "_try_to_write", try_to_write)


@fault(
    "half a roll", "A roll that finds no room leaves the new segment's file behind.", calls("roll-refused", "ENOSPC")
)
def _half_roll(surgeon: Surgeon) -> None:
    def create(
        cls: type[Segment], disk: Disk, folder: str, base_offset: int, now_ms: int, *, preallocate: int = 0
    ) -> Segment:
        file = disk.open(join(folder, file_name(base_offset, LOG)), create=True)
        file.truncate(preallocate)
        segment = cls(disk, folder, base_offset, {}, now_ms, file)
        segment.offset_index.create()
        segment.time_index.create()
        return segment

    surgeon.put(Segment, "create", classmethod(create))


@fault("half an abort", "An abort that finds no room is closed in memory, without its entry.", calls("abort", "ENOSPC"))
def _half_abort(surgeon: Surgeon) -> None:
    def append(self: TransactionIndex, entry: Any) -> None:
        file = self._disk.open(self.path, create=True)
        try:
            file.pwrite(0 if not self._written else file.size(), encode_transactions([entry]))
        finally:
            file.close()
        self._written += 1
        if self._aborted is not None:
            self._aborted.append(entry)

    surgeon.put(TransactionIndex, "append", append)


# -- what is left behind


@fault(
    "keep a dead topic's checkpoints",
    "What was stored of a deleted topic is forgotten in memory only.",
    calls("recreate", "kill-before", "kill-after"),
)
def _keep_checkpoints(surgeon: Surgeon) -> None:
    def forget(self: Any, partition: Any, *, start_offset: int = 0) -> None:
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self._cleaned):
            offsets.pop(partition, None)
        if start_offset:
            self._start_offsets[partition] = Offset(start_offset)

    surgeon.put(LogDir, "_forget", forget)


def _space() -> Iterator[tuple[str, str]]:
    from tests.log import test_space

    for test in (
        test_space.test_retained_and_truncated_files_are_not_kept_open,
        test_space.test_the_files_of_a_dropped_log_are_not_kept_open,
    ):
        with TemporaryDirectory() as folder:
            try:
                test(Path(folder))
            except AssertionError as error:
                yield f"tests/log/test_space.py, {test.__name__}", str(error) or "an assertion"
            else:
                yield test.__name__, ""


@fault("keep deleted files open", "The files of a dropped log stay open.", _space)
def _keep_open(surgeon: Surgeon) -> None:
    def take_doomed(self: Any, now_ms: int) -> list[str]:
        due = [each for each in self._doomed if each.due_ms <= now_ms]
        self._doomed = [each for each in self._doomed if each.due_ms > now_ms]
        self._kept = [*getattr(self, "_kept", ()), *due]
        return [each.folder for each in due]

    surgeon.put(LogDir, "take_doomed", take_doomed)


@fault(
    "a failed log ends cleanly",
    "A failed fsync of the metadata log ends the node, and leaves the mark of a clean end.",
    calls("broker-commit", "EIO", of="fsync /m"),
)
def _clean_mark(surgeon: Surgeon) -> None:
    def fail_metadata(self: Storage, error: StorageError) -> None:
        self._on_failure(error)

    surgeon.put(Storage, "fail_metadata", fail_metadata)


@fault(
    "trust a topic id",
    "A wrong bit in partition.metadata lets a start remove the log as another topic's.",
    calls("broker-start-clean", "rot", of="partition.metadata"),
)
def _trust_topic_id(surgeon: Surgeon) -> None:
    from ottla.log import properties

    def owner_of(disk: Disk, folder: str, topic_id: Any) -> Owner:
        return Owner.ASKED if properties.read_topic_id(disk, folder) in (None, topic_id) else Owner.ANOTHER

    surgeon.put(properties, "owner_of", owner_of)


@fault(
    "remember what was not asked",
    "A flush that could not open a file stops all later ones, though nothing is shown offline.",
    calls("broker-produce", "ENOENT", of="fsync"),
)
def _remember(surgeon: Surgeon) -> None:
    def remember(self: Any, error: StorageError) -> None:
        if not isinstance(error, NoSpaceError):
            self._sync_failure = error

    surgeon.put(Durability, "remember", remember)


@fault(
    "a follower flushes later",
    "A follower tells its leader that it has what is not on its device, where `flush.messages` asks for that.",
    calls("follower-append", "power-before"),
)
def _follower_flushes_later(surgeon: Surgeon) -> None:
    original: Any = vars(LocalPartition)["must_flush"]

    def must_flush(self: LocalPartition) -> bool:
        return self.replica.role is Role.LEADER and bool(original.__get__(self))

    surgeon.put(LocalPartition, "must_flush", property(must_flush))


def found_by(fault: Fault) -> tuple[Finding | None, int]:
    """Return what found a mutation first, and how many cases were tried."""
    surgeon, tried = Surgeon(), 0
    try:
        fault.operate(surgeon)
        for where, error in fault.look():
            tried += 1
            if not error:
                continue
            last = error.strip().splitlines()[-1]
            if any(each in last for each in OUTDATED):
                raise AssertionError(f"the mutation {fault.name} no longer fits the code: {last}")
            return Finding(where, last[:200]), tried
    finally:
        surgeon.heal()
    return None, tried


def main() -> int:
    """Look for every mutation; returns 1 where one was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="these only")
    given = parser.parse_args()
    missed = []
    for name, each in MUTATIONS.items():
        if given.names and name not in given.names:
            continue
        began = time.monotonic()
        finding, tried = found_by(each)
        said = f"found by {finding.where}" if finding else "not found"
        print(f"{name}: {said}, {tried} cases, {time.monotonic() - began:.0f} s. {each.sentence}")
        if finding:
            print(f"    {finding.error}", flush=True)
        else:
            missed.append(name)
    print(f"{len(missed)} missed" + (f": {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

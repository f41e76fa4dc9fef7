"""Faults that the code had, put back, which neither a world nor a failing call can show: a named test finds each.

Each says why only its test can. It runs in a process of its own, which has the fault from its first import of the
test on: `python -m tests.sim.named_mutations`, a part of `make mutations`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import pytest

from ottla.base import CorruptionError, ErrorCode, KafkaError, Offset, StorageError
from ottla.broker.controller.broker_sessions import BrokerSessions
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.replicas.failures import Cost, Failures
from ottla.broker.replicas.housekeeping import Housekeeping
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.requests.answer_memory import AnswerMemory
from ottla.log import Log
from ottla.log.segment import Segment
from tests.sim.mutations import OUTDATED, Surgeon

__all__ = ["NAMED", "Named", "main", "what_finds"]

SECONDS_MAX = 120.0
"""For one test with a fault put back: one that then waits for ever has found it."""


@dataclass(frozen=True)
class Named:
    """One way to be wrong, and the test that says so."""

    name: str
    sentence: str
    test: str
    reason: str
    """Why no world and no failing call finds it."""
    operate: Callable[[Surgeon], None]


NAMED: dict[str, Named] = {}


def named(
    name: str, sentence: str, test: str, *, reason: str
) -> Callable[[Callable[[Surgeon], None]], Callable[[Surgeon], None]]:
    """Register a function as a mutation that a test finds."""

    def register(operate: Callable[[Surgeon], None]) -> Callable[[Surgeon], None]:
        NAMED[name] = Named(name, sentence, test, reason, operate)
        return operate

    return register


# -- what a failure costs


@named(
    "damage ends a directory",
    "One damaged batch header passes for a failed disk.",
    "tests/broker/test_failures.py::test_a_damaged_batch_header_costs_the_reads_that_meet_it",
    reason="what lies on a simulated disk is as it was written; only a start reads bits that rot there",
)
def _damage_ends_directory(surgeon: Surgeon) -> None:
    original = Failures._judge

    def judge(self: Failures, error: StorageError, held: Any) -> Any:
        log_dir = self._storage.directory_of(error.path or ("" if held is None else held.log.folder))
        if isinstance(error, CorruptionError) and log_dir is not None:
            return Cost.DIRECTORY, log_dir
        return original(self, error, held)

    surgeon.put(Failures, "_judge", judge)


@named(
    "the deleted fail too",
    "What fails for a partition that is held no more ends the directory that it was in.",
    "tests/broker/test_failures.py::test_what_fails_for_a_topic_that_was_deleted_meanwhile_fails_nothing",
    reason="a world cannot tell a directory that failed for this from one that failed for the call that was made to fail",
)
def _deleted_fail(surgeon: Surgeon) -> None:
    original = Failures._judge

    def judge(self: Failures, error: StorageError, held: Any) -> Any:
        log_dir = self._storage.directory_of(error.path)
        if held is not None and not self._is_held(held) and log_dir is not None:
            return Cost.DIRECTORY, log_dir
        return original(self, error, held)

    surgeon.put(Failures, "_judge", judge)


@named(
    "take garbage",
    "A batch whose checksum is right is taken, whatever its records are.",
    "tests/broker/test_failures.py::test_a_batch_of_garbage_with_a_right_checksum_is_refused",
    reason="a simulated vandal damages requests, whose checksums are wrong then",
)
def _take_garbage(surgeon: Surgeon) -> None:
    from ottla.wire import batch_validation

    surgeon.put(batch_validation, "walk_records", lambda data, pos, count: (0, 0, 0))


# -- answers


@named(
    "the stable end before the start",
    "Where retention or a deletion has passed an open transaction, the last stable offset lies below the log's start.",
    "tests/log/test_producers.py::test_the_last_stable_offset_is_never_below_the_logs_start",
    reason="worlds delete no records of transactional topics, since they could not say what is left of a transaction",
)
def _stable_before_start(surgeon: Surgeon) -> None:
    def stable_until(self: Log, high_watermark: int) -> Offset:
        unstable = self.producers.first_unstable_offset(high_watermark)
        return Offset(high_watermark if unstable is None else min(unstable, high_watermark))

    surgeon.put(Log, "stable_until", stable_until)


@named(
    "answer without a bound",
    "Nobody waits for memory that answers to slow readers take.",
    "tests/broker/test_answer_memory.py::test_a_fetch_of_many_partitions_waits_for_room_while_produces_and_heartbeats_go_on",
    reason="worlds are small, and look at no memory",
)
def _no_bound(surgeon: Surgeon) -> None:
    surgeon.put(AnswerMemory, "must_wait", lambda self, size, is_follower: False)


# -- what was suspected


@named(
    "housekeeping ends in silence",
    "Any exception that is no storage error ends housekeeping for good.",
    "tests/broker/test_failures.py::test_housekeeping_goes_on_after_any_exception",
    reason="no world has a mistake of our own to make",
)
def _housekeeping_ends(surgeon: Surgeon) -> None:
    async def run(self: Housekeeping) -> None:

        while True:
            duty = min(self._duties, key=lambda each: each.due_s)
            await asyncio.sleep(max(duty.due_s - self._loop.time(), 0))
            try:
                await duty.work()
            except StorageError as error:
                self._partitions.failures.met(error)
            self._schedule(duty)

    surgeon.put(Housekeeping, "_run", run)


@named(
    "trust an index",
    "Records are skipped in silence where an index entry is wrong.",
    "tests/log/test_index.py::test_a_wrong_index_entry_leads_past_no_record",
    reason="an index that a power loss has torn is built again at the start; one that rots later, worlds have not",
)
def _trust_index(surgeon: Surgeon) -> None:
    original = Segment._step_to
    surgeon.put(Segment, "_step_to", lambda self, offset, position, first_offset=-1: original(self, offset, position))


@named(
    "readers make indexes",
    "A reader creates an index that is missing, empty.",
    "tests/log/test_index.py::test_readers_make_no_files",
    reason="no file vanishes in a world but for the one call that says so",
)
def _readers_make(surgeon: Surgeon) -> None:
    from ottla.log.index import Index

    original = Index._opened
    surgeon.put(Index, "_opened", lambda self, create=False: original(self, create=True))


# -- coordinators, controllers and leases


@named(
    "no office under min ISR",
    "A coordinator waits for copies in sync, though nobody can commit anything meanwhile.",
    "tests/broker/test_coordinator_office.py::test_a_coordinator_under_min_isr_takes_office_and_only_reads",
    reason="in the end of a world every copy is in sync again; before, nobody is promised an answer",
)
def _no_office(surgeon: Surgeon) -> None:
    async def replicated(self: Coordinator[Any], running: Any) -> None:
        while running.partition.replica.high_watermark < running.end and self._is_loading(running):
            await self._reached(running.partition, running.end)
        running.loaded_end, running.committed = running.end, running.shard.state

    surgeon.put(Coordinator, "_replicated", replicated)


@named(
    "coordinate offline",
    "A coordinator whose directory has failed answers from what it had.",
    "tests/broker/test_coordinator_office.py::test_a_coordinator_whose_directory_is_offline_answers_for_nothing",
    reason="cluster:719855784 found it; the window is short, so a world finds it seldom",
)
def _coordinate_offline(surgeon: Surgeon) -> None:
    def in_office(self: Coordinator[Any], index: int | None) -> Any:

        running = None if index is None else self._shards.get(index)
        if running is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not running.is_active:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return running

    surgeon.put(Coordinator, "_in_office", in_office)
    surgeon.put(
        Coordinator, "_may_answer", lambda self, running: self._partitions.lease.covers(running.partition.replica)
    )


@named(
    "trust copies for a second",
    "A leader without a lease answers because its copies fetched a moment ago, not after the question.",
    "tests/broker/test_leader_lease.py::test_while_no_controller_is_heard_the_copies_are_asked_before_each_answer",
    reason="lonely:505689047 found it; within that second a commit has to be acknowledged elsewhere",
)
def _trust_copies(surgeon: Surgeon) -> None:
    surgeon.put(LeaderLease, "covers", LeaderLease.covers_writes)


@named(
    "take a copy at once",
    "A reassignment takes the copy of a leader that is cut off before it can know that another leads.",
    "tests/cluster/test_reads.py::test_no_copy_is_taken_from_a_leader_that_is_cut_off_and_still_answers",
    reason="lonely2:298709152 found it; a reassignment has to meet a leader that was cut off within its lease",
)
def _take_at_once(surgeon: Surgeon) -> None:
    from ottla.metadata import decide

    module = sys.modules["ottla.metadata.decide.hand_over"]
    surgeon.put(
        module,
        "hand_over",
        lambda image, decided, may_go, knowing=None, config=None: decide.Decision(decided.records, decided.response),
    )


@named(
    "a closed connection fences",
    "Two refused connections fence a broker whose heartbeat's connection has dropped, though it asks for metadata.",
    "tests/broker/test_broker_sessions.py::test_who_asks_for_metadata_lives_though_its_heartbeats_connection_is_closed",
    reason="being fenced breaks no promise: others lead, and the broker comes back",
)
def _closed_fences(surgeon: Surgeon) -> None:
    surgeon.put(BrokerSessions, "is_fetching", lambda self, node: False)


@named(
    "one decision stops all",
    "What cannot be appended about one group leaves later groups without their timers.",
    "tests/broker/test_coordinator_office.py::test_a_decision_that_cannot_be_appended_stops_no_other_and_comes_again",
    reason="a group without a timer keeps a member that is gone, which worlds allow until the end",
)
def _one_stops_all(surgeon: Surgeon) -> None:
    def perform_each(self: Coordinator[Any], running: Any, decisions: Any) -> None:
        for decision in decisions:
            self._perform_one(running, decision)
        self._note_deadline(running)

    surgeon.put(Coordinator, "_perform_each", perform_each)


@named(
    "unread for ever",
    "One failed read leaves a shard out of office until the next election.",
    "tests/broker/test_coordinator_office.py::test_a_shard_that_could_not_be_read_is_read_again",
    reason="after a failed read a world restarts the node, by which the shard is read again",
)
def _unread(surgeon: Surgeon) -> None:
    async def load_slices(self: Coordinator[Any], running: Any) -> None:
        try:
            await self._replay(running)
            await self._replicated(running)
        except Exception:
            return
        if self._is_loading(running):
            self._activate(running)

    surgeon.put(Coordinator, "_load_slices", load_slices)


# -- looking for them


def what_finds(fault: Named) -> str:
    """Run a fault's test with the fault put back; return how it failed, or nothing where it passed."""
    here, there = get_context("fork").Pipe(duplex=False)
    sys.stdout.flush()
    process = get_context("fork").Process(target=_run, args=(fault, there))
    process.start()
    there.close()
    try:
        if not here.poll(SECONDS_MAX):
            return f"it does not end in {SECONDS_MAX:.0f} s"
        said: str = here.recv()
        return said
    except EOFError:
        return "its process ended"
    finally:
        process.kill()
        process.join()


def _run(fault: Named, there: Connection) -> None:
    """In a process of its own: put the fault back, and have pytest run the test."""
    failures = _Failures()
    surgeon = Surgeon()
    fault.operate(surgeon)
    code = pytest.main(
        ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", fault.test], plugins=[failures]
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        failures.lines.append(f"NameError: pytest ended with {code!r}")
    there.send("; ".join(failures.lines))


class _Failures:
    """Keeps the last line of each failure."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear how a test ended."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(report.longrepr) if crash is None else crash.message
            self.lines.append((text.strip().splitlines() or ["it failed"])[0][:160])


def main() -> int:
    """Put each fault back; returns 1 where its test passes all the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.named_mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="these only")
    given = parser.parse_args()
    missed = []
    for name, each in NAMED.items():
        if given.names and name not in given.names:
            continue
        began = time.monotonic()
        said = what_finds(each)
        if any(said.startswith(outdated) for outdated in OUTDATED):
            raise AssertionError(f"the mutation {name} no longer fits the code: {said}")
        print(
            f"{name}: {'found' if said else 'not found'} by {each.test}, {time.monotonic() - began:.0f} s.", flush=True
        )
        print(f"    {each.sentence} Only there, for {each.reason}.\n    {said}", flush=True)
        if not said:
            missed.append(name)
    print(f"{len(missed)} missed" + (f": {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

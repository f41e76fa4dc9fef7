"""The code broken on purpose, in known ways: the simulation must find each. `make mutations` says in how many seeds.

Each mutation changes production code in this process only, by putting another function in a function's place.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ottla.broker.api.produce
import ottla.metadata.decide.alter_partition  # noqa: F401
from ottla.base import ErrorCode, KafkaError, Offset
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.log import MetadataLog
from ottla.broker.replicas import fetching, produce_answer, quick_produce, quick_requests
from ottla.broker.replicas.isr import IsrKeeper
from ottla.broker.replicas.leader_lease import LeaderLease
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.broker.replicas.purgatory import Purgatory
from ottla.log import Log
from ottla.log.producer_state import ProducerState
from ottla.log.producers import ProducerAppend, ProducerEntry, Producers
from ottla.log.segments import Segments
from ottla.metadata.decide import partition_change, producer_ids
from ottla.raft import elections, following
from ottla.raft.core import Core
from ottla.raft.messages import Vote
from ottla.raft.roles import Follower, Leader
from ottla.replica import Replica
from ottla.wire import record_reader
from tests.sim.pool import processors, run_worlds

__all__ = ["MUTATIONS", "Mutation", "Surgeon", "found_in", "main"]

SEEDS = 20
"""Worlds that each mutation is looked for in."""
FIRST = 5_000


OUTDATED = ("AttributeError", "NameError", "TypeError", "ImportError")
"""What a mutation that no longer fits the code leads to: that is not a finding."""


alter_partition = sys.modules["ottla.metadata.decide.alter_partition"]
"""The module, whose name its package gives to the function in it."""


class Surgeon:
    """Puts other functions in the place of production's, and takes them out again."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, new: Any) -> Any:
        """Replace an attribute of a class or module, which is returned; of a module, in all that imported it by name too."""
        old = owner.__dict__[name]
        places = [owner]
        if not isinstance(owner, type):
            modules = [module for key, module in sys.modules.items() if key.startswith("ottla.")]
            places = [module for module in modules if module.__dict__.get(name) is old]
        for place in places:
            setattr(place, name, new)
            self._undo.append(lambda place=place: setattr(place, name, old))  # type: ignore[misc]
        return old

    def heal(self) -> None:
        """Undo everything."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


@dataclass(frozen=True)
class Mutation:
    """One way to be wrong."""

    name: str
    sentence: str
    kind: str
    """Worlds of this kind must find it."""
    operate: Callable[[Surgeon], None]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Be wrong for a while."""
        surgeon = Surgeon()
        try:
            self.operate(surgeon)
            yield
        finally:
            surgeon.heal()


MUTATIONS: dict[str, Mutation] = {}


def mutation(name: str, sentence: str, kind: str) -> Callable[[Callable[[Surgeon], None]], Callable[[Surgeon], None]]:
    """Register a function as a mutation."""

    def register(operate: Callable[[Surgeon], None]) -> Callable[[Surgeon], None]:
        MUTATIONS[name] = Mutation(name, sentence, kind, operate)
        return operate

    return register


# -- the quorum


@mutation("vote twice", "A voter forgets in one epoch that it has voted for another.", "quorum")
def _vote_twice(surgeon: Surgeon) -> None:
    def would_vote(core: Core, vote: Vote) -> bool:
        up_to_date = (vote.last_epoch, vote.end_offset) >= (core.log.last_epoch, core.log.end_offset)
        if vote.pre_vote:
            return up_to_date and not isinstance(core.role, Leader | Follower)
        return up_to_date and not isinstance(core.role, Leader)

    surgeon.put(elections, "would_vote", would_vote)


@mutation(
    "forget the vote in a crash", "The election state is not written, so that a restart may vote again.", "quorum"
)
def _forget_vote(surgeon: Surgeon) -> None:
    surgeon.put(MetadataLog, "write_election", lambda self, state, kraft_version, voters: None)


@mutation("count what is not durable", "A follower asks for more before what it has taken in is on the disk.", "quorum")
def _count_unflushed(surgeon: Surgeon) -> None:
    surgeon.put(Core, "all_flushed", property(lambda self: True))


@mutation("elect a shorter log", "A vote is granted whatever the candidate's log lacks.", "quorum")
def _elect_shorter(surgeon: Surgeon) -> None:
    original = elections.would_vote

    def would_vote(core: Core, vote: Vote) -> bool:
        longest = Vote(vote.epoch, vote.candidate, core.log.last_epoch, core.log.end_offset, vote.pre_vote)
        return original(core, longest)

    surgeon.put(elections, "would_vote", would_vote)


@mutation("answer before the commit", "A decision is answered when it is appended, not when it is committed.", "quorum")
def _answer_early(surgeon: Surgeon) -> None:
    async def submit(self: Quorum, decision: Any, *, timeout_ms: int | None = None) -> Any:
        await self._settled()
        if not self.is_leader or self._failed is not None or self._stopped:
            return await original(self, decision, timeout_ms=timeout_ms)
        decided = decision(self._images.latest)
        self._propose(decided.records)
        self._pump()
        return decided.response

    original = Quorum.submit
    surgeon.put(Quorum, "submit", submit)


@mutation("apply before the commit", "A follower shows the image of records that are not committed.", "quorum")
def _apply_early(surgeon: Surgeon) -> None:

    def perform(self: Quorum, ready: Any) -> None:
        original(self, ready)
        if ready.appends and not self.is_leader and self._failed is None:
            self._commit(Offset(self._raft.log.end_offset))

    original = surgeon.put(Quorum, "_perform", perform)


@mutation("lose a voter change", "A follower takes in the records of changed voters without heeding them.", "voters")
def _lose_voters(surgeon: Surgeon) -> None:
    surgeon.put(following, "observed", lambda history, batch: history)


# -- partitions and their copies


@mutation("acknowledge before the watermark", "A write with acks=all is answered when the leader has it.", "cluster")
def _acknowledge_early(surgeon: Surgeon) -> None:
    for module in (produce_answer, quick_produce, quick_requests):
        surgeon.put(module, "must_wait", lambda partition, acks, end: False)


@mutation("acknowledge a row before the watermark", "Joined requests of one partition wait for no copy.", "cluster3")
def _acknowledge_row_early(surgeon: Surgeon) -> None:
    surgeon.put(quick_produce, "must_wait", lambda partition, acks, end: False)


@mutation("acknowledge several before the watermark", "Joined requests of several wait for no copy.", "cluster3")
def _acknowledge_several_early(surgeon: Surgeon) -> None:
    surgeon.put(quick_requests, "must_wait", lambda partition, acks, end: False)
    surgeon.put(produce_answer, "must_wait", lambda partition, acks, end: False)


@mutation("forget min.insync.replicas", "Writes are taken and committed however few copies are in sync.", "lonely")
def _forget_min_insync(surgeon: Surgeon) -> None:
    surgeon.put(Replica, "has_enough_in_sync", lambda self, least: True)
    surgeon.put(Replica, "had_enough_in_sync", lambda self, least: True)
    surgeon.put(Replica, "is_under_min_isr", property(lambda self: False))


@mutation("skip truncation", "A leader does not tell a follower where their logs part.", "cluster")
def _skip_truncation(surgeon: Surgeon) -> None:
    surgeon.put(fetching, "_has_diverged", lambda plan, partition: False)


@mutation("elect outside the ISR", "Any broker that serves may lead, whatever its copy lacks.", "cluster")
def _elect_anyone(surgeon: Surgeon) -> None:
    surgeon.put(partition_change._Change, "_is_valid", lambda self, broker_id: self.able(broker_id))


@mutation(
    "trust a disk after a power failure", "Who stopped uncleanly stays in sync and eligible (no KIP-966).", "lonely"
)
def _trust_unclean(surgeon: Surgeon) -> None:
    original = partition_change.changes_for_broker

    def changes(image: Any, change: Any, config: Any = None) -> Any:
        return original(image, replace(change, lost_data=False), config)

    surgeon.put(partition_change, "changes_for_broker", changes)


@mutation(
    "forget fencing",
    "Leaders, followers and the controller take what comes in an old leader epoch.",
    "lonely",
)
def _forget_fencing(surgeon: Surgeon) -> None:
    def refusal(image: Any, leader: int, partition: Any, asked: Any, members: Any) -> Any:
        if partition is None or not members:
            return original(image, leader, partition, asked, members)
        asked = asked.replace(leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch)
        return original(image, partition.leader, partition, asked, members)

    original = surgeon.put(alter_partition, "_refusal", refusal)
    surgeon.put(Replica, "check_epoch", lambda self, current_leader_epoch: ErrorCode.NONE)
    surgeon.put(LocalPartition, "_check_follows", lambda self, leader_epoch: None)


@mutation("shrink the ISR alone", "A leader drops a follower that lags without asking the controller.", "lonely")
def _shrink_alone(surgeon: Surgeon) -> None:
    def propose(self: Any, held: Any, isr: Any) -> None:
        replica = held.replica
        if len(isr) >= len(replica.isr):
            original(self, held, isr)
        elif replica.isr_decided(leader_epoch=replica.leader_epoch, partition_epoch=replica.partition_epoch, isr=isr):
            held.high_watermark_moved()

    original = surgeon.put(IsrKeeper, "_propose", propose)


@mutation("take anyone into the ISR", "A follower joins before it has everything that is committed.", "cluster")
def _join_early(surgeon: Surgeon) -> None:
    def may_join(self: Any, follower: Any) -> bool:
        return self.proposal is None and follower not in self.isr and self.is_leader and follower in self._followers

    surgeon.put(Replica, "may_join", may_join)


@mutation("follow beyond the commit", "A follower takes everything that it has for committed.", "cluster")
def _follow_beyond(surgeon: Surgeon) -> None:
    original = Replica.followed
    surgeon.put(Replica, "followed", lambda self, end, leader_high_watermark: original(self, end, end))


@mutation("answer from a deposed leader", "A leader that no controller hears goes on answering.", "lonely")
def _answer_deposed(surgeon: Surgeon) -> None:
    surgeon.put(LeaderLease, "covers", lambda self, replica: True)


# -- producers and transactions


@mutation("reuse a producer id", "The controller gives a block of producer ids without a record of it.", "cluster")
def _reuse_producer_id(surgeon: Surgeon) -> None:
    original = producer_ids.allocate_producer_ids

    def allocate(image: Any, *, broker_id: int, broker_epoch: int) -> Any:
        return replace(original(image, broker_id=broker_id, broker_epoch=broker_epoch), records=())

    surgeon.put(producer_ids, "allocate_producer_ids", allocate)


@mutation("forget the LSO", "Readers of committed records are shown transactions that are open.", "cluster")
def _forget_lso(surgeon: Surgeon) -> None:
    surgeon.put(LocalPartition, "last_stable_offset", lambda self: self.replica.high_watermark)


@mutation("forget who wrote", "After a truncation producers' sequences are those from before it.", "lonely2")
def _forget_who_wrote(surgeon: Surgeon) -> None:
    adopt, truncate_to = ProducerState.adopt, Log.truncate_to
    truncating: list[bool] = []

    def adopts(self: Any, producers: Any, start: int, end: int) -> None:
        if not truncating:
            adopt(self, producers, start, end)

    def truncates(self: Any, offset: int) -> None:
        truncating.append(True)
        try:
            truncate_to(self, offset)
        finally:
            truncating.pop()

    surgeon.put(ProducerState, "adopt", adopts)
    surgeon.put(Log, "truncate_to", truncates)


@mutation("append again what comes again", "A producer's earlier batches are not looked at.", "cluster")
def _append_twice(surgeon: Surgeon) -> None:
    surgeon.put(Producers, "prepare", lambda self, producer_id: ProducerAppend(self.name, producer_id, ProducerEntry()))


# -- faults that the code had, put back; others are in tests/faults/mutations.py and named_mutations.py


@mutation(
    "headers must be text",
    "Reading a record whose header's name is no UTF-8 raises, as a look-up's once did.",
    "cluster2",
)
def _strict_headers(surgeon: Surgeon) -> None:
    surgeon.put(record_reader, "text_of", lambda data: data.decode())


@mutation(
    "tell of all that was aborted",
    "A fetch of committed records lists the aborted transactions up to the stable offset, not those of its slice.",
    "broker2",
)
def _tell_of_all(surgeon: Surgeon) -> None:
    original = Segments.aborted
    surgeon.put(Segments, "aborted", lambda self, offset, upper_bound, found: original(self, offset, upper_bound, None))


# -- faults of two things at once, put back: they need an order that a quiet loop seldom has


@mutation(
    "wait for a flush that is done",
    "Who flushes waits for a flush that is done, and whose callback says so later, without letting it run.",
    "broker4",
)
def _wait_for_done(surgeon: Surgeon) -> None:
    async def flush(self: LocalPartition) -> None:
        end = self.log.log_end_offset
        while self.log.recovery_point < end and not self.is_offline:
            if self._flush is None:
                self._flush = asyncio.ensure_future(self._flush_once())
                self._flush.add_done_callback(lambda _: setattr(self, "_flush", None))
            await asyncio.shield(self._flush)
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    surgeon.put(LocalPartition, "flush", flush)


@mutation(
    "hide the timer while it ticks",
    "What one delayed answer's end leads to wakes none of those that still wait.",
    "broker4",
)
def _hide_timer(surgeon: Surgeon) -> None:
    def tick(self: Purgatory) -> None:
        self._timer = None
        original(self)

    original = surgeon.put(Purgatory, "_tick", tick)


@mutation(
    "read a codec again",
    "The codec of a topic is read once to choose what to recompress, and again when each batch's turn comes.",
    "broker4",
)
def _read_codec_again(surgeon: Surgeon) -> None:
    class ReadAgain(list[Any]):
        """What the worker process is to look into; what is to be recompressed has its codec read when its turn comes."""

        hosted: dict[int, LocalPartition]

        def __iter__(self) -> Iterator[Any]:
            for each in super().__iter__():
                now = self.hosted[id(each.data)].recompress_to
                yield each if each.codec is None else each._replace(codec=object() if now is None else now)

    def to_check(context: Any, request: Any) -> Any:
        found = ReadAgain(original(context, request))
        partitions = context.services.partitions
        found.hosted = {
            id(data): partitions.get(topic.name or partitions.topic_name(topic.topic_id) or "", data.index)
            for topic in request.topic_data
            for data in topic.partition_data
        }
        return found

    original = surgeon.put(sys.modules["ottla.broker.api.produce"], "_to_check", to_check)


# -- looking for them


def found_in(mutation: Mutation, seeds: range, *, enough: int | None = None, workers: int = 1) -> tuple[int, int, str]:
    """Return in how many of how many worlds a mutation was found, and the first finding."""
    found, tried, first = 0, 0, ""
    names = [f"{mutation.kind}:{seed}" for seed in seeds]
    with mutation.applied():
        for _, outcome in run_worlds(names, workers):
            tried += 1
            if outcome.error:
                last = outcome.error.strip().splitlines()[-1]
                if any(each in outcome.error for each in OUTDATED):
                    raise AssertionError(f"the mutation {mutation.name} no longer fits the code: {last}")
                found += 1
                first = first or last[:160]
            if enough is not None and found >= enough:
                break
    return found, tried, first


def main() -> int:
    """Look for every mutation; returns 1 where one was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="these only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="worlds for each")
    parser.add_argument("--first", type=int, default=FIRST, help="the first world")
    parser.add_argument("--enough", type=int, help="stop with a mutation when it was found so often")
    given = parser.parse_args()
    if not os.environ.get("OTTLA_PURE"):  # a compiled module does not look up what stands in its own names
        os.execve(
            sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], os.environ | {"OTTLA_PURE": "1"}
        )
    asyncio.set_event_loop(None)
    missed = []
    for name, each in MUTATIONS.items():
        if given.names and name not in given.names:
            continue
        began = time.monotonic()
        found, tried, first = found_in(
            each, range(given.first, given.first + given.seeds), enough=given.enough, workers=processors()
        )
        print(f"{name}: found in {found} of {tried} worlds, {time.monotonic() - began:.0f} s. {each.sentence}")
        print(f"    {first}", flush=True)
        if not found:
            missed.append(name)
    print(f"{len(MUTATIONS) - len(missed)} found, {len(missed)} missed" + (f": {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

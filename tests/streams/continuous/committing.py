"""A cluster, hosts and a driver as values, for the fold of commits: any of them may stop, be late or be deaf at any step.

A work counts its records: record n leaves the result (n, n + 1). A result that is there twice, or not at all, or a count
that is not the next one, is seen at the end. Requests of a host travel in order, and those of a host that is gone may still
arrive; each answer may be lost. The driver may take a host for dead that lives: it fences it and gives its works away.

Exactly once, hosts save what they hold at their commits; the files arrive late, those of a host that is gone too, and over
newer ones; some are damaged by being of a commit that never was. Whoever restores begins with a file where `why_unusable`
lets it, and must come to the state that the committed results tell.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.base import TopicPartition
from ottla.streams import Bounds, ChangelogPosition, StateCheckpoint, WorkIdentity, why_unusable
from ottla.streams.commit import (
    Commit,
    CommitEvent,
    CommitFailed,
    Done,
    Due,
    End,
    Ended,
    Flush,
    Flushed,
    GoBack,
    Leave,
    OffsetsStored,
    Phase,
    Restored,
    StoreOffsets,
    WhyFailed,
    commit_step,
)
from ottla.streams.placing import Places, StreamsWork, orders

__all__ = ["Simulation"]

Result = tuple[int, int]
OK, FENCED, STALE = "ok", "fenced", "stale"


def place_of(work: StreamsWork) -> TopicPartition:
    """Return the partition that a work reads."""
    return TopicPartition(f"in-{work.sub_topology}", work.partition)


def changelog_of(work: StreamsWork) -> TopicPartition:
    """Return the topic of a work's changes: here its results."""
    return TopicPartition(f"log-{work.application}-{work.sub_topology}", work.partition)


def identity_of(work: StreamsWork) -> WorkIdentity:
    """Return whose a work's file is."""
    return WorkIdentity("cluster", work, "shape")


@dataclass
class _Transaction:
    results: list[tuple[StreamsWork, Result]] = field(default_factory=list)
    offsets: dict[StreamsWork, int] = field(default_factory=dict)


class Cluster:
    """Logs of results, committed offsets, and transactional ids with their epochs."""

    def __init__(self, exactly_once: bool, works: tuple[StreamsWork, ...], records: int) -> None:
        self.exactly_once, self.records = exactly_once, records
        self.results: dict[StreamsWork, list[Result]] = {each: [] for each in works}
        self.offsets = dict.fromkeys(works, 0)
        self.generations = {each.application: 1 for each in works}
        self._epochs: dict[int, int] = {}
        self._open: dict[int, _Transaction] = {}

    def take_over(self, number: int) -> int:
        """Init: abort what is open, and return the new epoch."""
        self._open.pop(number, None)
        self._epochs[number] = self._epochs.get(number, 0) + 1
        return self._epochs[number]

    def append(self, number: int, epoch: int, work: StreamsWork, results: list[Result]) -> str:
        """Produce."""
        if not self.exactly_once:
            self.results[work] += results
            return OK
        if self._epochs.get(number) != epoch:
            return FENCED
        self._open.setdefault(number, _Transaction()).results += [(work, each) for each in results]
        return OK

    def store(self, number: int, epoch: int, generation: int, offsets: dict[StreamsWork, int]) -> str:
        """OffsetCommit, or TxnOffsetCommit."""
        if self.exactly_once and self._epochs.get(number) != epoch:
            return FENCED
        if any(self.generations[each.application] != generation for each in offsets):
            return STALE
        if self.exactly_once:
            self._open.setdefault(number, _Transaction()).offsets.update(offsets)
        else:
            self.offsets.update(offsets)
        return OK

    def end(self, number: int, epoch: int) -> str:
        """EndTxn: commit."""
        if self._epochs.get(number) != epoch:
            return FENCED
        done = self._open.pop(number, _Transaction())
        for work, result in done.results:
            self.results[work].append(result)
        self.offsets.update(done.offsets)
        return OK


@dataclass
class Host:
    """One life of a host, as it sees itself."""

    number: int
    epoch: int
    state: Commit
    generations: dict[str, int]
    held: dict[StreamsWork, int] = field(default_factory=dict)
    """By work, the next record."""
    made: dict[StreamsWork, list[Result]] = field(default_factory=dict)
    leaving: set[StreamsWork] = field(default_factory=set)
    written: dict[StreamsWork, int] = field(default_factory=dict)
    """How many results each work's log has, as this host knows: behind what it has committed."""
    is_alive: bool = True
    calls: deque[Callable[[], None]] = field(default_factory=deque)
    """Requests under way, each a call that delivers it."""


class Simulation:
    """Everything together, by one seed."""

    def __init__(self, seed: int, *, exactly_once: bool) -> None:
        self.rng = random.Random(seed)
        self.works = tuple(StreamsWork(name, 0, part) for name in ("a", "b") for part in range(2))
        self.cluster = Cluster(exactly_once, self.works, records=30)
        self.places = Places().wanting(self.works)
        self.hosts: dict[int, Host] = {}
        """Whom the driver believes to be there."""
        self.everyone: list[Host] = []
        self.disk: dict[StreamsWork, StateCheckpoint] = {}
        self.used = self.refused = 0
        """How often a restart began with a file, and did not."""

    def run(self, turns: int = 600) -> None:
        """Let things happen, then let nothing more go wrong until all is done."""
        for _ in range(turns):
            self._one(self.rng.choice(("turn", "deliver", "deliver", "deliver", "commit", "driver", "trouble")))
        self._trouble_ends()

    def _trouble_ends(self) -> None:
        for number in (0, 1):
            if number not in self.hosts or not self._is_well(self.hosts[number]):
                self._start(number)
        for _ in range(20_000):
            self._one(self.rng.choice(("turn", "deliver", "commit", "driver")), lossless=True)
            for host in list(self.hosts.values()):
                if not self._is_well(host):
                    self._start(host.number)
            if all(self.cluster.offsets[each] == self.cluster.records for each in self.works):
                return
        raise AssertionError("not everything was done in the end")

    @staticmethod
    def _is_well(host: Host) -> bool:
        return host.is_alive and host.state.phase is not Phase.OVER

    def _one(self, what: str, *, lossless: bool = False) -> None:
        lives = [each for each in self.everyone if each.is_alive]
        match what:
            case "turn" if lives:
                self._turn(self.rng.choice(lives))
            case "deliver":
                waiting = [each for each in self.everyone if each.calls]
                if waiting:
                    self._lossless = lossless
                    self.rng.choice(waiting).calls.popleft()()
            case "commit" if lives:
                host = self.rng.choice(lives)
                self._step(host, Due(self._positions(host)))
                self._let_go(host)
            case "driver":
                self._drive()
            case "trouble":
                self._trouble()

    # -- hosts

    def _turn(self, host: Host) -> None:
        if host.state.phase is not Phase.RUNNING:
            return
        for work, at in host.held.items():
            until = min(self.cluster.records, at + self.rng.randrange(3))
            host.made.setdefault(work, []).extend((n, n + 1) for n in range(at, until))
            host.held[work] = until

    def _positions(self, host: Host) -> dict[str, dict[TopicPartition, int]]:
        found: dict[str, dict[TopicPartition, int]] = {}
        for work in host.made:
            if host.made[work]:
                found.setdefault(work.application, {})[place_of(work)] = host.held[work]
        return found

    def _step(self, host: Host, event: CommitEvent) -> None:
        host.state, effects = commit_step(host.state, event)
        epoch = host.epoch  # what is under way keeps the epoch that it was sent with
        for effect in effects:
            match effect:
                case Flush(number):
                    self._flush(host, number)
                case StoreOffsets(number, application, positions):
                    offsets = {each: positions[place_of(each)] for each in self._of(host, application, positions)}
                    generation = host.generations[application]
                    self._send(
                        host,
                        lambda e=epoch, g=generation, o=offsets: self.cluster.store(host.number, e, g, o),
                        lambda n=number, a=application: OffsetsStored(n, a),
                        number,
                    )
                case End(number):
                    self._send(
                        host, lambda e=epoch: self.cluster.end(host.number, e), lambda n=number: Ended(n), number
                    )
                case Done():
                    for work, results in host.made.items():
                        host.written[work] = host.written.get(work, 0) + len(results)
                    host.made = {}
                    self._save(host)
                    self._let_go(host)
                case GoBack():
                    self._go_back(host)
                case Leave():
                    host.is_alive = False

    @staticmethod
    def _of(host: Host, application: str, positions: object) -> Iterator[StreamsWork]:
        for work in host.held:
            if work.application == application and place_of(work) in positions:  # type: ignore[operator]
                yield work

    def _flush(self, host: Host, number: int) -> None:
        epoch, unanswered = host.epoch, [work for work, results in host.made.items() if results]

        def one_less(work: StreamsWork) -> CommitEvent | None:
            unanswered.remove(work)
            return None if unanswered else Flushed(number)

        for work, results in host.made.items():
            if results:
                self._send(
                    host,
                    lambda e=epoch, w=work, r=list(results): self.cluster.append(host.number, e, w, r),
                    lambda w=work: one_less(w),
                    number,
                )

    def _send(
        self, host: Host, request: Callable[[], str], answered: Callable[[], CommitEvent | None], number: int
    ) -> None:
        def deliver() -> None:
            is_lost = not self._lossless and self.rng.random() < 0.08
            said = OK if is_lost and self.rng.random() < 0.5 else request()
            if not host.is_alive:
                return
            if is_lost:
                event: CommitEvent | None = CommitFailed(number, WhyFailed.UNKNOWN)
            elif said == OK:
                event = answered()
            else:
                event = CommitFailed(number, WhyFailed(said))
            if event is None:
                return
            if not self._lossless and self.rng.random() < 0.2:
                host.calls.append(lambda: self._step(host, event))  # the answer is late
            else:
                self._step(host, event)

        host.calls.append(deliver)

    def _go_back(self, host: Host) -> None:
        """Ask the driver whether this is still its host; take the id anew, and begin with what is committed."""
        if self.hosts.get(host.number) is not host:
            host.is_alive = False
            return
        host.epoch = self.cluster.take_over(host.number)
        host.generations = dict(self.cluster.generations)
        host.made = {}
        for work in host.held:
            host.held[work] = self._restored(host, work)
        self._step(host, Restored())

    def _restored(self, host: Host, work: StreamsWork) -> int:
        """Return what a work holds that is taken on: the count of its records, by a file and by what is behind it."""
        offset, results = self.cluster.offsets[work], self.cluster.results[work]
        host.written[work] = len(results)
        if not self.cluster.exactly_once:
            return offset
        assert len(results) == offset, "the state is not that of the offsets"
        count, begin = 0, 0
        saved = self.disk.get(work)
        if saved is not None:
            log = changelog_of(work)
            why = why_unusable(
                saved,
                identity_of(work),
                committed={place_of(work): offset},
                changelogs={log: Bounds("id", 0, len(results))},
                now_ms=0,
            )
            if why is None:
                count, begin = int(saved.blobs["count"]), saved.changelogs[log].offset
                self.used += 1
            else:
                self.refused += 1
        for number, result in results[begin:]:
            assert number == count, "a change that the state does not follow"
            count = result
        assert count == offset, "the state is not that of the offsets"
        return count

    def _save(self, host: Host, *, ahead: bool = False) -> None:
        """Have what a host holds written some time, of what is committed, or wrongly of what is not yet."""
        for work in host.held if self.cluster.exactly_once else ():
            if self.rng.random() < 0.3:
                count, end = host.held[work], host.written.get(work, 0)
                if ahead:
                    end += len(host.made.get(work, ()))
                log = {changelog_of(work): ChangelogPosition("id", end)}
                state = StateCheckpoint(identity_of(work), 0, {place_of(work): count}, log, {"count": b"%d" % count})
                host.calls.append(lambda w=work, s=state: self.disk.__setitem__(w, s))

    def _let_go(self, host: Host) -> None:
        """Tell the driver of works that are committed and wanted elsewhere."""
        if self.hosts.get(host.number) is not host or host.state.phase is not Phase.RUNNING:
            return
        free = [each for each in host.leaving if not host.made.get(each)]
        for each in free:
            host.held.pop(each, None)
            host.leaving.discard(each)
        self.places = self.places.released(host.number, free)

    # -- the driver

    def _start(self, number: int) -> None:
        """Start a host, and with it take its transactional id over."""
        epoch = self.cluster.take_over(number)
        host = Host(number, epoch, Commit(self.cluster.exactly_once), dict(self.cluster.generations))
        self.hosts[number] = host
        self.everyone.append(host)
        self.places = self.places.joined(number)

    def _drive(self) -> None:
        if self.hosts and self.rng.random() < 0.05:
            costs = {each: self.rng.random() for each in self.works}
            self.places = self.places.measured(costs)
        self.places, said = orders(self.places)
        for number in said.fence:
            self.cluster.take_over(number)
            self.places = self.places.fenced(number)
        for number, works in said.assign.items():
            for work in works:
                self.hosts[number].held[work] = self._restored(self.hosts[number], work)
        for number, works in said.revoke.items():
            self.hosts[number].leaving |= set(works)

    def _trouble(self) -> None:
        number = self.rng.randrange(2)
        host = self.hosts.get(number)
        match self.rng.randrange(8):
            case 0 if host is not None:  # killed
                host.is_alive = False
            case 1 if host is not None:  # cut off: it lives, and the driver believes it dead
                del self.hosts[number]
                self.places = self.places.left(number)
            case 3 if host is not None and self._is_well(host):  # saved too early: nobody may believe it
                self._save(host, ahead=True)
            case 2:  # another driver, or the same one again: members of an older generation store nothing
                name = self.rng.choice(self.works).application
                self.cluster.generations[name] += 1
                for each in self.hosts.values():
                    each.generations[name] = self.cluster.generations[name]
            case _ if host is None or not self._is_well(host):
                self._start(number)

    _lossless = False

"""One lane of a host: works that share clients, a transactional id and commits, and the loop that runs them.

A turn takes what has come to each work through its executor. At least once, results leave at the end of the turn; exactly
once they are held until the commit, so that a transaction is open for as long as the commit takes. `ottla.streams.commit`
says what follows what; this file does it.

A work that fails takes its application's works off the lane: nothing of a turn is sent before all of the application's works
have made their results, so its neighbours lose nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Iterable, Mapping

from ottla.background import supervise
from ottla.base import FENCED, ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import (
    Client,
    Isolation,
    Limits,
    TransactionalProducer,
)
from ottla.spark.continuous.arrivals import Queue
from ottla.spark.continuous.beside import (
    OUTSIDE,
    STALE,
    Doors,
    FencedError,
    LaneListener,
    OnHost,
    store_offsets,
    transactional_id,
)
from ottla.spark.continuous.fetching import Fetching
from ottla.spark.continuous.meters import LaneMeters
from ottla.spark.continuous.plan import ApplicationPlan
from ottla.spark.continuous.refusals import Refusals
from ottla.spark.continuous.restoring import begin_work
from ottla.spark.continuous.saving import Saving, files_of
from ottla.spark.continuous.standby import Standby
from ottla.spark.continuous.work import Made, Work
from ottla.spark.continuous.writing import Writer
from ottla.spark.failpoints import failpoint
from ottla.spark.source.secured import network_of
from ottla.streams import StreamsWork, commit

__all__ = ["OUTSIDE", "Doors", "FencedError", "Lane", "LaneListener", "OnHost", "transactional_id"]

log = logging.getLogger(__name__)
TURN_SECONDS = 0.05
"""After so long the turn ends, so that results leave and commits are not late."""
IDLE_SECONDS = 0.5
BACK_SECONDS = 0.2
BACK_SECONDS_MAX = 5.0
"""Between two tries to go back."""
BACK_TRIES = 20
COMMIT_SHARE = 0.3
"""The interval widens until commits take no more than this part of the time."""
TAKEN_OVER = FENCED | {ErrorCode.FENCED_INSTANCE_ID}


class Lane:
    """See the module's description; `run` until `stop`."""

    def __init__(
        self,
        service: str,
        host: int,
        plan: ApplicationPlan,
        listener: LaneListener,
        applications: Mapping[str, OnHost],
        doors: Doors = OUTSIDE,
    ) -> None:
        """`plan` is of any application of the lane; `applications` are the host's, all of them."""
        self.key = plan.lane
        self._plan, self._listener, self._applications, self._doors = plan, listener, applications, doors
        self._id = transactional_id(service, host, self.key)
        self._client_id = f"{plan.client_id}-host-{host}"
        self._writing, self._reading = self._client("writer"), self._client("reader", _READER)
        self._writer: Writer | None = None
        self._refusals = Refusals(plan.codec)
        self._transaction: TransactionalProducer | None = None
        isolation = Isolation.READ_COMMITTED if plan.exactly_once else Isolation.READ_UNCOMMITTED
        self._fetching = Fetching(
            self._reading,
            isolation=isolation,
            fetch_bytes=plan.fetch_bytes,
            arrived=self.wake,
            failed=self._unreadable,
        )
        self.works: dict[StreamsWork, Work] = {}
        self._restoring: dict[StreamsWork, asyncio.Task[None]] = {}
        self._following: dict[StreamsWork, tuple[Standby, asyncio.Task[None]]] = {}
        self._following_client: Client | None = None
        """Of its own, so that what it reads holds up no commit."""
        self._leaving: set[StreamsWork] = set()
        self._back: list[StreamsWork] = []
        """Works that are given up while the lane goes back, and are restored after it."""
        self._commit = commit.Commit(plan.exactly_once)
        self._commit_at_s = 0.0
        self._begun_s: float | None = None
        """Since when something waits to be committed."""
        self._commit_s = 0.0
        self._saving = Saving()
        self._made: dict[StreamsWork, tuple[Work, Made]] = {}
        self._committing: list[tuple[Work, Made]] = []
        """What the commit under way has to send: with it go the positions, whether the works stay here or not."""
        self._untold: list[tuple[str, list[StreamsWork], str]] = []
        """Applications that were taken off while a commit of theirs is under way, their works, and why."""
        self._words: dict[TopicPartition, str] = {}
        self._whose: dict[str, OnHost] = {}
        """The applications of the commit under way, as they were when it began: one that is forgotten and comes again is
        another, which has nothing to do with this commit."""
        self._is_open = asyncio.Event()
        """Set while nobody but this lane can commit by its transactional id: before that no committed offset is the last."""
        self._wake = asyncio.Event()
        self._is_stopping = False
        self.in_hand: tuple[str, float] | None = None
        """Whose functions run now, and since when."""
        self.meters = LaneMeters()
        self.commits = 0
        self.commit_s_total = self.commit_s_max = 0.0
        self.busy_s = 0.0
        self.turns = 0
        self._fetched_before = 0

    def _client(self, part: str, limits: Limits | None = None) -> Client:
        plan = self._plan
        return self._doors.client(
            plan.bootstrap,
            client_id=f"{self._client_id}-{part}",
            limits=limits or Limits.of_task(30_000),
            network=network_of(plan.security),
        )

    @property
    def fetches(self) -> int:
        """How many Fetches were answered."""
        return self._fetching.fetches

    @property
    def fetched_bytes(self) -> int:
        """Bytes of records that they brought."""
        return self._fetching.bytes

    @property
    def restoring(self) -> int:
        """How many works are being restored."""
        return len(self._restoring)

    # -- orders, in the loop

    def wake(self) -> None:
        """Have the next turn come soon."""
        self._wake.set()

    def assign(self, works: Iterable[StreamsWork]) -> None:
        """Take works on: each is restored beside those that run."""
        for name in works:
            if name not in self.works and name not in self._restoring:
                self._leaving.discard(name)  # taken away before it had failed: that order is done
                followed = self._stop_following(name)
                task = supervise(self._take_on(name, followed), name=f"restore {name}", serves=f"{name}")
                self._restoring[name] = task

    def follow(self, works: Iterable[StreamsWork]) -> None:
        """Keep copies of works' states from now on."""
        for name in works:
            found = self._applications.get(name.application)
            if found is None or name in self.works or name in self._restoring or name in self._following:
                continue
            if self._following_client is None:
                self._following_client = self._client("standby")
            standby = Standby(self._following_client, found.plan, name)
            task = supervise(standby.run(), name=f"standby {name}", serves=f"{name}")
            self._following[name] = standby, task

    def unfollow(self, works: Iterable[StreamsWork]) -> None:
        """Keep no copies of these any more."""
        for name in works:
            self._stop_following(name)

    def _stop_following(self, name: StreamsWork) -> Standby | None:
        found = self._following.pop(name, None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    @property
    def standbys(self) -> list[Standby]:
        """The copies that are kept here."""
        return [standby for standby, _ in self._following.values()]

    def revoke(self, works: Iterable[StreamsWork]) -> None:
        """Let works go, after a commit."""
        wanted = set(works)
        for name in wanted & self._restoring.keys():
            self._restoring.pop(name).cancel()
        untold = {each for _, works, _ in self._untold for each in works}
        here = self.works.keys() | set(self._back) | untold
        gone = wanted - here
        if gone:
            self._listener.on_released(gone)
        self._leaving |= wanted & here
        self.wake()

    def drop(self, application: str) -> list[StreamsWork]:
        """Give up what an application has here; what of it is not committed is lost, and done again elsewhere."""
        self.unfollow([each for each in self._following if each.application == application])
        restoring = [each for each in self._restoring if each.application == application]
        for name in restoring:
            self._restoring.pop(name).cancel()
        gone = [each for each in self.works if each.application == application]
        for name in gone:
            self._fetching.remove(self.works.pop(name).queues)
            self.meters.closed += 1
            self._made.pop(name, None)
        back = [each for each in self._back if each.application == application]
        self._back = [each for each in self._back if each.application != application]
        self._leaving -= {*gone, *back}
        return restoring + gone + back

    def forget(self, application: str) -> None:
        """Give up what an application has here, and say nothing more about it: it may come again, and be another."""
        self.drop(application)
        self._untold = [each for each in self._untold if each[0] != application]
        self._leaving = {each for each in self._leaving if each.application != application}

    def set_paused(self, application: str, *, paused: bool) -> None:
        """Have an application's works read nothing any more, or go on."""
        for name, work in self.works.items():
            if name.application == application:
                if paused:
                    self._fetching.remove(work.queues)
                else:
                    self._fetching.add(self._to_read(work))
        self.wake()

    def drain(self, application: str) -> None:
        """Have an application's works read no more than what they write for one another: its repartition topics."""
        for name, work in self.works.items():
            if name.application == application:
                wanted = self._to_read(work)
                self._fetching.remove([each for each in work.queues if each not in wanted])

    def _to_read(self, work: Work) -> list[Queue]:
        """Return what a work reads now: nothing while it is paused, and its repartition topics alone while it is drained."""
        found = self._applications.get(work.name.application)
        if found is None or found.is_paused:
            return []
        own = work.plan.repartition_topics
        return [each for each in work.queues if not found.is_draining or each.partition.topic in own]

    def give_up(self, error: BaseException) -> None:
        """Take every application off, since the lane has failed."""
        back, self._back = self._back, []
        for name in sorted({each.application for each in (*self.works, *self._restoring, *back)}):
            self._failed(name, error, [each for each in back if each.application == name])
        self._tell_failed(whole=True)

    def _is_paused(self, application: str) -> bool:
        found = self._applications.get(application)
        return found is not None and found.is_paused

    def stop(self) -> None:
        """Have `run` commit and return."""
        self._is_stopping = True
        self.wake()

    # -- the loop

    async def run(self) -> None:
        """Run until `stop`; raises FencedError, and KafkaError where the cluster cannot be reached for long."""
        try:
            await self._open()
            self._fetching.start()
            while not self._is_stopping:
                await self._wait()
                await self._turn()
            await self._commit_all()
            if self._writer is not None:
                await self._saving.finish(self.works, self._writer.changelog_ends)
        finally:
            await self._close()

    async def _open(self) -> None:
        """Begin to send; exactly once by taking the transactional id over.

        Whoever has given this host's works away has taken the id over before. So the driver is asked behind it: where it
        had done so earlier, this host must not have the id again.
        """
        plan = self._plan
        if plan.exactly_once:
            self._transaction = TransactionalProducer(self._writing, self._id, timeout_ms=plan.transaction_timeout_ms)
            await self._transaction.begin()
            await self._listener.confirm()
        self._writer = Writer(
            self._writing, acks=plan.acks, codec=plan.codec, refusals=self._refusals, transaction=self._transaction
        )
        await self._writer.start()
        self._is_open.set()

    async def _close(self) -> None:
        for task in self._restoring.values():
            task.cancel()
        await asyncio.gather(*self._restoring.values(), return_exceptions=True)
        await self._fetching.close()
        if self._writer is not None:
            await self._writer.close()
        following = [task for _, task in self._following.values()]
        self.unfollow(list(self._following))
        await asyncio.gather(*following, return_exceptions=True)
        if self._following_client is not None:
            await self._following_client.close()
        await self._reading.close()
        await self._writing.close()

    async def _wait(self) -> None:
        """Wait for records, an order, or a time that is due."""
        if not self._wake.is_set():
            now_s = asyncio.get_running_loop().time()
            wait_s = IDLE_SECONDS if self._begun_s is None else self._due_s() - now_s
            running = [each for each in self.works.values() if not self._is_paused(each.name.application)]
            due = [each for work in running if (each := work.due_ms()) is not None]
            if due:
                wait_s = min(wait_s, (min(due) - _now_ms()) / 1000)
            timer = asyncio.get_running_loop().call_later(max(0.0, wait_s), self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self.meters.poll.add(asyncio.get_running_loop().time() - now_s)
        self._wake.clear()
        if (error := self._fetching.error) is not None:
            raise error

    def _note_fetched(self) -> None:
        """Count what has come since this was called before."""
        count, self._fetched_before = self._fetching.records - self._fetched_before, self._fetching.records
        if count:
            self.meters.poll_records.add(count)

    def _due_s(self) -> float:
        """Return when the commit is due, by the loop's time."""
        interval_s = max(self._plan.commit_interval_ms / 1000, self._commit_s / COMMIT_SHARE)
        return self._commit_at_s + interval_s

    async def _turn(self) -> None:
        """Process what has come; send it, or commit, where that is due."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self.turns += 1
        self._note_fetched()
        for work in list(self.works.values()):
            self._process(work)
            if loop.time() - began_s > TURN_SECONDS:
                self.wake()
                break
        if any(each.has_work for each in self.works.values() if not self._is_paused(each.name.application)):
            self.wake()
        if self._begun_s is None and any(each.is_dirty for each in self.works.values()):
            self._begun_s = began_s
        self.busy_s += loop.time() - began_s
        self._fetching.taken()
        if not self._plan.exactly_once:
            await self._send()
        if self._leaving or (self._begun_s is not None and loop.time() >= self._due_s()):
            await self._commit_all()
        if self._writer is not None and self._commit.phase is commit.Phase.RUNNING:
            self._saving.look(self.works, self._writer.changelog_ends)
        await asyncio.sleep(0)

    def _process(self, work: Work) -> None:
        """Take a work through what waits for it."""
        if work.name not in self.works:
            return  # another of its application has failed in this turn
        if self._is_paused(work.name.application):
            return
        due_ms, now_ms = work.due_ms(), _now_ms()
        if not work.has_work and (due_ms is None or due_ms > now_ms):
            return
        began_s = time.perf_counter()
        self.in_hand = work.name.application, time.monotonic()
        try:
            count = work.process()
            if count:
                self.meters.process.add(time.perf_counter() - began_s, count)
                self.meters.process_records.add(count)
            if due_ms is not None and due_ms <= now_ms:
                before_s = time.perf_counter()
                work.advance(now_ms)
                self.meters.punctuate.add(time.perf_counter() - before_s)
        except Exception as error:  # a user's function may raise anything
            self._failed(work.name.application, error)
        self.in_hand = None
        took_s = time.perf_counter() - began_s
        work.counts.turns += 1
        work.counts.process_s += took_s
        work.counts.process_s_max = max(work.counts.process_s_max, took_s)

    def _collect(self, *, whole: bool) -> None:
        """Have works say what they have made, all or those that hold nothing back; who fails takes its application off."""
        for work in list(self.works.values()):
            if work.name not in self.works or (work.holds_back and not whole):
                continue
            self.in_hand = work.name.application, time.monotonic()
            try:
                made = work.made()
            except Exception as error:  # a user's function may raise anything
                self._failed(work.name.application, error)
                continue
            finally:
                self.in_hand = None
            if made is not None:
                before = self._made.get(work.name)
                if before is None:
                    self._made[work.name] = work, made
                else:
                    before[1].outputs.extend(made.outputs)
                    before[1].changes.extend(made.changes)

    def _take_made(self) -> list[tuple[Work, Made]]:
        """Return what was collected of applications that may commit; that of others waits."""
        taken = [name for name in self._made if self._may_commit(name.application)]
        return [self._made.pop(name) for name in taken]

    def _may_commit(self, application: str) -> bool:
        found = self._applications.get(application)
        return found is not None and found.member is not None

    async def _gather(self, made: Iterable[tuple[Work, Made]]) -> None:
        """Hand to the producer what was collected; raises KafkaError."""
        assert self._writer is not None
        for work, each in made:
            changelogs, produced = work.group.changelogs, work.produced
            partition = work.name.partition
            work.counts.poison += await self._writer.gather(work.plan, partition, changelogs, each, produced)

    async def _send(self) -> None:
        """Have what this turn made leave, but for what waits to be told with more that is on its way."""
        self._collect(whole=False)
        if not self._made:
            return
        assert self._writer is not None
        try:
            made, self._made = self._made, {}
            await self._gather(made.values())
            await self._writer.send()
        except (KafkaError, OSError) as error:
            await self._step(commit.CommitFailed(self._commit.number, _why(error), self._writer.culprit), error)

    # -- commits

    async def _commit_all(self) -> None:
        """Commit whatever has moved, and let go of the works that are to leave."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._collect(whole=True)
        positions: dict[str, dict[TopicPartition, int]] = {}
        self._words = {}
        for work in self.works.values():
            if self._may_commit(work.name.application) and (moved := work.moved()):
                positions.setdefault(work.name.application, {}).update(moved)
                self._words.update(work.words())
        if positions:
            self._committing = self._take_made()
            self._whose = {name: self._applications[name] for name in positions}
        await self._step(commit.Due(positions))
        self._whose = {}
        self._begun_s, self._commit_at_s = None, began_s
        if positions:
            took_s = loop.time() - began_s
            self._commit_s = took_s if not self._commit_s else 0.8 * self._commit_s + 0.2 * took_s
            self.commits += 1
            self.commit_s_total += took_s
            self.commit_s_max = max(self.commit_s_max, took_s)
            self.meters.commit.add(took_s)
        self._let_go()

    async def _step(self, event: commit.CommitEvent, error: BaseException | None = None) -> None:
        """Take an event through the fold, and do what comes of it; what is asked of the cluster goes together."""
        events: list[tuple[commit.CommitEvent, BaseException | None]] = [(event, error)]
        while events:
            event, error = events.pop(0)
            self._commit, effects = commit.commit_step(self._commit, event)
            self._tell_failed()
            asked = [each for each in effects if isinstance(each, commit.Flush | commit.StoreOffsets | commit.End)]
            if asked:
                events += await asyncio.gather(*map(self._do, asked))
            for effect in effects:
                match effect:
                    case commit.Done(positions):
                        self._done(positions)
                    case commit.GoBack(application):
                        await self._go_back(application, error)
                        events.append((commit.Restored(), None))
                    case commit.Leave():
                        raise FencedError(str(error)) from error

    async def _do(
        self, effect: commit.Flush | commit.StoreOffsets | commit.End
    ) -> tuple[commit.CommitEvent, BaseException | None]:
        """Carry out a step; returns what came of it."""
        assert self._writer is not None
        try:
            match effect:
                case commit.Flush(number):
                    made, self._committing = self._committing, []
                    await self._gather(made)
                    await self._writer.flush()
                    failpoint("continuous: before offsets")
                    return commit.Flushed(number), None
                case commit.StoreOffsets(number, application, positions):
                    await self._store(application, positions)
                    return commit.OffsetsStored(number, application), None
                case commit.End(number):
                    failpoint("continuous: before EndTxn")
                    await self._writer.producer.end(commit=True)
                    failpoint("continuous: after EndTxn")
                    return commit.Ended(number), None
        except (KafkaError, OSError) as error:
            whose = effect.application if isinstance(effect, commit.StoreOffsets) else self._writer.culprit
            return commit.CommitFailed(effect.number, _why(error), whose), error

    async def _store(self, application: str, positions: Mapping[TopicPartition, int]) -> None:
        found = self._whose[application]
        if self._applications.get(application) is not found or found.member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{application} is not on this host any more")
        offsets = {each: Offset(offset) for each, offset in positions.items()}
        words = {each: self._words[each] for each in offsets}
        if self._transaction is not None:
            await self._transaction.commit_offsets(offsets, found.member, words=words)
        else:
            await store_offsets(self._writing, found, offsets, words)

    def _done(self, positions: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        for work in self.works.values():
            own = positions.get(work.name.application, {})
            moved = {each: own[each] for each in work.arrivals.queues if each in own}
            if moved:
                work.committed(moved)

    def _let_go(self) -> None:
        """Give up the works that are to leave, where they are committed."""
        if self._commit.phase is not commit.Phase.RUNNING:
            return
        gone = [each for each in self._leaving if each not in self.works or not self.works[each].is_dirty]
        for name in gone:
            self._leaving.discard(name)
            if name in self.works:
                work = self.works.pop(name)
                self._fetching.remove(work.queues)
                self.meters.closed += 1
                if self._writer is not None:
                    self._saving.leave(work, self._writer.changelog_ends)
        if gone:
            self._listener.on_released(gone)

    # -- what goes wrong

    def _unreadable(self, queue: Queue, error: KafkaError) -> None:
        """Take off the applications whose work has a queue that cannot be read."""
        for work in list(self.works.values()):
            if any(each is queue for each in work.queues):
                self._failed(work.name.application, error)

    def _failed(self, application: str, error: BaseException, also: Iterable[StreamsWork] = ()) -> None:
        """Take an application's works off, and say why once nothing of theirs is being committed."""
        gone = [*also, *self.drop(application)]
        details = "".join(traceback.format_exception(error))
        log.warning("application %s is taken off: %s", application, error)
        self._untold.append((application, gone, details))
        self._tell_failed()

    def _tell_failed(self, *, whole: bool = False) -> None:
        """Say which applications were taken off, all or those of which no commit is under way.

        Whoever has their works next begins with the offsets that he finds, and must find those of the commit.
        """
        told = [each for each in self._untold if whole or each[0] not in self._commit.positions]
        self._untold = [each for each in self._untold if each not in told]
        for application, works, details in told:
            self._listener.on_failed(application, works, details)

    async def _go_back(self, application: str | None, error: BaseException | None) -> None:
        """Give up what is not committed: send anew, exactly once as another epoch, and restore every work."""
        log.warning("the host goes back to the last commit: %s", error)
        self._is_open.clear()
        if application is not None and error is not None and self._is_same(application):
            self._failed(application, error)
        self._back = list(self.works)
        for work in self.works.values():
            self._fetching.remove(work.queues)
        self.works.clear()
        self._made.clear()
        self._committing.clear()
        wait_s = BACK_SECONDS
        for left in reversed(range(BACK_TRIES)):
            try:
                await self._listener.confirm()
                if self._writer is not None:
                    await self._writer.close()
                await self._open()
                break
            except KafkaError as failure:
                if _why(failure) is commit.WhyFailed.FENCED:
                    raise FencedError(str(failure)) from failure
                if not left:
                    raise
                log.warning("the host cannot go back yet: %s", failure)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, BACK_SECONDS_MAX)
        back, self._back = self._back, []  # without what was dropped meanwhile
        leaving = [each for each in back if each in self._leaving]
        self._leaving.difference_update(leaving)
        if leaving:
            self._listener.on_released(leaving)
        self.assign(each for each in back if each not in leaving)

    def _is_same(self, application: str) -> bool:
        """Whether an application is here, and is the one that the commit under way is of where it is of that."""
        found = self._applications.get(application)
        return found is not None and self._whose.get(application, found) is found

    async def _take_on(self, name: StreamsWork, followed: Standby | None = None) -> None:
        """Restore a work, of the copy that was kept here where there is one, and have it run."""
        await self._is_open.wait()
        found = self._applications.get(name.application)
        if found is None:
            return
        try:
            work = await self._begun(found.plan, name, followed)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the cluster's errors, and a user's serde or processor may raise anything
            if self._restoring.get(name) is not asyncio.current_task():
                return  # it was let go meanwhile, or is restored anew
            self._restoring.pop(name, None)
            self._failed(name.application, error, [name])
            return
        if self._restoring.get(name) is not asyncio.current_task():
            return
        self._restoring.pop(name, None)
        self.works[name] = work
        self._saving.forget(self.works)
        self._saving.begin(work)
        if self._writer is not None:
            for place in work.restored_ends:  # it may have been here before, and elsewhere since
                self._writer.changelog_ends.pop(place, None)
        self.meters.created += 1
        self._fetching.add(self._to_read(work))
        self._listener.on_running(name)
        self.wake()

    async def _begun(self, plan: ApplicationPlan, name: StreamsWork, followed: Standby | None) -> Work:
        """Return a work with its state: of its copy or checkpoint, where it has one, and of its changelogs."""
        files = files_of(plan)
        saved = None if followed is None else followed.taken(_now_ms())
        if saved is not None:
            return await begin_work(self._writing, plan, name, _now_ms(), saved, is_followed=True)
        if files is not None and plan.of_group(name.sub_topology).group.is_stateful:
            saved = await asyncio.to_thread(files.read, name)
        try:
            return await begin_work(self._writing, plan, name, _now_ms(), saved)
        except (KafkaError, OSError):
            raise
        except Exception as error:  # a user's code may raise anything; it will again, without the checkpoint
            if files is None or saved is None:
                raise
            log.warning("the checkpoint of %s is removed, the changelog is read: %s", name, error)
            files.remove(name)
            return await begin_work(self._writing, plan, name, _now_ms(), None)


_READER = Limits(request_s=30.0, call_s=1.0, unreachable_s=1.0, unknown_topic_s=0.5, backoff_s=0.02)
"""Little patience: a partition that has no leader must not hold up the others, and is asked for again."""


def _why(error: BaseException) -> commit.WhyFailed:
    """Return what an error says of this host."""
    code = error.code if isinstance(error, KafkaError) else None
    if code in TAKEN_OVER:
        return commit.WhyFailed.FENCED
    return commit.WhyFailed.STALE if code in STALE else commit.WhyFailed.UNKNOWN


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

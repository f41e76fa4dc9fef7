"""Replays as jobs: begun, paused, gone on with and cancelled, and known after a restart.

Jobs are records of a compacted topic (`job ID`). How far one has come is its group's committed offsets, so that no state
here decides what is written. A console that starts goes on with the jobs that it ran when it was stopped, where it may act
as itself; a user's are gone on with when a user says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.admin import AdminError
from ottla.background import count_failure, supervise
from ottla.base import FENCED, KafkaError, Millis, OttlaError, TopicPartition
from ottla.client import LATEST, Client, Isolation
from ottla.console.own_topic import OwnTopic
from ottla.console.records.redrives import ToOrigins
from ottla.console.records.replays import Matching, Replay, Replaying, counted
from ottla.console.records.requests import scan_request
from ottla.console.records.rows import document_of
from ottla.http import HttpError
from ottla.wire import Record

if TYPE_CHECKING:
    from ottla.console.clusters import Cluster
    from ottla.console.records.file_decoders import Values
    from ottla.console.records.masks import Masks
    from ottla.sql import Condition

__all__ = ["JOB_CONFIGS", "Job", "PlaceReplays", "ReplayJobs"]

log = logging.getLogger(__name__)

JOB_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
RUNNING, PAUSED, DONE, CANCELLED, FAILED = "running", "paused", "done", "cancelled", "failed"
OPEN: Final = frozenset({RUNNING, PAUSED, FAILED})
JOBS_MAX: Final = 200
RUNNING_MAX: Final = 8
ID: Final = re.compile(r"[0-9a-f]{12}")
DOOR_SECONDS: Final = 30.0
KNOWN_SECONDS: Final = 15.0
STARTS: Final = ("oldest", "offset", "time")


@dataclass(frozen=True, slots=True)
class Job:
    """A replay with how it stands; `home` is the console that runs it."""

    replay: Replay
    who: str
    state: str
    created_ms: int
    changed_ms: int
    home: str = ""
    written: int = 0
    error: str = ""

    def kept(self) -> dict[str, object]:
        """Return it in JSON's terms."""
        return {
            "replay": self.replay.kept(),
            "who": self.who,
            "state": self.state,
            "home": self.home,
            "created_ms": self.created_ms,
            "changed_ms": self.changed_ms,
            "written": self.written,
            "error": self.error,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Job:
        """Return the job of JSON's terms; raises KeyError, TypeError, ValueError."""
        return cls(
            *(Replay.of(kept["replay"]), str(kept["who"]), str(kept["state"])),
            *(int(kept["created_ms"]), int(kept["changed_ms"]), str(kept["home"])),
            *(int(kept["written"]), str(kept["error"])),
        )


class Somebody(Protocol):
    """As whom something is replayed: a cluster as one session has it."""

    @property
    def who(self) -> str:
        """The user, or the console itself."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The doors to the cluster, as this user."""
        ...

    def values(self, topic: str) -> Values | None:
        """Return what reads a topic's keys and values by their schemas."""
        ...

    def hidden(self, topic: str) -> Masks | None:
        """Return what of a topic is hidden from this user."""
        ...


class ReplayJobs:
    """The jobs of one cluster; `home` names this console, the same after a restart."""

    def __init__(self, topic: OwnTopic, *, home: str, now_ms: Callable[[], int]) -> None:
        self._topic, self._home, self._now_ms = topic, home, now_ms
        self._jobs: dict[str, Job] = {}
        self._running: dict[str, tuple[Replaying, asyncio.Task[None]]] = {}
        self._clusters: dict[str, Cluster] = {}
        """As whom each job that runs here reads and writes."""
        self._changing: set[str] = set()
        """Jobs that are begun, paused or ended at the moment: what is said of one is kept before the next thing is."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.loaded = asyncio.Event()

    def start(self) -> None:
        """Say on which loop it runs."""
        self._loop = asyncio.get_running_loop()

    async def load(self) -> None:
        """Read the jobs that there are; raises OttlaError."""
        async for record in self._topic.records():
            kind, _, name = (record.key or b"").decode("utf-8", "replace").partition(" ")
            if kind != "job":
                continue
            self._jobs.pop(name, None)
            try:
                if record.value is not None:
                    self._jobs[name] = Job.of(json.loads(record.value))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                log.debug("a record of %s is passed over: %s", self._topic.name, error)
        self.loaded.set()

    async def go_on(self, place: Somebody) -> None:
        """Go on with what this console ran when it was stopped."""
        for name in list(self._jobs):
            job = self._jobs.get(name)  # as it is now: somebody may have paused it while the one before was begun
            is_busy = name in self._running or name in self._changing
            if job is not None and job.state == RUNNING and job.home == self._home and not is_busy:
                log.info("replay %s is gone on with", name)
                await self._begin(place, job)

    async def stop(self) -> None:
        """Stop what runs; it goes on when this console starts again."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self, place: Somebody) -> None:
        """Stop what runs by somebody's login, which is over: it is gone on with when somebody says so."""
        mine = [name for name, cluster in self._clusters.items() if cluster is place.cluster and name in self._running]
        tasks = [self._running[name][1] for name in mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def rows(self) -> list[dict[str, object]]:
        """Return the jobs, the newest first, each with how far it has come where it runs here."""
        found: list[dict[str, object]] = []
        for name, job in sorted(self._jobs.items(), key=lambda each: -each[1].created_ms):
            running = self._running.get(name)
            here = None if running is None else running[0]
            found.append(
                {
                    "id": name,
                    "source": job.replay.source,
                    "target": job.replay.target,
                    "where": job.replay.where,
                    "rate": job.replay.rate,
                    "letters": None if job.replay.letters is None else dict(job.replay.letters),
                    "offsets": job.replay.offsets,
                    "who": job.who,
                    "error": job.error,
                    "created_ms": job.created_ms,
                    "changed_ms": job.changed_ms,
                    "state": "interrupted" if job.state == RUNNING and here is None else job.state,
                    "written": job.written if here is None else max(job.written, here.written),
                    "share": None if here is None else here.share,
                    "trouble": "" if here is None else here.trouble,
                }
            )
        return found

    def job(self, name: str) -> Job | None:
        """Return a job."""
        return self._jobs.get(name)

    async def begin(self, place: Somebody, replay: Replay) -> None:
        """Begin a new job as somebody; raises OttlaError."""
        if replay.id in self._jobs:
            raise AdminError(f"There is a replay {replay.id} already")
        now_ms = self._now_ms()
        await self._begin(place, Job(replay, place.who, RUNNING, now_ms, now_ms, self._home))

    async def pause(self, name: str) -> None:
        """Stop a job where it is; raises OttlaError."""
        await self._end(name, PAUSED, {RUNNING})

    async def resume(self, place: Somebody, name: str) -> None:
        """Go on with a job, as whoever asks for it; raises OttlaError."""
        job = self._known(name, OPEN)
        await self._begin(place, replace(job, state=RUNNING, who=place.who, home=self._home, error=""))

    async def cancel(self, name: str) -> None:
        """End a job for good; what it has written stays. Raises OttlaError."""
        await self._end(name, CANCELLED, OPEN)

    def _known(self, name: str, states: frozenset[str] | set[str]) -> Job:
        job = self._jobs.get(name)
        if job is None:
            raise AdminError(f"There is no replay {name}")
        if job.state not in states:
            raise AdminError(f"The replay {name} is {job.state}")
        return job

    @contextmanager
    def _change(self, name: str) -> Iterator[None]:
        """Have a job to oneself; raises AdminError where it is being changed already."""
        if name in self._changing:
            raise AdminError(f"The replay {name} is being begun or ended at this moment: ask again")
        self._changing.add(name)
        try:
            yield
        finally:
            self._changing.discard(name)

    async def _end(self, name: str, state: str, states: frozenset[str] | set[str]) -> None:
        with self._change(name):
            job = self._known(name, states)
            running = self._running.get(name)
            if running is not None:
                running[1].cancel()
                await asyncio.gather(running[1], return_exceptions=True)
                job = replace(self._jobs[name], written=running[0].written)
                if job.state not in states:
                    return  # it had come to its end
            await self._keep(replace(job, state=state, changed_ms=self._now_ms()))

    async def _begin(self, place: Somebody, job: Job) -> None:
        name = job.replay.id
        if name in self._running:
            raise AdminError(f"The replay {name} runs")
        if len(self._running) + len(self._changing) >= RUNNING_MAX:
            raise AdminError(f"{RUNNING_MAX} replays run already: wait for one, or pause it")
        refuse_masked(place, job.replay.source)
        writing = None if job.replay.letters is None else ToOrigins(job.replay)
        values = place.values(job.replay.source)
        matching = matching_of(values, job.replay) if writing is None else writing.matching
        with self._change(name):
            await self._keep(job)
            client = place.cluster.reader()
            replaying = Replaying(client, job.replay, matching, writing)
            task = supervise(self._run(client, replaying, job), name=f"replay {name}", serves="who replays")
            self._running[name], self._clusters[name] = (replaying, task), place.cluster
            task.add_done_callback(lambda done: self._over(name, done))

    def _over(self, name: str, task: asyncio.Task[None]) -> None:
        """Forget a run that was ended before its first step, so that nothing of it has run; others have said so already."""
        running = self._running.get(name)
        if running is not None and running[1] is task:
            del self._running[name], self._clusters[name]

    async def _run(self, client: Client, replaying: Replaying, job: Job) -> None:
        name, state, error = job.replay.id, DONE, ""
        try:
            await replaying.run()
        except KafkaError as failed:
            state, error = FAILED, str(failed)
            if failed.code in FENCED:
                log.info("replay %s is gone on with elsewhere", name)
        except OttlaError as failed:
            state, error = FAILED, str(failed)
        except Exception as failed:  # a mistake of ours is said where the job is shown
            log.exception("replay %s has failed", name)
            count_failure("the console's replays")
            state, error = FAILED, f"The console has failed: {type(failed).__name__}; its log says why"
        finally:
            self._running.pop(name, None)
            self._clusters.pop(name, None)
            await client.close()
        ended = replace(job, state=state, error=error, written=replaying.written, changed_ms=self._now_ms())
        self._jobs[name] = ended
        try:
            await self._keep(ended)
        except OttlaError as failed:
            log.warning("the end of replay %s is not kept: %s", name, failed)

    async def _keep(self, job: Job) -> None:
        name = job.replay.id
        value = json.dumps(job.kept(), ensure_ascii=False).encode(errors="replace")
        record = Record(timestamp=Millis(self._now_ms()), key=f"job {name}".encode(), value=value)
        await self._topic.append(record)
        self._jobs[name] = job
        closed = [each for each, known in self._jobs.items() if known.state not in OPEN]
        for each in closed[: max(0, len(self._jobs) - JOBS_MAX)]:
            tomb = Record(timestamp=Millis(self._now_ms()), key=f"job {each}".encode(), value=None)
            await self._topic.append(tomb)
            self._jobs.pop(each, None)  # another job's end may have removed it meanwhile

    def through_the_loop(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await something of the console's from another thread."""

        async def called() -> Any:
            try:
                async with asyncio.timeout(KNOWN_SECONDS):
                    await self.loaded.wait()
            except TimeoutError:
                raise AdminError("Replays from before are not known yet: wait until the cluster answers") from None
            return await call()

        if self._loop is None:
            raise AdminError("Nothing is replayed by a console that does not run")
        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(DOOR_SECONDS)


class PlaceReplays:
    """What plans ask: replays as one user."""

    def __init__(self, jobs: ReplayJobs, place: Somebody) -> None:
        self._jobs, self._place = jobs, place

    def prepared(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a replay whole, and what a look has counted; raises OttlaError."""
        return dict(self._jobs.through_the_loop(lambda: _prepared(self._jobs, self._place, given)))

    def begin(self, replay: Mapping[str, Any]) -> None:
        """Begin it; raises OttlaError."""
        self._jobs.through_the_loop(lambda: self._jobs.begin(self._place, Replay.of(replay)))

    def is_known(self, replay_id: str) -> bool:
        """Return whether there is a replay of this id."""
        return self._jobs.job(replay_id) is not None


async def _prepared(jobs: ReplayJobs, place: Somebody, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if "counted" in given and "positions" in given:
            return _pinned(jobs, given)
        return await _looked_at(place, given)
    except HttpError as error:
        raise AdminError(error.message) from None


def _pinned(jobs: ReplayJobs, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replay that was prepared before; raises AdminError for anything else."""
    try:
        replay, told = Replay.of(given), given["counted"]
        found = {"looked": int(told["looked"]), "hits": int(told["hits"]), "is_whole": told["is_whole"] is True}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AdminError("No such replay was planned") from None
    if ID.fullmatch(replay.id) is None or jobs.job(replay.id) is not None:
        raise AdminError("No such replay was planned, or it has begun")
    return {**replay.kept(), "counted": found}


async def _looked_at(place: Somebody, given: Mapping[str, Any]) -> dict[str, Any]:
    source, start = str(given["source"]), given.get("from", "oldest")
    if start not in STARTS:
        raise AdminError(f"from is one of {', '.join(STARTS)}")
    asked = {"topic": source, "from": start, **{key: given[key] for key in ("at", "where", "key") if key in given}}
    request, at = scan_request(asked)
    refuse_masked(place, source)
    client = place.cluster.reader()
    try:
        positions, ends = await _bounds(client, source, start, at)
        replay = Replay(
            *(secrets.token_hex(6), source, str(given["target"]), positions, ends),
            "" if request.condition is None else request.condition.text,
            None if request.key is None else request.key.decode(),
            given.get("rate"),
        )
        found = await counted(client, replay, matching_of(place.values(source), replay))
    finally:
        await client.close()
    told = {"looked": found.looked, "hits": found.hits, "is_whole": found.is_whole}
    return {**replay.kept(), "counted": told}


async def _bounds(client: Client, source: str, start: str, at: int | None) -> tuple[dict[int, int], dict[int, int]]:
    from ottla.client import EARLIEST

    await client.metadata([source])
    places: Sequence[TopicPartition] = client.cluster.partitions_of(source)
    firsts = await client.list_offsets(dict.fromkeys(places, EARLIEST))
    lasts = await client.list_offsets(dict.fromkeys(places, LATEST), isolation=Isolation.READ_COMMITTED)
    ends = {each.partition: int(found.offset) for each, found in lasts.items()}
    positions = {each.partition: int(found.offset) for each, found in firsts.items()}
    if start == "offset":
        positions = {index: max(first, at or 0) for index, first in positions.items()}
    elif start == "time":
        found = await client.list_offsets(dict.fromkeys(places, Millis(at or 0)))
        positions = {each.partition: int(one.offset) for each, one in found.items() if one.offset >= 0}
    return {index: min(positions.get(index, end), end) for index, end in ends.items()}, ends


def refuse_masked(place: Somebody, topic: str) -> None:
    """Raise AdminError for a topic of which something is hidden from who asks: another topic would show it."""
    if place.hidden(topic) is not None:
        raise AdminError(f"Parts of {topic} are masked here: it is not replayed")


def matching_of(values: Values | None, replay: Replay) -> Matching:
    """Return what says which records are wanted; raises AdminError for a condition that is none."""
    try:
        request, _ = scan_request({"topic": replay.source, "where": replay.where, "key": replay.key})
    except HttpError as error:
        raise AdminError(error.message) from None
    condition, key = request.condition, request.key

    async def matching(index: int, records: Sequence[Record]) -> list[bool]:
        if condition is None and key is None:
            return [True] * len(records)
        seen = records if values is None or condition is None else await values.read(records)
        return [
            (key is None or record.key == key) and (condition is None or _holds(condition, replay.source, index, one))
            for record, one in zip(records, seen, strict=True)
        ]

    return matching


def _holds(condition: Condition, topic: str, index: int, record: Any) -> bool:
    return condition.holds(document_of(topic, index, record))

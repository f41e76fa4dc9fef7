"""`SparkTaskRunner`: keeps the tasks of a worker running, each as a Spark job, and tells the worker what they do."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from ottla.background import awaited, count_failure, supervise
from ottla.base import ConfigError
from ottla.connect import (
    ConnectError,
    PluginKind,
    Plugins,
    TaskOwner,
    TaskStart,
    client_overrides,
    decisions,
    storage,
    task_clients,
)
from ottla.connect.tasks import TaskSpec, WorkerClients, free_memory
from ottla.security.ephemeral import EphemeralKey, may_encrypt
from ottla.spark.connect.cluster import BIND, HOST, address_settings
from ottla.spark.connect.control import Attempt, ControlServer
from ottla.spark.connect.jobs import MASTER_SETTING, Jobs, SparkJobs
from ottla.spark.connect.slots import NoSlotError, Slots
from ottla.spark.connect.task_restarts import RestartPolicy, TaskRestarts

__all__ = ["SparkTaskRunner"]

log = logging.getLogger(__name__)

GRACEFUL_SETTING, GRACEFUL_MS_DEFAULT = "task.shutdown.graceful.timeout.ms", 5_000
CANCEL_SECONDS_MAX = 10.0
"""How long a cancelled Spark job may take to end before it is left to itself."""
DRAIN_SECONDS_MAX = 2.0
"""How long the channel of a task that has ended may take to be read to its end."""
CLUSTER_LOOK_SECONDS = 1.0
"""How often a task that waits for a slot of a cluster looks whether executors have come."""

Levels = Callable[[], Mapping[str, int]]
_State, _Target = storage.State, storage.TargetState
_STATES = {_Target.STARTED: _State.RUNNING, _Target.PAUSED: _State.PAUSED}


class SparkTaskRunner:
    """Runs a worker's tasks; see `TaskRunner`. Its methods are for the event loop's thread.

    `worker` are the worker's properties. The Spark session begins to start with `open` and is waited for by the tasks, not
    by `start`. `levels` says at which levels loggers stand, for those of the tasks.
    """

    def __init__(
        self,
        owner: TaskOwner,
        *,
        worker_id: str,
        worker: Mapping[str, str],
        plugins: Plugins,
        jobs: Jobs | None = None,
        levels: Levels = dict,
    ) -> None:
        self.owner, self.worker_id, self.worker, self.plugins = owner, worker_id, worker, plugins
        self.jobs: Jobs = jobs or SparkJobs(worker, plugins=plugins)
        self.policy = RestartPolicy.of(worker)
        self.graceful_s = _milliseconds(worker, GRACEFUL_SETTING, GRACEFUL_MS_DEFAULT) / 1000
        self.stall_ms = _milliseconds(worker, decisions.STALL_SETTING, decisions.STALL_MS_DEFAULT)
        self.levels = levels
        self.control = _control_of(self.jobs, worker)
        self.slots = Slots(self.jobs.slots, local=self.jobs.local)
        self._running: dict[storage.TaskId, _Supervised] = {}
        self._ready: asyncio.Task[None] | None = None
        self.startups = self.startup_failures = self.restarts = 0
        self.threads = ThreadPoolExecutor(1024, thread_name_prefix="ottla-task")

    async def open(self) -> None:
        """Begin to listen for tasks, and to start the Spark session, which takes seconds; tasks wait for it."""
        await self.control.listen()
        self._ready = awaited(self._start_jobs())

    async def _start_jobs(self) -> None:
        began = time.monotonic()
        log.info("Starting Spark, for which the first tasks wait some seconds")
        await asyncio.to_thread(self.jobs.start)
        await self.count_slots()
        await asyncio.to_thread(free_memory)
        log.info("Spark is ready after %.1f s, with %d slots for tasks", time.monotonic() - began, self.slots.total)

    async def count_slots(self) -> None:
        """Learn how many slots there are now: a cluster's executors come and go."""
        if self.jobs.local:
            self.slots.total = self.jobs.slots
            return
        try:
            self.slots.total = await asyncio.to_thread(lambda: self.jobs.slots)
        except Exception as error:  # Py4J's: the session has ended, which the next job finds out
            log.warning("The Spark cluster's slots cannot be counted: %s", error)

    async def ready(self) -> None:
        """Return when tasks can run; raises ConnectError where the Spark session did not start."""
        assert self._ready is not None, "the runner was not opened"
        try:
            await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever Spark's start raised
            raise ConnectError(f"Spark did not start: {error}") from error

    async def close(self) -> None:
        """End all tasks, the session and the control channel; a session that still starts is given up."""
        await self.stop(list(self._running))
        if self._ready is not None:
            if not self._ready.done():
                await asyncio.to_thread(self.jobs.give_up)
            with suppress(ConnectError):
                await self.ready()
        await asyncio.to_thread(self.jobs.stop)
        await self.control.close()
        self.threads.shutdown(wait=False)

    # TaskRunner

    async def start(self, tasks: Sequence[TaskStart]) -> None:
        """See `TaskRunner`."""
        await self.stop([each.task for each in tasks])
        for each in tasks:
            supervised = self._running[each.task] = _Supervised(self, each)
            supervised.begin()

    async def stop(self, tasks: Collection[storage.TaskId]) -> None:
        """See `TaskRunner`: all are asked at once, and share the time that they have."""
        found = [self._running[each] for each in tasks if each in self._running]
        for each in found:
            each.aim(_Target.STOPPED)
        await asyncio.gather(*(each.end() for each in found))
        for each in found:
            if self._running.get(each.task) is each:
                del self._running[each.task]

    async def pause_or_resume(self, tasks: Collection[storage.TaskId], target: storage.TargetState) -> None:
        """See `TaskRunner`."""
        for task in tasks:
            if task in self._running:
                self._running[task].aim(target)

    # What is shown

    def metrics(self) -> dict[storage.TaskId, dict[str, float]]:
        """Return what each task has reported last, and how often it was started again."""
        return {
            task: {
                **each.metrics,
                **decisions.progress_metrics(each.shown_progress(self.stall_ms), time.time_ns() // 1_000_000),
                "automatic-restart-total": float(each.restarts.total),
            }
            for task, each in self._running.items()
        }

    def progress(self) -> dict[storage.TaskId, dict[str, Any]]:
        """See `TaskRunner`."""
        found = {task: each.shown_progress(self.stall_ms) for task, each in self._running.items()}
        return {task: shown for task, shown in found.items() if shown is not None}

    def totals(self) -> dict[str, float]:
        """Return what the worker has counted, by the names of connect-worker-metrics; and its slots."""
        attempts = self.startups + self.startup_failures
        return {
            "task-count": len(self._running),
            "task-startup-attempts-total": attempts,
            "task-startup-success-total": self.startups,
            "task-startup-failure-total": self.startup_failures,
            "task-startup-success-percentage": self.startups / attempts if attempts else 0.0,
            "task-startup-failure-percentage": self.startup_failures / attempts if attempts else 0.0,
            "task-automatic-restart-total": self.restarts,
            "task-slots": self.slots.total,
            "task-slots-taken": self.slots.taken,
        }

    @property
    def is_ready(self) -> bool:
        """Whether tasks can run."""
        ready = self._ready
        return ready is not None and ready.done() and not ready.cancelled() and ready.exception() is None

    def set_levels(self, levels: Mapping[str, int]) -> None:
        """Set levels of the loggers of running tasks."""
        for each in self._running.values():
            each.send({"levels": dict(levels)})


def _milliseconds(worker: Mapping[str, str], name: str, default: int) -> int:
    text = worker.get(name, str(default)).strip()
    if not text.isdecimal():
        raise ConfigError(name, text, "a whole number of milliseconds")
    return int(text)


def _control_of(jobs: Jobs, worker: Mapping[str, str]) -> ControlServer:
    """Return a server where a cluster's executors reach Spark's driver, too; on the loopback address for a local master.

    It is encrypted wherever the extra `[security]` is installed, without which no worker's client or listener is.
    """
    key = EphemeralKey() if may_encrypt() else None
    if jobs.local:
        return ControlServer(key=key)
    settings = address_settings(worker, worker[MASTER_SETTING])
    return ControlServer(settings[HOST], bind=settings[BIND], key=key)


class _Supervised:
    """One task: its attempts, one after another, until it is stopped or has failed too often."""

    def __init__(self, runner: SparkTaskRunner, start: TaskStart) -> None:
        self._runner, self._start, self.task = runner, start, start.task
        self.target = start.target
        self.metrics: dict[str, float] = {}
        self._progress: decisions.Progress | None = None
        self._told_at_s = 0.0
        self.restarts = TaskRestarts(RestartPolicy())
        self._attempt: Attempt[TaskSpec] | None = None
        self._changed = asyncio.Event()
        self._began = 0.0
        self._failed = self._has_run = False
        self._cause = ""
        """The last line of the last failure."""
        self._delay_ms: int | None = None
        self._told: storage.State | None = None
        self._done: asyncio.Future[None] | None = None
        self._log = logging.getLogger("ottla.connect.tasks")
        self._version = _version_of(runner.plugins, start)
        self._is_sink = _is_sink(runner.plugins, start)

    def shown_progress(self, stall_ms: int) -> dict[str, Any] | None:
        """Return what is shown of the progress of this run; None before it has told any, and has begun a while ago."""
        now_s = time.monotonic()
        if self._progress is None:
            began_ms = int((now_s - self._began) * 1000)
            if self._attempt is None or not 0 < stall_ms < began_ms or self.target is not _Target.STARTED:
                return None
            told = decisions.Progress(trouble="its start has not come back", trouble_ms=began_ms)
            return decisions.shown_progress(told, silent_ms=0, limit_ms=stall_ms, runs=True)
        silent_ms = int((now_s - self._told_at_s) * 1000)
        runs = self._told is _State.RUNNING
        failing = self.restarts.warning((time.monotonic() - self._began) * 1000) if runs else None
        more = () if failing is None else (f"{failing}: {self._cause}",)
        return decisions.shown_progress(self._progress, silent_ms=silent_ms, limit_ms=stall_ms, runs=runs, more=more)

    def begin(self) -> None:
        """Run the task, behind the caller."""
        self._done = supervise(self._supervise(), name=f"look after {self.task}", serves=f"{self.task}")

    def aim(self, target: storage.TargetState) -> None:
        """Set what the task is to do."""
        self.target = target
        self._changed.set()
        if self._attempt is not None:
            self._attempt.aim(target)
        elif target in _STATES and self._told in _STATES.values():
            self._tell(_STATES[target])

    def send(self, message: dict[str, Any]) -> None:
        """Send the task a message, if it runs."""
        if self._attempt is not None:
            self._attempt.send(message)

    async def end(self) -> None:
        """Return when the task, asked to stop, has ended: by itself in time, or with its Spark job cancelled."""
        assert self._done is not None
        waited = asyncio.shield(self._done)
        try:
            await asyncio.wait_for(waited, self._runner.graceful_s)
            return
        except TimeoutError:
            log.error("Graceful stop of task %s failed.", self.task)
        attempt = self._attempt
        if attempt is not None:
            await asyncio.to_thread(self._runner.jobs.cancel, attempt.dial)
            attempt.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._done), CANCEL_SECONDS_MAX)
        except TimeoutError:
            log.error("Task %s has not ended although its Spark job was cancelled; it is left to itself", self.task)
            self._tell(_State.UNASSIGNED)

    # The attempts

    async def _supervise(self) -> None:
        try:
            await self._prepare()
            while self.target is not _Target.STOPPED:
                if not await self._has_slot():
                    break
                await self._run_once()
                if not self._failed or self._delay_ms is None:
                    break
                await self._pause(self._delay_ms / 1000)
        except Exception:  # our own mistake: it is said, and the task is FAILED
            log.exception("Task %s is not looked after any more", self.task)
            count_failure("Connect's tasks")
            self._tell(_State.FAILED, traceback.format_exc())
            return
        if self.target is _Target.STOPPED and self._told is not _State.UNASSIGNED:
            self._tell(_State.UNASSIGNED)

    async def _prepare(self) -> None:
        worker = self._runner.worker
        policy = client_overrides.override_policy(worker)
        client_overrides.refuse_overrides(
            self._start.connector_config, sink=self._is_sink, policy=policy, worker=worker
        )
        self.restarts = TaskRestarts(RestartPolicy.of(self._runner.worker, self._start.connector_config))
        ready = awaited(self._runner.ready())
        if not ready.done():
            self._tell(_State.UNASSIGNED)
        while not ready.done() and self.target is not _Target.STOPPED:
            self._changed.clear()
            changed = awaited(self._changed.wait())
            await asyncio.wait((ready, changed), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        if ready.done():
            ready.result()
        else:
            ready.cancel()

    async def _has_slot(self) -> bool:
        """Take a slot, waiting for one as FAILED; False where the task is stopped meanwhile, or is to stay failed."""
        slots, told = self._runner.slots, False
        while self.target is not _Target.STOPPED:
            await self._runner.count_slots()
            try:
                slots.take(self.task)
            except NoSlotError as error:
                waits = self.restarts.policy.restarts_max > 0
                if not told:
                    words = "It starts by itself when a slot is free.\n" if waits else ""
                    self._log.error("[%s|task-%d] %s", self.task.connector, self.task.task, error)
                    self._tell(_State.FAILED, f"{words}{type(error).__name__}: {error}")
                if not waits:
                    return False
                told = True
                self._changed.clear()
                ends = [awaited(slots.freed()), awaited(self._changed.wait())]
                look_s = None if self._runner.jobs.local else CLUSTER_LOOK_SECONDS
                await asyncio.wait(ends, timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
                for each in ends:
                    each.cancel()
            else:
                return True
        return False

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the task is asked to stop."""
        deadline = time.monotonic() + seconds
        while self.target is not _Target.STOPPED and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def _run_once(self) -> None:
        self._failed, self._delay_ms, self._began, self._has_run = False, None, time.monotonic(), False
        self._progress = None
        runner = self._runner
        attempt = self._attempt = runner.control.expect(self, self._spec(self.target))
        try:
            error_text = await self._job(attempt)
        finally:
            self._attempt = None
            attempt.close()
            runner.slots.give_back(self.task)
        if self._failed or self.target is _Target.STOPPED:
            return
        if error_text is not None:
            self._note_failure(f"The Spark task has ended: {error_text}")
        elif self._told is not _State.UNASSIGNED:
            self._note_failure("The task has lost its worker's control channel, and has ended")

    async def _job(self, attempt: Attempt[TaskSpec]) -> str | None:
        """Run a Spark job to its end; one whose connection is lost has to end soon, or is cancelled."""
        runner = self._runner
        given = (attempt.spec, attempt.dial, dict(runner.levels()))
        job = asyncio.get_running_loop().run_in_executor(runner.threads, runner.jobs.run, *given)
        lost = awaited(attempt.lost.wait())
        await asyncio.wait((job, lost), return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            if attempt.claimed:
                await asyncio.wait((lost,), timeout=DRAIN_SECONDS_MAX)  # what the task told last is on its way
        else:
            await asyncio.wait((job,), timeout=runner.graceful_s)
            if not job.done():
                await asyncio.to_thread(runner.jobs.cancel, attempt.dial)
                words = await job
                return None if words is None else f"its process, or its machine, has ended or is cut off.\n{words}"
        lost.cancel()
        return await job

    def _spec(self, target: storage.TargetState) -> TaskSpec:
        start, worker = self._start, self._runner.worker
        given = (worker, start.connector_config, self.task)
        clients = WorkerClients(
            worker.get("bootstrap.servers", "localhost:9092"),
            task_clients.producer_properties(*given, sink=self._is_sink),
            task_clients.consumer_properties(*given),
            task_clients.admin_properties(*given, sink=self._is_sink),
        )
        path = tuple(each.strip() for each in worker.get("plugin.path", "").split(",") if each.strip())
        return TaskSpec(
            start.task,
            dict(start.connector_config),
            dict(start.config),
            dict(worker),
            clients,
            target,
            start.generation,
            path,
            start.offsets_topic,
            start.transactional_id,
        )

    def _note_failure(self, trace: str) -> None:
        self._failed, self._cause = True, (trace.strip().splitlines() or [""])[-1]
        self._runner.startup_failures += not self._has_run
        self._delay_ms = self.restarts.failed((time.monotonic() - self._began) * 1000)
        self._runner.restarts += self._delay_ms is not None
        words = self.restarts.words(self._delay_ms)
        self._log.error("[%s|task-%d] %s%s", self.task.connector, self.task.task, words, trace.rstrip())
        self._tell(_State.FAILED, words + trace)

    def _tell(self, state: storage.State, trace: str | None = None) -> None:
        self._told = state
        runner = self._runner
        runner.owner.on_status(
            storage.Status(
                self.task,
                state,
                runner.worker_id,
                self._start.generation,
                trace,
                self._version,
                self.restarts.total,
            )
        )

    # Served

    def on_status(self, state: storage.State, trace: str | None) -> None:
        """See `Served`."""
        if state is _State.FAILED:
            if not self._failed and self.target is not _Target.STOPPED:
                self._note_failure(trace or "The task gave no reason")
        elif not self._failed:
            self._runner.startups += state in _STATES.values() and not self._has_run
            self._has_run = self._has_run or state in _STATES.values()
            self._tell(state, trace)

    async def on_request(self, op: str, message: Mapping[str, Any]) -> Any:
        """See `Served`."""
        owner, connector = self._runner.owner, self.task.connector
        if op == "offsets":
            state = await owner.stored_offsets(connector)
            return [state.offset(connector, each) for each in message["partitions"]]
        if op == "store":
            await owner.store_offsets(connector, [(partition, offset) for partition, offset in message["offsets"]])
            return None
        if op == "confirm":
            await owner.confirm(self.task)
            return None
        raise ConnectError(f"the worker does not know what {op} is")

    def on_note(self, op: str, message: Mapping[str, Any]) -> None:
        """See `Served`."""
        if op == "used":
            now_ms = time.time_ns() // 1_000_000
            self._runner.owner.on_topic(storage.TopicUse(message["topic"], self.task.connector, self.task.task, now_ms))
        elif op == "report":
            self.metrics = dict(message["metrics"])
        elif op == "progress":
            self._progress, self._told_at_s = decisions.Progress.of_message(message["told"]), time.monotonic()
        elif op == "log":
            logging.getLogger(message["logger"]).log(
                message["level"], "[%s|task-%d] %s", self.task.connector, self.task.task, message["text"]
            )


def _version_of(plugins: Plugins, start: TaskStart) -> str | None:
    with suppress(ConnectError):
        return str(plugins.connector((start.connector_config.get("connector.class") or "").strip()).version)
    return None


def _is_sink(plugins: Plugins, start: TaskStart) -> bool:
    with suppress(ConnectError):
        name = (start.connector_config.get("connector.class") or "").strip()
        return plugins.connector(name).kind is PluginKind.SINK
    return False  # the task itself says that nobody knows the class

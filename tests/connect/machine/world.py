"""One world of the machine: two or three workers, requests to them, and what is done to them; the same for a seed each time.

In the end nothing goes wrong any more: every request was answered, and every worker says and does what the last accepted
requests ask for.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
from collections.abc import Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ottla.background import failure_counts
from ottla.connect.storage import State, TargetState, TaskId
from tests.connect.machine.cluster import KafkaModel
from tests.connect.machine.ledger import Ledger
from tests.connect.machine.loop import WorkerLoop, own_clock
from tests.connect.machine.stories import NAMES, ROUGH, THEMES, happen
from tests.connect.machine.tasks import OUT
from tests.connect.machine.workers import SETTINGS, Answer, Place, Worker, ask

__all__ = ["World", "run_world"]

STEPS = (6, 14)
SETTLE_SECONDS_MAX, WRITES_SECONDS = 150.0, 60.0
ANSWER_SECONDS_MAX = 190.0
"""An answer of 90 s at each of two hops, and the ways between."""
TARGETS = {"pause": TargetState.PAUSED, "resume": TargetState.STARTED, "stop": TargetState.STOPPED}
STATES = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED}
EXPECTED = (
    "haven't stopped completely yet",
    "Request timed out",
    "IO Error trying to forward",
    "safely retried",
    "was configured by others again and again",
    "Error writing connector configuration to Kafka",
    "Could not write",
    "Could not read offsets",
    "has not claimed the leader's privileges",
    "Fencing failed because",
    "Failed to perform zombie fencing",
    "no broker can be reached",
    "the request is lost",
    "the answer is lost",
    "Failed to transition connector",
    "Failed to read to end of config topic",
)
"""What an answer of 500 may say while requests are lost, or workers."""


class World:
    """See the module's description."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.loop = WorkerLoop(self.rng)
        self.exactly_once = self.rng.random() < 0.5
        name = self.rng.choice(list(THEMES))
        self.theme = THEMES[name]
        self.is_rough = self.rng.random() < 0.5 or name in ROUGH
        """Whether requests are lost, and workers are killed, frozen and cut off."""
        self.kafka = KafkaModel(self.loop, self.rng)
        self.kafka.is_troubled = self.is_rough and self.rng.random() < 0.5
        self.ledger = Ledger(
            self.loop.time,
            exactly_once=self.exactly_once,
            offsets_topic=SETTINGS.offset_topic.name,
            out=OUT,
        )
        self.kafka.told, self.kafka.expelled = self.ledger.told, self._expelled
        self.place = Place(self.loop, self.kafka, self.ledger)
        self.told: list[str] = []
        """What was done to it, and what was answered."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._rounds = self._workers = 0
        self._all: list[Worker] = []
        self._leaving: set[str] = set()
        self._was_away = False
        """Whether a worker was frozen or cut off, or so many of its requests were lost that it was taken for dead."""
        self._counts: dict[str, int] = {}
        """How many tasks each connector was configured to have last."""

    def run(self) -> None:
        """Run it; raises AssertionError that says what was wrong."""
        asyncio.set_event_loop(self.loop)
        logging.disable(logging.CRITICAL)
        try:
            with own_clock(self.loop):
                self.loop.run_until_complete(self._run())
            if self.loop.errors:
                raise AssertionError(self._words([f"nobody has heard of {self.loop.errors[0]}"]))
        finally:
            logging.disable(logging.NOTSET)
            asyncio.set_event_loop(None)
            self.loop.close()
            gc.collect(0)

    async def _run(self) -> None:
        failures = failure_counts()
        self.kafka.add_topic(OUT)
        self.loop.at_step.append(self._look)
        for _ in range(self.rng.choice((2, 2, 3))):
            self.join()
        if self.rng.random() < 0.9:
            await self._formed()
        for name in NAMES[: self.rng.choice((1, 1, 2))]:
            await self.request("create", name)
        if self.rng.random() < 0.8:
            await asyncio.sleep(self.rng.choice((1.0, 10.0)))
        try:
            for _ in range(self.rng.randint(*STEPS)):
                await asyncio.sleep(self.rng.choice((0.0, 0.001, 0.01, 0.1, 0.5, 1.0, 3.0, 20.0)))
                await happen(self)
                self._check()
            await self._settle()
            if failure_counts() != failures:
                raise AssertionError(self._words([f"a mistake of ours: {failure_counts()}"]))
        finally:
            for each in self._under_way:
                each.cancel()
            for worker in self._all:
                worker.process.kill()
            for worker in self._all:
                worker.process.bury()

    def _look(self) -> None:
        """Note the time as long as workers are not the group that they are to be."""
        if self._is_disturbed():
            self.ledger.disturbed_s = self.loop.time()

    def _is_disturbed(self) -> bool:
        workers = self.alive()
        return (
            not self.kafka.is_stable
            or self.kafka.is_troubled
            or self.kafka.members() != len(workers)
            or any(not each.is_well or not self._is_settled(each) for each in workers)
        )

    def _is_settled(self, worker: Worker) -> bool:
        return worker.herder is not None and not worker.herder.group.member.rejoins

    def alive(self) -> list[Worker]:
        """Return the workers whose processes run."""
        return [each for each in self.place.workers.values() if each.process.alive]

    def _check(self) -> None:
        if self.ledger.wrong:
            raise AssertionError(self._words(self.ledger.wrong))

    def _words(self, wrong: list[str]) -> str:
        kind = f"{'exactly once' if self.exactly_once else 'at least once'}, {'rough' if self.is_rough else 'quiet'}"
        lines = "\n  ".join(self.told[-60:])
        return f"seed {self.seed} ({kind}):\n  {lines}\n" + "\n".join(wrong[:5])

    def _say(self, words: str) -> None:
        self.told.append(f"{self.loop.time():.3f} {words}")

    # -- workers

    def present(self) -> list[Worker]:
        """Return those of them that are not about to leave."""
        return [each for each in self.alive() if each.worker_id not in self._leaving]

    def join(self) -> None:
        """Start a worker."""
        self._workers += 1
        settings = replace(SETTINGS, exactly_once="enabled" if self.exactly_once else "disabled")
        worker = Worker(self.place, f"w{self._workers}", settings)
        self.place.workers[worker.worker_id] = worker
        self._all.append(worker)
        self._say(f"{worker.name} joins")
        self.begin(self._run_in(worker, worker.start()))

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin something that ends before the world does; what it raises is a fault."""
        task = self.loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.say(f"{error!r}")
            self.loop.call_exception_handler({"message": "a part of the world has failed", "exception": error})

    async def _formed(self) -> None:
        for _ in range(600):
            if not self._is_disturbed():
                return
            await asyncio.sleep(0.1)

    def kill(self, worker: Worker) -> None:
        """End a worker without a word."""
        self._say(f"{worker.name} is killed")
        self._gone(worker)
        worker.kill()

    def _gone(self, worker: Worker) -> None:
        del self.place.workers[worker.worker_id]

    async def _run_in(self, worker: Worker, work: Coroutine[Any, Any, None]) -> None:
        """Run what a worker does, as long as it lives."""
        task = worker.process.spawn(work)
        await asyncio.wait([task, worker.process.died], return_when=asyncio.FIRST_COMPLETED)
        if worker.process.alive:
            task.result()

    def leave(self, worker: Worker) -> None:
        """End a worker in good order."""
        self._say(f"{worker.name} leaves")
        self._leaving.add(worker.worker_id)
        self.begin(self._leave(worker))

    async def _leave(self, worker: Worker) -> None:
        await self._run_in(worker, worker.close())
        if worker.process.alive:
            self._gone(worker)
            worker.process.kill()

    def freeze(self, worker: Worker, seconds: float) -> asyncio.Task[None]:
        """Have a worker do nothing for a while."""
        self._say(f"{worker.name} is frozen for {seconds} s")
        self._was_away = True
        self.ledger.excuse(worker.worker_id, seconds)
        return self.begin(self._freeze(worker, seconds))

    async def _freeze(self, worker: Worker, seconds: float) -> None:
        worker.process.pause()
        await asyncio.sleep(seconds)
        worker.process.resume()

    def cut_off(self, worker: Worker, seconds: float) -> asyncio.Task[None]:
        """Have a worker reach no broker for a while."""
        self._say(f"{worker.name} is cut off for {seconds} s")
        self._was_away = True
        self.ledger.excuse(worker.worker_id, seconds)
        return self.begin(self._cut_off(worker, seconds))

    async def _cut_off(self, worker: Worker, seconds: float) -> None:
        worker.is_cut = True
        await asyncio.sleep(seconds)
        worker.is_cut = False

    def _expelled(self, member: str) -> None:
        """Note that the group has taken a worker for dead, all of whose heartbeats of a session were lost.

        It stops its tasks as soon as it knows, which others may have begun by then: at least once is no more than that.
        """
        for worker in self.alive():
            if self.kafka.is_troubled and worker.herder is not None and worker.herder.group.member.member_id == member:
                self._say(f"{worker.name} is taken for dead")
                self._was_away = True
                self.ledger.excuse(worker.worker_id, 0)

    def slow_down(self, seconds: float, lag_s: float) -> None:
        """Have the configuration topic's broker answer slowly for a while: workers read late what others have written."""
        self._say(f"the configuration topic is read {lag_s} s late, for {seconds} s")
        self.begin(self._slow_down(SETTINGS.config_topic.name, seconds, lag_s))

    async def _slow_down(self, topic: str, seconds: float, lag_s: float) -> None:
        self.kafka.lag_s[topic] = lag_s
        await asyncio.sleep(seconds)
        self.kafka.lag_s.pop(topic, None)

    # -- requests

    def _config(self, name: str) -> dict[str, str]:
        """Return a configuration, often with more or fewer tasks than the one before."""
        self._rounds += 1
        before = self._counts.get(name, 1)
        count = self._counts[name] = self.rng.choice((before, 3 - before, 3 - before))
        return {
            "connector.class": "tests.Numbers",
            "tasks.max": "2",
            "tasks": str(count),
            "round": str(self._rounds),
        }

    async def request(self, what: str, name: str, away: Worker | None = None) -> None:
        """Ask a worker for something, any but one that is known to be away, and look at the answer."""
        worker = self.rng.choice([each for each in self.alive() if each is not away] or self.alive())
        method, path, body = self._asked(what, name)
        number = len(self.told)
        self._say(f"{worker.name} is asked to {what} {name}{'' if body is None else ' ' + json.dumps(body)}")
        asked_s = self.loop.time()
        answer = await ask(self.place, worker, method, path, body)
        took_s = self.loop.time() - asked_s
        said = "nothing" if answer is None else f"{answer.status} {answer.message}"
        self._say(f"  {worker.name} has answered {said} to {what} {name} of line {number}")
        if took_s > ANSWER_SECONDS_MAX and worker.is_well:
            self.ledger.say(f"{what} {name} was answered after {took_s:.0f} s")
        if answer is not None:
            self._check_answer(what, name, body, answer, asked_s)

    def _asked(self, what: str, name: str) -> tuple[str, str, Any]:
        one = f"/connectors/{name}"
        match what:
            case "create":
                initial = self.rng.choice(("RUNNING", "RUNNING", "PAUSED", "STOPPED"))
                return "POST", "/connectors", {"name": name, "config": self._config(name), "initial_state": initial}
            case "configure":
                return "PUT", f"{one}/config", self._config(name)
            case "patch":
                config = self._config(name)
                keys = self.rng.choice((("round", "tasks"), ("round",)))
                return "PATCH", f"{one}/config", {key: config[key] for key in keys}
            case "pause" | "resume" | "stop":
                return "PUT", f"{one}/{what}", None
            case "delete":
                return "DELETE", one, None
            case "reset offsets":
                return "DELETE", f"{one}/offsets", None
            case "alter offsets":
                pairs = [{"partition": {"p": each}, "offset": {"at": 1000 + self._rounds}} for each in range(2)]
                return "PATCH", f"{one}/offsets", {"offsets": pairs}
            case "restart connector":
                return "POST", f"{one}/restart", None
            case "restart all":
                return "POST", f"{one}/restart?includeTasks=true&onlyFailed=false", None
            case "restart task":
                return "POST", f"{one}/tasks/{self.rng.choice((0, 0, 1))}/restart", None
            case "status":
                return "GET", f"{one}/status", None
            case "offsets":
                return "GET", f"{one}/offsets", None
        raise AssertionError(what)

    def _check_answer(self, what: str, name: str, body: Any, answer: Answer, asked_s: float) -> None:
        is_late = "Request timed out" in answer.message and not self.is_rough
        is_expected = any(each in answer.message for each in EXPECTED) and not is_late
        if answer.status not in (200, 201, 202, 204, 400, 404, 409) and not (answer.status == 500 and is_expected):
            self.ledger.say(f"{what} {name} was answered {answer.status}: {answer.message}")
        if answer.status >= 300:
            return
        if what in TARGETS and not self.ledger.held(name, asked_s, lambda target, _: target in (TARGETS[what], None)):
            self.ledger.say(f"{what} {name} was answered {answer.status} and is not written")
        if what == "delete" and not self.ledger.held(name, asked_s, lambda target, _: target is None):
            self.ledger.say(f"delete {name} was answered {answer.status} and is not written")
        if what in ("create", "configure", "patch"):
            round_ = (body.get("config") or body)["round"]
            if not self.ledger.held(name, asked_s, lambda _, config: f'"round": "{round_}"' in (config or "")):
                self.ledger.say(f"{what} {name} was answered {answer.status} and is not written")
        if what == "patch":
            self._check_patch(name, body)
        if what in ("create", "configure") and (self.exactly_once or not self._was_away):
            was_there = answer.status == 200  # at least once a worker may lead on that was frozen
            if not self.ledger.held(name, asked_s, lambda target, _: (target is not None) is was_there):
                self.ledger.say(
                    f"{what} {name} was answered {answer.status}, as if it {'were' if was_there else 'were not'} there"
                )
        if answer.status == 201 and what == "configure":
            wanted = self.ledger.held(name, asked_s, lambda target, config: target is TargetState.STARTED)
            if not wanted:
                self.ledger.say(f"{name} was made new, and is not started")
        if what == "reset offsets":
            known = self.ledger.connector(name)
            known.reset_s = max(known.reset_s, asked_s)

    def _check_patch(self, name: str, patch: dict[str, str]) -> None:
        """Look that a patch has changed what was there before it, and not what a leader took for that."""
        if self._was_away and not self.exactly_once:
            return
        configs = [
            None if config is None else json.loads(config) for _, _, config in self.ledger.connector(name).history
        ]
        for before, after in pairwise(configs):
            is_it = before is not None and after is not None and before != after and after["round"] == patch["round"]
            if is_it and after != {**before, **patch}:
                self.ledger.say(f"{patch} has made {after} of {before}")

    # -- the end

    async def _settle(self) -> None:
        """Have nothing go wrong any more, and wait until all is as it was asked for."""
        self._say("nothing is done any more")
        self.kafka.is_troubled = False
        self.kafka.lag_s.clear()
        until_s = self.loop.time() + ANSWER_SECONDS_MAX + SETTLE_SECONDS_MAX
        while self._under_way and self.loop.time() < until_s:
            await asyncio.sleep(0.5)
            self._check()
        if self._under_way:
            raise AssertionError(self._words([f"still under way: {[each.get_coro() for each in self._under_way]}"]))
        until_s = self.loop.time() + SETTLE_SECONDS_MAX
        while (wrong := self._differs()) and self.loop.time() < until_s:
            await self._restart_failed()
            await asyncio.sleep(0.5)
            self._check()
        if wrong:
            raise AssertionError(self._words([f"{self.loop.time():.3f} after all: {wrong}"]))
        self._say("all is as it was asked for")
        await self._goes_on()
        await self._says_so()
        self._check()

    async def _restart_failed(self) -> None:
        """Restart what has failed where requests were lost, as whoever looks after the cluster does."""
        worker = self.rng.choice(self.alive())
        if not self.is_rough or self._is_disturbed() or worker.herder is None:
            return
        statuses = worker.herder.statuses.state.statuses
        for name in {each.of.connector if isinstance(each.of, TaskId) else each.of for each in statuses.values()}:
            failed = [each for each in statuses.values() if name in (each.of, getattr(each.of, "connector", None))]
            if any(each.state is State.FAILED for each in failed) and name in self.ledger.config.configs:
                await ask(self.place, worker, "POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
                await asyncio.sleep(10)

    def _differs(self) -> str:
        """Return how what runs differs from what was asked for."""
        if self._is_disturbed():
            return f"the group is {'' if self.kafka.is_stable else 'not '}stable, of {self.kafka.members()}"
        config, wanted = self.ledger.config, dict[TaskId, tuple[State, str]]()
        for name in config.connectors():
            target = self.ledger.target(name)
            if target is TargetState.STARTED and self._round(name) not in self._task_rounds(name):
                return f"{name}'s tasks are of {self._task_rounds(name)} and not of round {self._round(name)}"
            if target is TargetState.STOPPED and config.tasks(name):
                return f"{name} is stopped, and has tasks"
            for task in config.tasks(name):
                wanted[task] = STATES[target or TargetState.STARTED], str(config.task_configs[task]["round"])
        found: dict[TaskId, list[tuple[State, str]]] = {}
        for worker in self.alive():
            for task, state in worker.running().items():
                assert worker.runner is not None
                life = worker.runner.running[task][0].life
                found.setdefault(task, []).append((state, str(life.round)))
        if found != {task: [each] for task, each in wanted.items()}:
            return f"{found} run, and {wanted} are asked for"
        hosts = sorted(name for each in self.alive() if each.herder is not None for name in each.herder.work.connectors)
        if hosts != config.connectors():
            return f"connectors {hosts} run, and {config.connectors()} are there"
        return ""

    def _round(self, name: str) -> str:
        return str(self.ledger.config.configs[name]["round"])

    def _task_rounds(self, name: str) -> set[str]:
        config = self.ledger.config
        return {str(config.task_configs[task]["round"]) for task in config.tasks(name)}

    async def _goes_on(self) -> None:
        """Look that started tasks write, and the others do not."""
        before, since_s = {name: self._ends(name) for name in NAMES}, self.loop.time()
        await asyncio.sleep(WRITES_SECONDS)
        for name in NAMES:
            target, after = self.ledger.target(name), self._ends(name)
            stands = [each for each, life in after.items() if before[name].get(each) == life]
            if target is TargetState.STARTED and (len(after) < 2 or stands):
                self.ledger.say(f"{name} runs, and {stands} are not written on: {after}")
            if target is not TargetState.STARTED and self.ledger.connector(name).written_s > since_s:
                self.ledger.say(f"{name} is {target}, and is written on")

    def _ends(self, name: str) -> dict[int, int]:
        return dict(self.ledger.connector(name).written)

    async def _says_so(self) -> None:
        """Look that each worker answers, and says of connectors what holds."""
        for worker in self.alive():
            for name in NAMES:
                await self._check_said(worker, name)

    async def _check_said(self, worker: Worker, name: str) -> None:
        target = self.ledger.target(name)
        shown = await ask(self.place, worker, "GET", f"/connectors/{name}/status")
        config = await ask(self.place, worker, "GET", f"/connectors/{name}/config")
        assert shown is not None and config is not None
        if target is None:
            if shown.status != 404 or config.status != 404:
                self.ledger.say(f"{worker.name} says {shown} {config} of {name}, which is not there")
            return
        body = json.loads(shown.body)
        wanted = self._wanted_status(name, target)
        found = [
            (body["connector"]["state"], body["connector"]["worker_id"]),
            *((each["state"], each["worker_id"]) for each in body["tasks"]),
        ]
        if found != wanted:
            self.ledger.say(f"{worker.name} says {found} of {name}, and {wanted} holds")
        if json.loads(config.body) != dict(self.ledger.config.configs[name]):
            self.ledger.say(f"{worker.name} says {config.body!r} of {name}")

    def _wanted_status(self, name: str, target: TargetState) -> list[tuple[str, str]]:
        workers = self.alive()
        host = next(each for each in workers if each.herder is not None and name in each.herder.work.connectors)
        state = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED"}.get(target, "STOPPED")
        tasks = [
            (STATES[target].value, next(each for each in workers if task in each.running()).worker_id)
            for task in self.ledger.config.tasks(name)
        ]
        return [(state, host.worker_id), *tasks]


def run_world(seed: int) -> None:
    """Run the world of a seed; raises AssertionError that says what was wrong."""
    World(seed).run()

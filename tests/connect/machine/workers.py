"""The machine's workers: real herders with the real REST interface, asked by calls that take their time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from yarl import URL

from ottla.base import OttlaError, TopicPartition
from ottla.connect import TaskOwner, discover
from ottla.connect.distributed import DistributedHerder, DistributedSettings, StorageTopic
from ottla.connect.rest import RestSettings, service_routes
from ottla.connect.storage import TaskId
from ottla.http import HttpError, Reply
from tests.connect.machine.cluster import Door, KafkaModel
from tests.connect.machine.ledger import Ledger
from tests.connect.machine.tasks import MachineRunner, Numbers
from tests.sim.process import Crash, Process

__all__ = ["SETTINGS", "Answer", "Place", "Worker", "ask"]

JSON = "org.apache.kafka.connect.json.JsonConverter"
SETTINGS = DistributedSettings(
    group_id="connect-cluster",
    config_topic=StorageTopic("connect-config", 1, 1, setting="config.storage.topic"),
    offset_topic=StorageTopic("connect-offset", 2, 1, setting="offset.storage.topic"),
    status_topic=StorageTopic("connect-status", 2, 1, setting="status.storage.topic"),
    rebalance_delay_ms=1_000,
)
PLUGINS = discover(more=[Numbers])
ANSWER_SECONDS_MAX = 90.0


@dataclass(frozen=True)
class Answer:
    """What a worker has answered."""

    status: int
    body: bytes

    @property
    def message(self) -> str:
        """What is said of an error."""
        found = json.loads(self.body) if self.body else None
        return str(found.get("message", "")) if isinstance(found, dict) else ""


@dataclass
class Asked:
    """A request as the interface's routes take it."""

    method: str
    url: URL
    body: bytes
    headers: Mapping[str, str]
    match_info: Mapping[str, str] = field(default_factory=dict)

    content_type = "application/json"

    @property
    def path(self) -> str:
        """Its path."""
        return self.url.path

    @property
    def query(self) -> Any:
        """What follows the path."""
        return self.url.query

    async def read(self) -> bytes:
        """Return the body."""
        return self.body


class _NoGroups:
    """There are no sinks here."""

    async def committed(self, group: str) -> Mapping[TopicPartition, int]:
        raise AssertionError(group)


class Place:
    """Where workers reach each other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, kafka: KafkaModel, ledger: Ledger) -> None:
        self.loop, self.kafka, self.ledger, self.rng = loop, kafka, ledger, kafka.rng
        self.workers: dict[str, Worker] = {}

    async def send(self, method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Ask a worker; raises HttpError 500 where it cannot be reached, as one asks by HTTP."""
        url = URL(address)
        await asyncio.sleep(0.0005 + 0.004 * self.rng.random())
        worker = self.workers.get(f"{url.host}:{url.port}")
        if worker is None or not worker.process.alive or not worker.listens:
            raise HttpError(500, "IO Error trying to forward REST request: refused")
        asked = Asked(method, url, body, headers)
        task = worker.process.spawn(worker.answer(asked))
        done, _ = await asyncio.wait(
            [task, worker.process.died], timeout=ANSWER_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        await asyncio.sleep(0.0005 + 0.004 * self.rng.random())
        if not worker.process.alive:
            raise HttpError(500, "IO Error trying to forward REST request: reset")
        if not done:
            raise HttpError(500, "IO Error trying to forward REST request: no answer in time")
        return task.result()


class Worker:
    """A worker's process."""

    def __init__(self, place: Place, name: str, settings: DistributedSettings) -> None:
        self.place, self.name = place, name
        self.worker_id = f"{name}:80"
        self.process = Process(place.loop, name)  # type: ignore[arg-type]
        self.listens = False
        self.is_cut = self.has_started = False
        self.settings = settings
        self.herder: DistributedHerder | None = None
        self.runner: MachineRunner | None = None
        self._routes: list[tuple[str, re.Pattern[str], Any]] = []

    @property
    def is_well(self) -> bool:
        """Whether it runs and reaches the others."""
        return self.process.alive and not self.process.is_paused and not self.is_cut

    @property
    def leads(self) -> bool:
        """Whether it leads its group, as far as it knows."""
        return self.herder is not None and self.herder.group.is_leader

    def door(self) -> Door:
        """Return a client of this worker's."""
        return Door(self.place.kafka, lambda: self.is_cut)

    async def start(self) -> None:
        """Start it; it is asked from then on."""
        herder = self.herder = DistributedHerder(
            PLUGINS,
            self.settings,
            url=f"http://{self.worker_id}/",
            make_client=lambda name: self.door(),  # type: ignore[arg-type, return-value]
            make_runner=self._runner,
            groups=_NoGroups(),  # type: ignore[arg-type]
            ask=self.place.send,
            worker=dict.fromkeys(("key.converter", "value.converter"), JSON),
        )
        for route in service_routes(herder, RestSettings(), forward=self.place.send):
            pattern = "".join(
                f"(?P<{each[1:-1]}>[^/]+)" if each.startswith("{") and ":" not in each else re.escape(each)
                for each in re.split(r"(\{[^}]*\})", route.path)
            )
            self._routes.append((route.method, re.compile(pattern), route.handle))
        self.listens = True
        while True:
            try:
                await herder.start()
                self.has_started = True
                return
            except OttlaError:  # as a worker that ends where no broker answers, and is started again
                await asyncio.sleep(0.2)

    def _runner(self, owner: TaskOwner) -> MachineRunner:
        place = self.place
        self.runner = MachineRunner(owner, self.worker_id, self.door(), place.kafka, place.ledger, place.rng)
        return self.runner

    async def answer(self, asked: Asked) -> Reply:
        """Answer a request."""
        for method, pattern, handle in self._routes:
            found = pattern.fullmatch(asked.path)
            if found and method == asked.method:
                reply: Reply = await handle(replace(asked, match_info=found.groupdict()))
                return reply
        raise AssertionError(f"nobody answers {asked.method} {asked.path}")

    async def close(self) -> None:
        """End in good order."""
        self.listens = False
        assert self.herder is not None
        await self.herder.close()

    def kill(self) -> None:
        """End without a word."""
        self.place.ledger.excuse(self.worker_id, 0)
        self.listens = False
        self.process.kill()

    def running(self) -> dict[TaskId, Any]:
        """Return the states of the tasks that it runs."""
        return {} if self.runner is None or not self.process.alive else self.runner.states()


async def ask(place: Place, worker: Worker, method: str, path: str, body: Any = None) -> Answer | None:
    """Ask a worker's interface from outside; None where it has died, or cannot be reached."""
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        reply = await place.send(method, f"http://{worker.worker_id}{path}", data, headers)
    except (Crash, HttpError):
        return None
    return Answer(reply.status, reply.body if isinstance(reply.body, bytes) else str(reply.body).encode())

"""A whole standalone worker in this process: REST, herder, runner and channel as they are, with tasks in threads.

What Spark would add is only where the tasks run, so most tests of connectors and of the REST interface need no more. For a
worker with Spark, give `SparkJobs` as `jobs`, or run `ottla connect-standalone`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.connect import WorkerConfig, WorkerMode
from ottla.spark import ConnectWorker, ThreadJobs, distributed_herder
from ottla.spark.connect.jobs import Jobs
from ottla.spark.connect.worker import standalone
from tests.waiting import until

__all__ = ["WholeWorker", "running_connect"]

JSON = "org.apache.kafka.connect.json.JsonConverter"
WAIT_S = 120.0
GROUP = {
    "group.id": "connect-cluster",
    **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    "offset.storage.partitions": "2",
    "status.storage.partitions": "2",
    "heartbeat.interval.ms": "100",
    "session.timeout.ms": "6000",
    "scheduled.rebalance.max.delay.ms": "200",
}
"""What makes a worker one of a group."""


@dataclass
class WholeWorker:
    """A worker, and how it is asked."""

    worker: ConnectWorker
    url: str
    loop: asyncio.AbstractEventLoop

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text else None

    def create(self, name: str, config: Mapping[str, str], **more: Any) -> Any:
        """Create a connector; raises AssertionError with the answer where it is refused."""
        status, body = self.ask("POST", "/connectors", {"name": name, "config": dict(config), **more})
        assert status == 201, body
        return body

    def states(self, name: str) -> tuple[str, ...]:
        """Return the states of a connector and of its tasks."""
        status, body = self.ask("GET", f"/connectors/{name}/status")
        return (body["connector"]["state"], *(each["state"] for each in body["tasks"])) if status == 200 else ()

    def until(self, name: str, *states: str) -> None:
        """Return when connector and tasks are in these states."""
        until(lambda: self.states(name) == states, lambda: self.ask("GET", f"/connectors/{name}/status"))

    def call(self, work: Any) -> Any:
        """Run a coroutine on the worker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)


@contextmanager
def running_connect(
    folder: Path, bootstrap: str, *, jobs: Jobs | None = None, distributed: bool = False, **settings: str
) -> Iterator[WholeWorker]:
    """Run a worker until the block ends; its offsets are in `folder/offsets`. Give dotted settings as `**{"a.b": "c"}`."""
    properties = {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "key.converter": JSON,
        "value.converter": JSON,
        **(GROUP if distributed else {"offset.storage.file.filename": str(folder / "offsets")}),
        "offset.flush.interval.ms": "200",
        **settings,
    }
    config = WorkerConfig.load(properties, WorkerMode.DISTRIBUTED if distributed else WorkerMode.STANDALONE)
    worker = ConnectWorker(config, distributed_herder if distributed else standalone, jobs=jobs or ThreadJobs())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(worker.start(), loop).result(WAIT_S)
        yield WholeWorker(worker, worker.urls[0], loop)
    finally:
        asyncio.run_coroutine_threadsafe(worker.close(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

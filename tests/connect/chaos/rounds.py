"""Rounds of faults: each breaks one thing at a time of chance, and ends when every pipeline has caught up."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import KafkaException

from ottla.client import BlockingClient
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.connect.chaos.accounts import Account, Places, committed, settled
from tests.connect.chaos.parts import Gate, Worker
from tests.connect.chaos.pipelines import (
    CONNECTORS,
    DEAD_LETTERS,
    TOPICS,
    Feeder,
    configs,
    prepare_tables,
    worker_properties,
)
from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connectors.s3_server import S3Server, running_s3
from tests.ports import free_ports
from tests.server import start_server
from tools.postgres import PostgresServer, private_cluster

__all__ = ["KINDS", "Rounds", "running_rounds"]

START_SECONDS_MAX, GO_ON_SECONDS_MAX, SETTLE_SECONDS_MAX = 240.0, 150.0, 240.0
LOOK_SECONDS = 0.2
FROZEN_SECONDS = 5.0
"""Longer than a session: whoever wakes up then has been replaced."""
BROKER = (
    "transaction.state.log.num.partitions=4",
    "offsets.topic.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
)
BUCKET = "chaos"


class Rounds:
    """Everything that runs, and what was done to it so far."""

    def __init__(
        self, folder: Path, rng: random.Random, database: PostgresServer, s3: S3Server, *, exactly_once: bool
    ) -> None:
        self._folder, self._rng, self._database = folder, rng, database
        self._gate = Gate(int(s3.url.rpartition(":")[2]))
        self._port, *ports = free_ports(3)
        self._broker = start_server(folder, port=self._port, overrides=BROKER)
        self.done: Counter[str] = Counter()
        self.worst_s = 0.0
        s3.bucket(BUCKET)
        self._url = database.url.replace("+psycopg", "")
        with psycopg.connect(self._url) as connection:
            prepare_tables(connection)
        self._make_topics()
        self._places = Places(self._broker.bootstrap, self._url, s3, BUCKET, folder, exactly_once)
        properties = worker_properties(self._broker.bootstrap, exactly_once=exactly_once)
        self._workers = [Worker(number, folder, port, properties) for number, port in enumerate(ports)]
        self._feeder = Feeder(folder, self._broker.bootstrap, self._url)

    def _make_topics(self) -> None:
        with BlockingClient(self._broker.bootstrap) as client:
            wanted = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in (*TOPICS, *DEAD_LETTERS)
            ]
            client.request(CreateTopicsRequest(topics=wanted, timeout_ms=10_000))

    def start(self) -> None:
        """Start the workers and every connector, and return when records arrive everywhere."""
        for each in self._workers:
            each.start()
        self._feeder.start()
        store = f"http://127.0.0.1:{self._gate.port}"
        made = configs(self._folder, self._database.jdbc_url("postgres"), store, BUCKET)
        assert set(made) == set(CONNECTORS)
        for name, config in made.items():
            self._ask("PUT", f"/connectors/{name}/config", {"name": name, **config}, seconds=START_SECONDS_MAX)
        self._await_flow(START_SECONDS_MAX)

    # -- one round

    def round(self, kind: str) -> None:
        """Break one thing, mend it, and wait until everything that was fed by then has arrived."""
        time.sleep(self._rng.random())
        began = time.monotonic()
        KINDS[kind](self)
        self.done[kind] += 1
        self._await_flow(GO_ON_SECONDS_MAX)
        self.worst_s = max(self.worst_s, time.monotonic() - began)

    def _supervise(self) -> None:
        """Start again what has ended and is wanted; one worker is wanted at any time."""
        for each in self._workers:
            if each.is_wanted and not each.is_alive:
                each.start()

    def _one(self) -> Worker:
        """Choose a worker that runs."""
        self._supervise()
        return self._rng.choice([each for each in self._workers if each.is_wanted])

    def _pause_a_little(self) -> None:
        time.sleep(self._rng.random())

    def kill_worker(self) -> None:
        """`kill -9` of a worker's own process."""
        self._one().kill()

    def kill_machine(self) -> None:
        """`kill -9` of a worker's JVM."""
        worker = self._one()
        self._until(lambda: worker.signal_one(worker.machines(), signal.SIGKILL, self._rng), "a JVM")

    def kill_task(self) -> None:
        """`kill -9` of the process of a task."""
        self._until(self._kill_a_task, "a task's process")

    def _kill_a_task(self) -> bool:
        worker = self._one()
        return worker.signal_one(worker.tasks(), signal.SIGKILL, self._rng) is not None

    def freeze(self) -> None:
        """A worker and its tasks stand still for longer than a session, and go on as if nothing had been."""
        worker = self._one()
        frozen = worker.signal_all(signal.SIGSTOP)
        try:
            time.sleep(FROZEN_SECONDS)
        finally:
            worker.signal_all(signal.SIGCONT)
        assert frozen

    def kill_broker(self) -> None:
        """`kill -9` of the broker, and a start."""
        self._broker.kill()
        self._pause_a_little()
        self._broker = start_server(self._folder, port=self._port, overrides=BROKER)

    def kill_database(self) -> None:
        """A crash of PostgreSQL, and a start with its recovery."""
        self._database.kill()
        self._pause_a_little()
        self._database.start()

    def kill_store(self) -> None:
        """The store's connections are reset, whatever was under way, and nobody reaches it for a while."""
        self._gate.shut()
        time.sleep(3 * self._rng.random())
        self._gate.open()

    def stop_connector(self) -> None:
        """A connector is stopped over REST, and goes on."""
        name = self._rng.choice(CONNECTORS)
        self._ask("PUT", f"/connectors/{name}/stop")
        self._pause_a_little()
        self._ask("PUT", f"/connectors/{name}/resume")

    def pause_connector(self) -> None:
        """A connector is paused over REST, and goes on."""
        name = self._rng.choice(CONNECTORS)
        self._ask("PUT", f"/connectors/{name}/pause")
        self._pause_a_little()
        self._ask("PUT", f"/connectors/{name}/resume")

    def rebalance(self) -> None:
        """A worker leaves in good order, or comes."""
        idle = [each for each in self._workers if not each.is_wanted]
        if idle:
            self._until(lambda: not idle[0].is_alive, "the worker's end")
            idle[0].start()
        else:
            self._one().stop()

    def refuse(self) -> None:
        """For a second every record that can be bad is."""
        self._feeder.burst.set()
        time.sleep(1)
        self._feeder.burst.clear()

    # -- waiting

    def _await_flow(self, seconds: float) -> None:
        """Return when each destination has what was fed before, and the store and the file system something more."""
        marks = {topic: good[-1] if good else 1 for topic, good in self._feeder.good.items()}
        known: dict[str, int] = {}

        def is_known() -> bool:
            stored, laid, order = self._committed("s3"), self._committed("lake"), self._last("orders")
            if stored is None or laid is None or order is None:
                return False
            known.update(stored=stored, laid=laid, order=order)
            return True

        self._until(is_known, "an answer of the broker and the database", seconds)
        self._until(
            lambda: self._has_flown(marks, **known),
            lambda: f"records up to {marks} and {known}, beyond {self._standing(marks)},",
            seconds,
        )

    def _standing(self, marks: dict[str, int]) -> dict[str, object]:
        """Say how far each destination is."""
        places = {"stored": self._committed("s3"), "laid": self._committed("lake"), "copied": self._last("copied")}
        return {**places, "all in the file": self._is_in_file(marks)}

    def _has_flown(self, marks: dict[str, int], stored: int, laid: int, order: int) -> bool:
        if (self._committed("s3") or 0) <= stored or (self._committed("lake") or 0) <= laid:
            return False
        return (self._last("copied") or 0) >= order and self._is_in_file(marks)

    def _is_in_file(self, marks: dict[str, int]) -> bool:
        path = self._folder / "out.txt"
        if not path.exists():
            return False
        lines = path.read_bytes()[-200_000:].split(b"\n")[1:-1]
        return {str(each).encode() for each in marks.values()} <= set(lines)

    def _committed(self, connector: str) -> int | None:
        """Return how far a sink of lines has come; None where nobody says."""
        try:
            return sum(committed(self._places.bootstrap, f"connect-{connector}", ("lines", "logs")).values())
        except KafkaException:
            return None

    def _last(self, table: str) -> int | None:
        try:
            with psycopg.connect(self._url, connect_timeout=5) as connection:
                found = connection.execute(f"SELECT max(id) FROM {table} WHERE amount >= 0").fetchone()
                return int(found[0] or 0) if found else 0
        except psycopg.Error:
            return None

    def _until(
        self, done: Callable[[], Any], what: str | Callable[[], str], seconds: float = GO_ON_SECONDS_MAX
    ) -> None:
        until = time.monotonic() + seconds
        while not done():
            self._supervise()
            if time.monotonic() >= until:
                said = what if isinstance(what, str) else what()
                raise AssertionError(f"{said} did not come in {seconds:.0f} s; {self._status()}")
            time.sleep(LOOK_SECONDS)

    def _ask(self, method: str, path: str, body: Any = None, seconds: float = GO_ON_SECONDS_MAX) -> dict[str, Any]:
        """Ask whichever worker answers, until one has done it."""
        answer: dict[str, Any] = {}

        def is_done() -> bool:
            for each in self._workers:
                try:
                    answer.update(ask_once(each.port, Call(method, path, body)))
                except OSError:
                    continue
                assert answer["status"] < 400 or answer["status"] in (404, 409, 500, 503, 504), answer
                if answer["status"] < 400:
                    return True
            return False

        self._until(is_done, f"{method} {path} (last answer: {answer})", seconds)
        return answer

    def _status(self) -> str:
        """Say how tasks are, for whoever looks at a failure."""
        for each in self._workers:
            try:
                found = ask_once(each.port, Call("GET", "/connectors?expand=status"))
                return f"done so far: {dict(self.done)}; {str(found['body'])[:6000]}"
            except OSError:
                continue
        return f"done so far: {dict(self.done)}; no worker answers"

    # -- the end

    def check(self) -> Account:
        """Stop feeding, wait until nothing is left to do, and count."""
        self._feeder.stop()
        until = time.monotonic() + SETTLE_SECONDS_MAX
        account = settled(self._places, self._feeder)
        while account.wrong and time.monotonic() < until:
            self._supervise()
            time.sleep(1)
            account = settled(self._places, self._feeder)
        if account.wrong:
            account.wrong.append(self._status())
            return account
        time.sleep(2)  # what might still come too much comes
        return settled(self._places, self._feeder)

    def close(self) -> None:
        """End everything."""
        self._feeder.stop()
        for each in self._workers:
            each.close()
        self._broker.kill()


KINDS: dict[str, Callable[[Rounds], None]] = {
    "task": Rounds.kill_task,
    "worker": Rounds.kill_worker,
    "machine": Rounds.kill_machine,
    "freeze": Rounds.freeze,
    "broker": Rounds.kill_broker,
    "database": Rounds.kill_database,
    "store": Rounds.kill_store,
    "stop": Rounds.stop_connector,
    "pause": Rounds.pause_connector,
    "rebalance": Rounds.rebalance,
    "refused": Rounds.refuse,
}
WEIGHTS = {"task": 5, "worker": 2, "machine": 2, "freeze": 2, "broker": 3, "database": 4, "store": 4}
"""What is not named has one and a half; a worker that is killed takes many seconds to be there again."""


def chosen(rng: random.Random) -> str:
    """Choose a kind of fault."""
    return rng.choices(list(KINDS), [WEIGHTS.get(each, 1.5) for each in KINDS])[0]


@contextmanager
def running_rounds(folder: Path, seed: int, *, exactly_once: bool = True) -> Iterator[Rounds]:
    """Run workers, a broker, a database and a store under faults until the block ends."""
    with ExitStack() as stack:
        database = stack.enter_context(private_cluster())
        s3 = stack.enter_context(running_s3())
        rounds = Rounds(folder, random.Random(seed), database, s3, exactly_once=exactly_once)
        stack.callback(rounds.close)
        rounds.start()
        yield rounds

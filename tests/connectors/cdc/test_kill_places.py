"""Each part under a capture killed as `kill -9` does, in the middle of what takes time: a snapshot, a COPY of many rows."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.client import LATEST, BlockingClient, Isolation
from tests.connect.chaos.parts import Worker
from tests.connect.rest.asked import ask_once
from tests.connect.rest.calls import Call
from tests.connectors.cdc.replay import connected, logical_server, run_sql
from tests.connectors.cdc.test_kills import PROPERTIES, source_of
from tests.ports import free_port
from tests.server import Server, start_server
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.spark]
TOPIC = TopicPartition("shop.public.t", 0)
Told = tuple[int, str, int | None]
"""A change: key, operation, and the value that the row has then."""
ROWS = 60_000
"""In each COPY: a second's work, in columns."""
SNAPSHOT_ROWS = 200_000
"""In the snapshot: so many that it is not over before the kill comes."""


@dataclass
class Pipeline:
    """A server, a broker and a worker with one connector, each of which can be killed."""

    folder: Path
    postgres: PostgresServer
    database: str
    broker: Server
    worker: Worker
    chance: random.Random = field(default_factory=lambda: random.Random(5))

    def kill_task(self) -> None:
        """The Python process in which Spark runs the task."""
        assert self.worker.signal_one(self.worker.tasks(), signal.SIGKILL, self.chance)

    def kill_machine(self) -> None:
        """Spark's JVM."""
        assert self.worker.signal_one(self.worker.machines(), signal.SIGKILL, self.chance)

    def kill_worker(self) -> None:
        self.worker.signal_all(signal.SIGKILL)
        self.worker.kill()
        self.worker.start()

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker = start_server(self.folder, port=self.broker.port, overrides=OVERRIDES)

    def kill_postgres(self) -> None:
        self.postgres.kill()
        self.postgres.start()

    def end(self, isolation: Isolation = Isolation.READ_COMMITTED) -> int:
        """Where the topic ends, for a reader of what is committed; 0 where it is not there or nobody answers."""
        try:
            with BlockingClient(self.broker.bootstrap) as client:
                return int(client.list_offsets({TOPIC: LATEST}, isolation=isolation)[TOPIC].offset)
        except Exception:  # whatever it is, it is asked again until the test's own bound
            return 0

    def copy(self, first: int) -> None:
        """Write rows by one COPY, which is one transaction."""
        with (
            connected(self.postgres, self.database) as connection,
            connection.cursor() as cursor,
            cursor.copy("copy t from stdin") as copy,
        ):
            for each in range(first, first + ROWS):
                copy.write_row((each, 0))


OVERRIDES = ["group.initial.rebalance.delay.ms=0"]


@contextmanager
def running(folder: Path, exactly_once: str) -> Iterator[Pipeline]:
    with logical_server() as postgres:
        broker = start_server(folder, overrides=OVERRIDES)
        database = postgres.new_database()
        run_sql(postgres, database, "create table t (id int primary key, v int)")
        given = dict(line.split("=", 1) for line in PROPERTIES.split())
        worker = Worker(
            1,
            folder,
            free_port(),
            {
                **given,
                "bootstrap.servers": broker.bootstrap,
                "exactly.once.source.support": exactly_once,
                "session.timeout.ms": "6000",
                "heartbeat.interval.ms": "1000",
                "scheduled.rebalance.max.delay.ms": "0",
                "value.converter.schemas.enable": "false",
                "key.converter.schemas.enable": "false",
            },
        )
        pipeline = Pipeline(folder, postgres, database, broker, worker)
        worker.start()
        try:
            yield pipeline
        finally:
            worker.close()
            pipeline.broker.kill()


def committed(bootstrap: str) -> list[Told]:
    """Return each change that a reader of what is committed finds, in order."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([Place(TOPIC.topic, 0, 0)])
    with BlockingClient(bootstrap) as client:
        end = client.list_offsets({TOPIC: LATEST}, isolation=Isolation.READ_COMMITTED)[TOPIC].offset
    found: list[Told] = []

    def is_read() -> bool:
        for each in consumer.consume(5000, 0.2):
            key, value = json.loads(each.key() or b""), json.loads(each.value() or b"null")
            if value is not None:
                row = value["after"] or value["before"]
                found.append((key["id"], value["op"], row["v"]))
        [place] = consumer.position([Place(TOPIC.topic, 0)])
        return place.offset >= end

    until(is_read, "the topic's end")
    consumer.close()
    return found


def test_kills_in_a_snapshot_and_in_copies_lose_nothing_and_repeat_nothing_that_has_changed(tmp_path: Path) -> None:
    found, wanted, first = through(tmp_path, "enabled")
    changes = [each for each in found if each[1] != "r"]
    assert Counter(changes) == Counter(wanted), sorted((Counter(changes) - Counter(wanted)).items())[:5]
    assert {each[0] for each in found if each[1] == "r"} == set(range(first))
    check_order(changes)


def test_kills_without_exactly_once_lose_nothing(tmp_path: Path) -> None:
    found, wanted, first = through(tmp_path, "disabled")
    assert set(wanted) <= set(found), sorted(set(wanted) - set(found))[:5]
    assert {each[0] for each in found if each[1] == "r"} == set(range(first))
    final = {key: (op, v) for key, op, v in found}
    assert final == {**dict.fromkeys(range(first), ("r", 0)), **{key: (op, v) for key, op, v in wanted}}


def test_a_snapshot_that_is_one_transaction_has_each_row_once_after_kills(tmp_path: Path) -> None:
    with running(tmp_path, "enabled") as pipeline:
        run_sql(
            pipeline.postgres,
            pipeline.database,
            f"insert into t select g, 0 from generate_series(0, {SNAPSHOT_ROWS - 1}) g",
        )
        config = {
            **source_of(pipeline.postgres, pipeline.database),
            "max.batch.size": "500",
            "snapshot.fetch.size": "500",
            "poll.interval.ms": "50",
            "transaction.boundary": "connector",
            "producer.override.transaction.timeout.ms": "600000",
        }
        config = {name: value for name, value in config.items() if not name.startswith("transforms")}
        call = Call("POST", "/connectors", body={"name": "capture", "config": config})
        until(lambda: ask_once(pipeline.worker.port, call)["status"] in (201, 409), "the connector", past=(OSError,))
        for kill in (pipeline.kill_task, pipeline.kill_worker):
            before = pipeline.end(Isolation.READ_UNCOMMITTED)
            until(
                lambda before=before: pipeline.end(Isolation.READ_UNCOMMITTED) > before + 2000,  # type: ignore[misc]
                "the snapshot's beginning",
                seconds=120,
                every=0,
            )
            kill()
        run_sql(pipeline.postgres, pipeline.database, f"insert into t values ({SNAPSHOT_ROWS}, 1)")
        until(
            lambda: last_key(pipeline.broker.bootstrap) == SNAPSHOT_ROWS,
            "the last",
            seconds=240,
            every=0.5,
            past=(OSError,),
        )
        found = committed(pipeline.broker.bootstrap)
    assert Counter(key for key, _, _ in found) == Counter(range(SNAPSHOT_ROWS + 1)), "each row once"


def test_a_snapshot_in_columns_whose_worker_is_killed_anywhere_in_it_leaves_a_topic_that_is_the_table(
    tmp_path: Path,
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with running(tmp_path, "disabled") as pipeline:
        made = f"insert into t select g, 0 from generate_series(0, {SNAPSHOT_ROWS - 1}) g"
        run_sql(pipeline.postgres, pipeline.database, made)
        config = {**source_of(pipeline.postgres, pipeline.database), "snapshot.fetch.size": "500"}
        config = {name: value for name, value in config.items() if not name.startswith("transforms")}
        call = Call("POST", "/connectors", body={"name": "capture", "config": config})
        until(lambda: ask_once(pipeline.worker.port, call)["status"] in (201, 409), "the connector", past=(OSError,))
        for turn in (1, 2):
            before, told = pipeline.end(), chance.randrange(1, SNAPSHOT_ROWS // 3)
            until(
                lambda told=told + before: pipeline.end() >= told,  # type: ignore[misc]
                f"{told} rows (seed {seed})",
                seconds=120,
                every=0,
            )
            pipeline.kill_worker()
            assert pipeline.end() < before + SNAPSHOT_ROWS, f"killed within the snapshot (seed {seed})"
            run_sql(  # rows that were told, that were not, and new ones
                pipeline.postgres,
                pipeline.database,
                f"update t set v = {turn} where id % 97 = {turn}; insert into t values ({SNAPSHOT_ROWS + turn}, {turn}); "
                f"delete from t where id between {SNAPSHOT_ROWS - 1000 * turn} and {SNAPSHOT_ROWS - 1}",
            )
        before = pipeline.end()
        until(lambda: pipeline.end() > before, "the last snapshot's moment", seconds=120)
        run_sql(pipeline.postgres, pipeline.database, "delete from t where id % 1000 = 7; insert into t values (-1, 0)")
        arrived(pipeline, 0)
        found, times = replayed(pipeline.broker.bootstrap)
        with connected(pipeline.postgres, pipeline.database) as connection:
            rows = dict(connection.execute("select id, v from t").fetchall())
    assert found == rows, f"seed {seed}: {sorted(found.items() ^ rows.items())[:5]}"
    assert len(times) < SNAPSHOT_ROWS // 50, "rows of a piece that is made in columns have one time of making"


def replayed(bootstrap: str) -> tuple[dict[int, int], set[int]]:
    """Return the topic's rows by key, and the times at which those of snapshots were made."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "replayed"})
    consumer.assign([Place(TOPIC.topic, 0, 0)])
    with BlockingClient(bootstrap) as client:
        end = client.list_offsets({TOPIC: LATEST})[TOPIC].offset
    found: dict[int, int] = {}
    times: set[int] = set()

    def is_read() -> bool:
        for each in consumer.consume(5000, 0.2):
            key, value = json.loads(each.key() or b"")["id"], json.loads(each.value() or b"null")
            if value is None or value["after"] is None:
                found.pop(key, None)
                continue
            found[key] = value["after"]["v"]
            if value["op"] == "r":
                times.add(value["ts_ns"])
        [place] = consumer.position([Place(TOPIC.topic, 0)])
        return int(place.offset) >= end

    until(is_read, "the topic's end")
    consumer.close()
    return found, times


def check_order(changes: list[Told]) -> None:
    """Per key a row is made, then changed upwards, then deleted."""
    last: dict[int, tuple[int, int]] = {}
    for key, op, v in changes:
        now = ("cud".index(op), v or 0)
        assert now > last.get(key, (-1, 0)), (key, op, v)
        last[key] = now


def through(folder: Path, exactly_once: str) -> tuple[list[Any], list[Told], int]:
    """Kill each part once; returns what stands in the topic, the changes that were committed, and the snapshot's rows."""
    wanted: list[Told] = []
    with running(folder, exactly_once) as pipeline:
        run_sql(
            pipeline.postgres,
            pipeline.database,
            f"insert into t select g, 0 from generate_series(0, {SNAPSHOT_ROWS - 1}) g",
        )
        config = {
            **source_of(pipeline.postgres, pipeline.database),
            "max.batch.size": "500",
            "snapshot.fetch.size": "500",
            "poll.interval.ms": "50",
        }
        config = {name: value for name, value in config.items() if not name.startswith("transforms")}
        call = Call("POST", "/connectors", body={"name": "capture", "config": config})
        until(lambda: ask_once(pipeline.worker.port, call)["status"] in (201, 409), "the connector", past=(OSError,))
        until(lambda: pipeline.end() > 1000, "the snapshot's beginning", every=0)
        pipeline.kill_task()
        assert pipeline.end() < SNAPSHOT_ROWS, "killed within the snapshot"
        kills: list[Callable[[], None]] = [
            pipeline.kill_task,
            pipeline.kill_machine,
            pipeline.kill_broker,
            pipeline.kill_postgres,
            pipeline.kill_worker,
        ]
        run_sql(
            pipeline.postgres, pipeline.database, "insert into t values (-1, 0)"
        )  # the snapshot's last, or a change
        arrived(pipeline, 0)
        for turn, kill in enumerate(kills):
            first, before = SNAPSHOT_ROWS + ROWS * turn, pipeline.end()
            pipeline.copy(first)
            wanted += [(each, "c", 0) for each in range(first, first + ROWS)]
            until(lambda before=before: pipeline.end() > before + 1000, "the COPY's beginning", every=0)  # type: ignore[misc]
            kill()
            assert pipeline.end() < before + ROWS, f"killed within the COPY: {kill.__name__}"
            update(pipeline, wanted, turn, first)
            arrived(pipeline, 100 * (turn + 1))
        return [each for each in committed(pipeline.broker.bootstrap) if each[0] != -1], wanted, SNAPSHOT_ROWS


def update(pipeline: Pipeline, wanted: list[Told], turn: int, first: int) -> None:
    """Change rows, the last of them so that it says how far a reader is; delete one."""
    mark = 100 * (turn + 1)
    for key, v in ((first, mark + 1), (first + 1, mark + 1), (first, mark + 2)):
        run_sql(pipeline.postgres, pipeline.database, f"update t set v = {v} where id = {key}")
        wanted.append((key, "u", v))
    run_sql(pipeline.postgres, pipeline.database, f"delete from t where id = {first + 2}")
    wanted.append((first + 2, "d", None))
    run_sql(pipeline.postgres, pipeline.database, f"insert into t values ({-1 - mark}, {mark})")
    wanted.append((-1 - mark, "c", mark))


def arrived(pipeline: Pipeline, mark: int) -> None:
    """Wait until the change behind a mark stands in the topic: the last one there is."""

    def is_there() -> bool:
        return pipeline.end() > 0 and last_key(pipeline.broker.bootstrap) == -1 - mark

    until(is_there, f"mark {mark}", seconds=240, every=0.5, past=(AssertionError, OSError))


def last_key(bootstrap: str) -> int | None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed"})
    try:
        with BlockingClient(bootstrap) as client:
            end = client.list_offsets({TOPIC: LATEST}, isolation=Isolation.READ_COMMITTED)[TOPIC].offset
        consumer.assign([Place(TOPIC.topic, 0, max(0, end - 5))])
        keys = [json.loads(each.key() or b"")["id"] for each in consumer.consume(5, 1.0) if each.error() is None]
        return keys[-1] if keys else None
    finally:
        consumer.close()

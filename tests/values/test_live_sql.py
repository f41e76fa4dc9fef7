"""Hostile values through a live SQL server: every request has its answer, and the server is well behind all of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from ottla.base import Millis, TopicPartition
from ottla.client import BlockingClient
from ottla.wire import Record, build_batch
from tests.server import Server, running_server
from tests.sql_server.running import SqlProcess, start_sql
from tests.values import live_sql as live
from tests.waiting import until

LOG = "ksql.logging.processing"
NOBODY = "ksql.connect.url=http://127.0.0.1:1"
WATCHED = ("tests.values.watched_sql_server",)
ROOT = Path(__file__).resolve().parent.parent.parent
STOP_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker"), overrides=("group.initial.rebalance.delay.ms=0",)) as server:
        yield server


def _write(broker: Server, every: int) -> int:
    """Write strangers' records into the topics; returns how many."""
    count = 0
    with BlockingClient(broker.bootstrap) as client:
        for stream in live.STREAMS:
            for key, value in islice(live.records(), 0, None, every):
                record = Record(timestamp=Millis(time.time_ns() // 1_000_000), key=key, value=value)
                client.produce({TopicPartition(stream, 0): build_batch([record])})
                count += 1
    return count


def _asked(broker: Server, sql: SqlProcess, every: int) -> list[str]:
    """Ask everything, or each of so many; returns the faults."""
    door = live.Door(sql.url)

    def chosen(asks: Iterator[str] | Iterator[tuple[str, bytes]]) -> None:
        for each in islice(asks, 0, None, every):
            if isinstance(each, str):
                door.statement(each)
            else:
                door.ask(*each)

    door.statement(live.SETUP)
    chosen(live.values())
    chosen((live.INSERTS, each) for each in live.lines())
    _write(broker, every)
    for text in live.ANSWERS:
        for path, accepts in live.FORMS:
            door.statement(text, path, accepts)
            if "FROM T" not in text and "FROM O" not in text and "GROUP" not in text:
                door.statement(text.replace(";", " EMIT CHANGES LIMIT 20;"), path, accepts)
    for topic in live.STREAMS:
        door.statement(f"PRINT '{topic}' FROM BEGINNING LIMIT 10;", live.QUERY)
    pairs = list(live.names_and_texts())
    for name, text in pairs[::every]:
        for each in live.filled(live.QUERIES, name, text):
            door.statement(each, live.QUERY)
        for each in live.filled(live.STATEMENTS, name, text):
            door.statement(each)
    for name, text in pairs[:: 5 * every]:
        for each in live.filled(live.MAKING, name, text):
            door.statement(each)
    chosen(live.bodies())
    return door.faults


def _driven(broker: Server, every: int, service: str) -> None:
    overrides = (
        NOBODY,
        f"ksql.service.id={service}",
        f"{LOG}.topic.auto.create=true",
        f"{LOG}.stream.auto.create=true",
        f"{LOG}.rows.include=true",
    )
    sql = start_sql(broker.bootstrap, program=WATCHED, overrides=overrides)
    try:
        assert sql.url, sql.said()
        faults = _asked(broker, sql, every)
        assert not faults, live.shown(faults)
        assert sql.process.poll() is None, sql.said()[-5000:]
        health = sql.ask("GET", "/healthcheck")
        assert (health.status, health.body["isHealthy"]) == (200, True), health
        running = {each["id"]: each["state"] for each in sql.ksql("LIST QUERIES;")[0]["queries"]}
        assert running and set(running.values()) == {"RUNNING"}, running
        lost: list[object] = []

        def told() -> bool:
            lost[:] = sql.rows("SELECT logger FROM KSQL_PROCESSING_LOG;")
            return any("deserializer" in str(each) for each in lost)

        until(told, lambda: f"lines of the processing log: {lost[:3]}")
        sql.process.send_signal(signal.SIGTERM)
        assert sql.process.wait(STOP_SECONDS_MAX) == 0
        assert "Traceback" not in sql.said(), sql.said()[sql.said().index("Traceback") - 300 :][:3000]
    finally:
        sql.kill()


@pytest.mark.timeout(600)
def test_a_server_answers_each_of_some_hostile_requests_and_stays_well(broker: Server) -> None:
    _driven(broker, 16, "some_")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_answers_every_hostile_request_and_stays_well(broker: Server) -> None:
    _driven(broker, 1, "every_")


def test_a_loop_that_does_not_go_round_ends_its_process_with_its_stack() -> None:
    """What watches the server sees a stall: without it the tests above would only wait."""
    text = (
        "import asyncio, time\n"
        "from tests.values import watched_sql_server as w\n"
        "w.STALL_SECONDS_MAX, w.LOOKS_SECONDS = 0.2, 0.05\n"
        "async def main():\n"
        "    w.watch()\n"
        "    await asyncio.sleep(0.3)\n"
        "    print('goes round', flush=True)\n"
        "    while True: sum(range(1000))\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "goes round" in ran.stdout and "in main" in ran.stderr, ran


def test_inserts_of_half_a_character_and_of_a_long_line_are_answered_by_name(broker: Server) -> None:
    sql = start_sql(broker.bootstrap, overrides=(NOBODY, "ksql.service.id=named_"))
    try:
        door = live.Door(sql.url)
        made = "CREATE STREAM NS (K STRING KEY, D STRING) WITH (KAFKA_TOPIC='NS', FORMAT='JSON', PARTITIONS=1);"
        door.statement(made)
        half = b'{"target":"NS"}\n{"K":"k","D":"a\\ud800b"}\n'
        assert json.loads(door.ask(live.INSERTS, half).splitlines()[0])["status"] == "ok"
        assert sql.rows("SELECT D FROM NS;") == [["a?b"]]
        long = door.ask(live.INSERTS, b'{"target":"NS' + b"x" * (2 << 20))
        assert "too long" in json.loads(long)["message"] and 500 not in door.statuses
        for text in (f"CREATE STREAM N2 (A INT) WITH (KAFKA_TOPIC='{'x' * 40_000}', FORMAT='JSON', PARTITIONS=1);",):
            assert sql.refused(text)[:2] == (400, 40001)
        assert sql.refused(f"PRINT '{'x' * 40_000}';", live.QUERY)[:2] == (400, 40001)
        for number in (b"9223372036854775808", b"true", b"1e3"):
            body = b'{"ksql":"LIST TYPES;","commandSequenceNumber":' + number + b"}"
            found = json.loads(door.ask(live.KSQL, body))
            assert found["error_code"] == 40000 and "64 bits" in found["message"], found
        found = json.loads(door.statement("DESCRIBE CONNECTOR `\ud83d`;"))
        assert live.AWAY in found["message"], found
        rows = door.statement("SELECT ARRAY[CAST(NULL AS STRING)] AS X FROM NS;", live.QUERY, live.PROTOBUF)
        header, failure = json.loads(rows)
        assert "protoSchema" in header["header"] and "hold no nulls" in failure["errorMessage"]["message"]
        assert not door.faults, door.faults
    finally:
        sql.process.send_signal(signal.SIGTERM)
        sql.process.wait(STOP_SECONDS_MAX)

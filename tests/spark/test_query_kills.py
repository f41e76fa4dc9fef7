"""A query sink killed while it writes: locally, and onto a real HDFS. Each record is in one file, once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from tests.peer import hdfs
from tests.spark.conftest import create_topic
from tests.spark.query_tasks import produce, query_task, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

RECORDS, ROUND = 6_000, 300
KILLS = 3
SEED = 8
SECONDS_MAX = 300.0


def _config(topic: str, path: str) -> dict[str, str]:
    return {
        "connector.class": "FilesystemSink",
        "name": topic,
        "topics": topic,
        "path": path,
        "partition.by": "hour",
        "rotate.interval.ms": "250",
        "batch.max.rows": str(ROUND),
        "tasks.max": "2",
    }


def _fill(client: BlockingClient, topic: str) -> None:
    half = RECORDS // 2
    for partition in (0, 1):
        numbers = range(partition * half, partition * half + half)
        values = [json.dumps({"n": number}).encode() for number in numbers]
        produce(client, topic, values, partition=partition, step_ms=5000)


def _await(holds: Callable[[], bool], worker: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert worker.poll() is None, f"the worker has ended with {worker.returncode}"
        assert time.monotonic() < deadline, f"waited for {SECONDS_MAX} s"
        time.sleep(0.01)


def test_a_worker_killed_at_any_moment_leaves_each_record_once_and_whole_files_only(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "killed")
    _fill(client, topic)
    chance = random.Random(SEED)
    command = [sys.executable, "-m", "tests.spark.query_worker", broker]
    command += [f"{key}={value}" for key, value in _config(topic, str(tmp_path)).items()]

    def commits() -> int:
        return len(list((tmp_path / "_ottla" / topic / "commits").glob("*.json")))

    def done() -> bool:
        wanted = {TopicPartition(topic, each): RECORDS // 2 for each in (0, 1)}
        committed = client.committed_offsets(f"connect-{topic}")
        return {each: found.offset for each, found in committed.items()} == wanted

    for kill in range(KILLS + 1):
        log = (tmp_path.parent / f"worker-{kill}.log").open("wb")
        worker = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            if kill < KILLS:
                seen = commits()
                _await(lambda seen=seen: commits() >= seen + 2, worker)  # type: ignore[misc]
                time.sleep(chance.uniform(0.0, 0.5))  # anywhere in a batch, which is what is to be met
            else:
                _await(done, worker)
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            log.close()
        rows = spark.read.parquet(str(tmp_path / topic)).select("n").collect()  # every file is whole
        numbers = sorted(row.n for row in rows)
        assert len(set(numbers)) == len(numbers), f"seed {SEED}: records are there twice after kill {kill}"
    assert numbers == list(range(RECORDS)), f"seed {SEED}"


@pytest.mark.skipif(hdfs.missing() is not None, reason=str(hdfs.missing()))
def test_topics_become_parquet_and_json_on_a_real_hdfs(
    spark: SparkSession, broker: str, client: BlockingClient, tmp_path: Path
) -> None:
    topic = create_topic(client, "lake")
    _fill(client, topic)
    with hdfs.running_hdfs(tmp_path / "hdfs") as address:
        with query_task(spark, broker, {**_config(topic, f"{address}/lake"), "batch.max.rows": "4000"}) as port:
            until(port, lambda: port.records == RECORDS)
        rows = spark.read.parquet(f"{address}/lake/{topic}")
        assert sorted(row.n for row in rows.select("n").collect()) == list(range(RECORDS))
        assert {"year", "month", "day", "hour"} <= set(rows.columns)
        as_theirs = {
            "connector.class": "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
            "name": "lake-json",
            "topics": topic,
            "hdfs.url": address,
            "flush.size": "1000",
            "format.class": "io.confluent.connect.hdfs3.json.JsonFormat",
        }
        with query_task(spark, broker, as_theirs) as port:
            until(port, lambda: port.records == RECORDS)
        assert spark.read.json(f"{address}/topics/{topic}").count() == RECORDS
        found = spark.read.format("binaryFile").load(f"{address}/topics/{topic}/partition=0").select("path").collect()
        names = sorted(row.path.rpartition("/")[2] for row in found)
        assert names == [f"{topic}+0+{start:010d}+{start + 999:010d}.json" for start in (0, 1000, 2000)]

"""One Spark session that runs the benchmark's applications, one after the other: `python -m bench.streams_session JSON`.

The argument has `master`, `bootstrap`, `folder` and `jobs`, each with `metric`, `plan`, `source`, `sink` and either `rows`,
the records that are to be taken, or `seconds` and `rate` for a latency. Prints a JSON line for every job that is done.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psutil
from pyspark import cloudpickle

from bench import streams_plans
from bench.streams_peer import WARM_SHARE
from bench.streams_topics import PARTITIONS
from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.spark import StreamsApplication, execution_mode
from ottla.spark.streams.launch import application_session
from ottla.streams import StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

JOB_SECONDS_MAX = 150.0
LOOK_SECONDS = 0.05
COMMIT_LOOK_SECONDS = 0.02
CROSSED_SHARE = 0.5
BATCHES = 5
"""Batches that a job's records come in; the first warms up and is not counted."""


def main(argv: list[str]) -> int:
    """Run the jobs; one that fails is told on stderr and the next is begun."""
    order: dict[str, Any] = json.loads(argv[0])
    cloudpickle.register_pickle_by_value(streams_plans)  # type: ignore[no-untyped-call]  # workers need not have it
    settings = {
        "bootstrap.servers": order["bootstrap"],
        "state.dir": f"{order['folder']}/state",
        "spark.master": order["master"],
        # a cluster's workers have to find the driver, wherever this machine's name leads
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{order['folder']}/warehouse",
    }
    spark = application_session(StreamsSettings.of({"application.id": "bench", **settings}))
    for number, job in enumerate(order["jobs"]):
        given = {**settings, **job.get("settings", {}), "application.id": f"bench-{number}-{time.time_ns()}"}
        try:
            values = _latency(spark, job, given) if "seconds" in job else _throughput(spark, job, given)
        except Exception as error:  # one job must not cost the others
            print(f"{job['metric']}: {error}", file=sys.stderr, flush=True)
            continue
        print(json.dumps({"metric": job["metric"], **values}), flush=True)
    spark.stop()
    return 0


def _throughput(spark: SparkSession, job: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Take a preloaded topic's records in batches; returns rows/s of all batches but the first.

    Beside it: the batches, and the processor seconds that a million rows took, by the name of the process.
    """
    if settings.get("execution") == "auto":
        # as an application of its own, that finds the topic's records waiting, would choose
        topology = streams_plans.PLANS[job["plan"]](job["source"], job["sink"])
        taken = execution_mode(topology, StreamsSettings.of(settings), job["rows"]).name
        return {**_throughput(spark, job, {**settings, "execution": taken}), "execution": taken}
    if settings.get("execution") == "continuous":
        return _committed(spark, job, settings)
    limits = {"max.records.per.batch": job["rows"] // BATCHES, "auto.offset.reset": "earliest"}
    topology = streams_plans.PLANS[job["plan"]](job["source"], job["sink"])
    with StreamsApplication(topology, {**settings, **limits}, spark=spark) as application:
        deadline = time.monotonic() + JOB_SECONDS_MAX
        before: dict[str, float] = {}
        while len(batches := _batches(spark, settings["application.id"])) < BATCHES:
            if batches and not before:
                before = _processor_seconds()
            if application.state.is_final or time.monotonic() > deadline:
                raise RuntimeError(f"{len(batches)} of {BATCHES} batches; {application.error}")
            time.sleep(LOOK_SECONDS)
        used = {name: seconds - before.get(name, 0.0) for name, seconds in _processor_seconds().items()}
    first, last = batches[1], batches[BATCHES - 1]
    seconds = last["began"] + last["seconds"] - first["began"]
    rows = sum(each["rows"] for each in batches[1:BATCHES])
    return {
        "value": rows / seconds,
        "batches": batches[:BATCHES],
        "cpu": {name: each / rows * 1e6 for name, each in used.items()},
    }


def _committed(spark: SparkSession, job: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return rows/s of all but the first fifth, by what hosts have committed: of a repartition topic, too."""
    application_id, factor = settings["application.id"], job["factor"]
    topology = streams_plans.PLANS[job["plan"]](job["source"], job["sink"])
    given = {**settings, "auto.offset.reset": "earliest"}
    read = [job["source"], *(f"{application_id}-{topic}" for topic in topology.repartition_topics)]
    places = [TopicPartition(topic, each) for topic in read for each in range(PARTITIONS)]
    first: tuple[float, int] | None = None
    last, before = (0.0, 0), dict[str, float]()
    with (
        BlockingClient(settings["bootstrap.servers"]) as client,
        StreamsApplication(topology, given, spark=spark) as application,
    ):
        deadline = time.monotonic() + JOB_SECONDS_MAX
        while True:
            found = client.committed_offsets(application_id, places)
            done, now = sum(max(0, int(each.offset)) for each in found.values()), time.monotonic()
            if first is None and done >= job["rows"] * factor * WARM_SHARE:
                # one commit may hold nearly all of a small topic: then it is counted from where it began
                first = (now, done) if done < job["rows"] * factor * CROSSED_SHARE else last
                before = _processor_seconds()
            last = now, done
            if first is not None and done >= job["rows"] * factor:
                break
            if application.state.is_final or now > deadline:
                raise RuntimeError(f"{done} of {job['rows'] * factor} records are committed; {application.error}")
            time.sleep(COMMIT_LOOK_SECONDS)
        used = {name: seconds - before.get(name, 0.0) for name, seconds in _processor_seconds().items()}
    rows = (done - first[1]) / factor
    cpu = {name: each / rows * 1e6 for name, each in used.items()}
    return {"value": rows / (now - first[0]), "cpu": cpu}


def _processor_seconds() -> dict[str, float]:
    """Return the processor time so far of this process's children, by name: Spark's JVM, and Python workers."""
    found: dict[str, float] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            times, name = process.cpu_times(), process.name()
        except psutil.Error:
            continue  # it has just ended
        found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def _batches(spark: SparkSession, application_id: str) -> list[dict[str, Any]]:
    """Return the batches with rows that the application's query has finished."""
    found = []
    for query in spark.streams.active:
        if query.name is not None and query.name.startswith(f"{application_id}/"):
            for each in query.recentProgress:
                facts = json.loads(each.json) if hasattr(each, "json") else each
                if rows := _rows(facts):
                    began = datetime.fromisoformat(facts["timestamp"].replace("Z", "+00:00")).timestamp()
                    durations = facts["durationMs"]
                    seconds = durations["triggerExecution"] / 1000
                    found.append({"rows": rows, "began": began, "seconds": seconds, "ms": durations})
    return found


def _rows(facts: dict[str, Any]) -> int:
    """Return how many offsets a batch went ahead: Spark counts no rows where tasks fetch by themselves."""
    total = 0
    for source in facts["sources"]:
        ends, starts = ({} if not text else _json(text) for text in (source["endOffset"], source["startOffset"]))
        for topic, partitions in ends.items():
            if topic.startswith("@"):
                continue  # of the topics themselves: their ids
            before = starts.get(topic, {})
            total += sum(end - before.get(partition, 0) for partition, end in partitions.items())
    return total


def _json(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


def _latency(spark: SparkSession, job: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Measure while the application runs, from a process of its own."""
    topology = streams_plans.PLANS[job["plan"]](job["source"], job["sink"])
    with StreamsApplication(topology, settings, spark=spark) as application:
        if not application.wait_running(JOB_SECONDS_MAX):
            raise RuntimeError(f"it did not run: {application.error}")
        words = (settings["bootstrap.servers"], job["source"], job["sink"], str(job["seconds"]), str(job["rate"]))
        command = [sys.executable, "-m", "bench.streams_latency", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=JOB_SECONDS_MAX)
        batches = _batches(spark, settings["application.id"])[-5:]
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return {**json.loads(done.stdout), "batches": batches}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The application that is killed: `python -m tests.streams.kills.query BOOTSTRAP FOLDER MASTER STATE`, until it is.

Two queries over the topic `in`: `copied` gets each record in capitals, `counted` how many records each key has had, by
Spark's own aggregate (STATE is `native`) or by a stage of Streams with state (`stateful`).
"""

from __future__ import annotations

import os
import sys

from ottla.spark import StreamsApplication
from ottla.streams import Materialized, StreamsBuilder, Topology

COPIED, COUNTED = "copied", "counted"
STARTED_SECONDS_MAX = 200.0
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def main(bootstrap: str, folder: str, master: str, state: str) -> None:
    """Run the application until it ends; whoever watches this process starts it again."""
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("OTTLA_", "PYTHONPATH"))}
    settings = {
        "application.id": "app",
        "bootstrap.servers": bootstrap,
        "execution": "micro-batch",
        "processing.guarantee": "exactly_once_v2",
        "state.dir": folder,
        "session.timeout.ms": 3000,
        "restart.attempts.max": 1_000_000,
        "restart.backoff.ms": 100,
        "restart.backoff.max.ms": 200,
        "spark.master": master,
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.task.maxFailures": "8",
        "spark.executor.memory": "700m",
        "spark.excludeOnFailure.enabled": "false",
        "spark.deploy.maxExecutorRetries": "-1",
        **{f"spark.executorEnv.{name}": text for name, text in environment.items()},
    }
    application = StreamsApplication(topology(state), settings)
    application.start()
    assert application.wait_running(STARTED_SECONDS_MAX), application.status()
    print(f"{COPIED} is running, {COUNTED} is running", flush=True)
    application.wait()


def topology(state: str) -> Topology:
    """Records in capitals, and counted."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    records = builder.stream("in")
    records.map_values(str.upper).to(COPIED)
    if state == "native":
        counts = records.group_by_key().count(materialized="counts")
    else:
        kept = Materialized("counts", value_serde="long")
        counts = records.group_by_key().aggregate(0, lambda key, value, count: count + 1, materialized=kept)
    counts.to_stream().map_values(str, value_serde="string").to(COUNTED)
    return builder.build()


if __name__ == "__main__":
    main(*sys.argv[1:])

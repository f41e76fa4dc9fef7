"""The application that is killed: `python -m tests.streams.kills.query BOOTSTRAP FOLDER MASTER STATE`, until it is.

Two queries over the topic `in`: `copied` gets each record in capitals, `counted` how many records each key has had, by
Spark's own aggregate (STATE is `native`) or by a stage of Streams with state (`stateful`).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark import Delivery, delivery_writer, session
from ottla.spark.streams.lowering.rows import HEADERS_DDL
from ottla.spark.streams.state.operator import STATE_SETTINGS, stateful
from ottla.streams import StoreSpec, operations
from tests.streams.engine.plans import LONG, STRING, Codec, sink, source, step, topology
from tests.streams.spark.entry_files import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COPIED, COUNTED = "copied", "counted"
TASKS = 2
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def main(bootstrap: str, folder: str, master: str, state: str) -> None:
    """Run both queries, and start each again when it fails."""
    settings = {
        **STATE_SETTINGS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.task.maxFailures": "8",
        "spark.executor.memory": "700m",
        "spark.excludeOnFailure.enabled": "false",
        "spark.deploy.maxExecutorRetries": "-1",
        **{
            f"spark.executorEnv.{name}": os.environ[name]
            for name in os.environ
            if name.startswith(("OTTLA_", "PYTHONPATH"))
        },
    }
    spark = session("killed", master=master, settings=settings, log_level="OFF")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "in")
    reader = reader.option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
    plans = {COPIED: _copied(reader.load()), COUNTED: _counted(reader.load(), state)}
    running = {}
    while True:
        for name, (rows, mode) in plans.items():
            if name not in running or not running[name].isActive:
                if name in running:
                    print(f"{name} ended: {running[name].exception()}", flush=True)
                delivery = Delivery("app", name, {"kafka.bootstrap.servers": bootstrap}, "exactly_once")
                writer = delivery_writer(rows, delivery, mode=mode)
                writer = writer.option("checkpointLocation", str(Path(folder, name))).queryName(name)
                running[name] = writer.trigger(processingTime="100 milliseconds").start()
                print(f"{name} is running", flush=True)
        time.sleep(0.2)


def _copied(records: DataFrame) -> tuple[DataFrame, str]:
    value = "cast(upper(cast(value as string)) as binary) as value"
    return records.selectExpr(f"'{COPIED}' as topic", "key", value, "unix_millis(timestamp) as timestamp"), "append"


def _counted(records: DataFrame, state: str) -> tuple[DataFrame, str]:
    if state == "native":
        counts = records.groupBy("key").count()
        return counts.selectExpr(f"'{COUNTED}' as topic", "key", "cast(count as string) as value"), "update"
    entries = records.selectExpr(
        f"cast(pmod(hash(key), {TASKS}) as int) as task",
        "0 as edge",
        *("key", "value", "unix_millis(timestamp) as timestamp"),
        f"cast(null as {HEADERS_DDL}) as headers",
        *("topic", "partition", "offset", "0 as step"),
    )
    digits = Codec("digits", lambda value: b"%d" % value, int)
    counting = topology(
        source(),
        step("count", operations.StreamAggregate("counts", operations.Aggregator("count")), "source", "counts"),
        step("to-stream", operations.TableToStream(), "count"),
        sink("to-stream", value=digits, name=COUNTED),
        stores=[StoreSpec("counts", "timestamped_key_value", STRING, LONG)],
    )
    return stateful(entries, plan_of(counting, tasks=TASKS)), "append"


if __name__ == "__main__":
    main(*sys.argv[1:])

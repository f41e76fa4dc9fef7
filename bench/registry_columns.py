"""Spark's columns by a registry beside Spark's own Avro: `python -m bench.registry_columns [ROUNDS [ROWS]]`.

One session with one core for the JVM, the same rows from memory, in turn within each round. Spark's own functions are in a
jar that Spark fetches from Maven. Prints rows a second, processor time of the JVM and of Python a million rows, and ratios.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import psutil

from bench.systems import Ottla
from ottla.spark import session
from ottla.spark.registry import from_registry, to_registry
from tests.registry.running import running_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

ROUNDS, ROWS = 7, 1_000_000
PREFIX_BYTES = 5
TOPIC = "columns"
FIELDS: dict[str, tuple[Any, str]] = {
    "id": ("long", "id * 1000003"),
    "who": ("string", "concat('user-', id % 5000)"),
    "price": ("double", "id / 7"),
    "note": (["null", "string"], "if(id % 3 = 0, concat('words of ', id), null)"),
    "count": ("int", "cast(id % 100000 as int)"),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp_micros(1790000000000000 + id)"),
}
"""Avro's type of each field, and Spark's expression for its values."""
SCHEMA = json.dumps(
    {"type": "record", "name": "Row", "fields": [{"name": n, "type": t} for n, (t, _) in FIELDS.items()]}
)
Turn = Callable[[], None]


def _turns(spark: SparkSession, url: str, rows: int) -> dict[str, Turn]:
    from pyspark.sql.avro.functions import from_avro, to_avro
    from pyspark.sql.functions import expr

    options = {"schema.registry.url": url, "auto.register.schemas": "true"}
    values = ", ".join(f"{text} as {name}" for name, (_, text) in FIELDS.items())
    made = spark.range(0, rows, 1, 1).selectExpr(f"struct({values}) as value")
    place = f"{mkdtemp(prefix='ottla-bench-columns-')}/rows"  # so that no plan of a turn is one that is kept already
    made.select("value", to_registry("value", TOPIC, options, schema=SCHEMA).alias("data")).write.parquet(place)
    both = spark.read.parquet(place).coalesce(1)
    made, written = both.select("value").cache(), both.select("data").cache()
    made.count()
    written.count()
    bare = expr(f"substring(data, {PREFIX_BYTES + 1})")

    def run(frame: Any) -> Turn:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    return {
        "from_avro": run(written.select(from_avro(bare, SCHEMA).alias("value"))),
        "from_registry": run(written.select(from_registry("data", TOPIC, options, schema=SCHEMA).alias("value"))),
        "to_avro": run(made.select(to_avro("value", SCHEMA).alias("data"))),
        "to_registry": run(made.select(to_registry("value", TOPIC, options, schema=SCHEMA).alias("data"))),
    }


def _cpu_seconds() -> dict[str, float]:
    """Return the processor time of the JVM and of its Python processes."""
    found = {"JVM": 0.0, "Python": 0.0}
    for each in psutil.Process().children(recursive=True):
        try:
            times, name = each.cpu_times(), each.name()
        except psutil.NoSuchProcess:
            continue
        if "java" in name or "python" in name:
            found["JVM" if "java" in name else "Python"] += times.user + times.system
    return found


def main(rounds: int, rows: int) -> None:
    """Measure, a first round for warmth that is not told."""
    broker = Ottla("ottla", Path(mkdtemp(prefix="ottla-bench-columns-")))
    broker.start()
    settings = {"spark.jars.packages": "org.apache.spark:spark-avro_2.13:4.2.0", "spark.driver.memory": "2g"}
    try:
        with running_registry(broker.bootstrap) as registry:
            spark = session("columns", master="local[1]", settings=settings)
            turns = _turns(spark, registry.url, rows)
            told: dict[str, list[float]] = {name: [] for name in turns}
            for number in range(rounds + 1):
                for name, turn in turns.items():
                    before, begun = _cpu_seconds(), time.perf_counter()
                    turn()
                    seconds, after = time.perf_counter() - begun, _cpu_seconds()
                    cpu = {each: (after[each] - before[each]) / rows * 1e6 for each in after}
                    if number:
                        told[name].append(seconds)
                    said = ", ".join(f"{each} {value:.2f} s" for each, value in cpu.items())
                    print(f"round {number} {name}: {rows / seconds:,.0f} rows/s, a million rows {said}", flush=True)
            for ours, theirs in (("from_registry", "from_avro"), ("to_registry", "to_avro")):
                ratios = [their / our for our, their in zip(told[ours], told[theirs], strict=True)]
                print(f"{ours} / {theirs}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            spark.stop()
    finally:
        broker.stop()


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:3], *map(str, (ROUNDS, ROWS)[len(sys.argv) - 1 :]))))

"""What Kafka Streams' settings mean where Spark runs the plan: those without a meaning, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["ALLOWED", "OWN_KEYS", "WITHOUT_MEANING", "OwnKey"]


class OwnKey(NamedTuple):
    """A setting of Ottla's own: its type in Kafka's words, its default, its lowest value, and what it means."""

    type: str
    default: str | None
    bound: str | None
    doc: str


OWN_KEYS: Mapping[str, OwnKey] = {
    "driver.records.max": OwnKey(
        "INT",
        "2000",
        "[0,...]",
        "With a local master, most records of a stateless micro-batch that the driver works on by itself, without a task.",
    ),
    "execution": OwnKey(
        "STRING",
        "auto",
        "[auto, micro-batch, continuous]",
        "`continuous`: records are processed one by one in long-running Spark tasks, in milliseconds; `micro-batch`: in "
        "batches, by Spark's queries. `auto`: as the application has begun; a new one continuous, where nothing speaks for "
        "batches.",
    ),
    "max.records.per.batch": OwnKey("LONG", None, "[1,...]", "Most records that a query takes into one micro-batch."),
    "restart.attempts.max": OwnKey(
        "INT",
        "10",
        "[0,...]",
        "Restarts in a row, without a finished batch between them, before the application fails.",
    ),
    "restart.backoff.ms": OwnKey(
        "LONG", "1000", "[0,...]", "Pause before the first restart; doubled with each further."
    ),
    "restart.backoff.max.ms": OwnKey("LONG", "60000", "[0,...]", "Longest pause before a restart."),
    "state.checkpoint.interval.ms": OwnKey(
        "LONG",
        "30000",
        "[0,...]",
        "In continuous mode, how often a task's state is saved below `state.dir` on the machine of its host, so that a "
        "restart reads what is behind it of the changelogs; 0: never.",
    ),
    "stream.time": OwnKey(
        "STRING",
        "auto",
        "[auto, partition]",
        "`partition`: time advances by partition and record, as in Kafka Streams; `auto`: native windows use Spark's "
        "watermark, which moves between batches.",
    ),
    "upgrade.drop.stores": OwnKey(
        "BOOLEAN", "false", None, "Start although stores with state are in the plan no more."
    ),
    "http.listener": OwnKey(
        "STRING",
        None,
        None,
        "[http:// or https://][HOST:]PORT at which status and stores are served; HTTPS with the `http.listener.ssl.…`.",
    ),
    "http.listener.hosts": OwnKey(
        "STRING",
        None,
        None,
        "Names under which that is asked beside `localhost` and addresses, separated by commas; `*` for any.",
    ),
    "http.listener.logins.file": OwnKey(
        "STRING", None, None, "A file of lines name=password: who may ask there (HTTP's basic authentication)."
    ),
    "spark.master": OwnKey("STRING", "local[*]", None, "Spark's master, or `sc://host:port` for Spark Connect."),
}
"""Settings of Ottla's own, in the style of Kafka's; `spark.…` beside these goes to the Spark session as it is."""

_THREADS = "micro-batches run in Spark's slots (`spark.master`); in continuous mode it is the number of hosts"
_STANDBY = "Spark keeps state with its checkpoint, so there are no standby tasks"
_REPLICAS = (
    "Spark keeps the state of micro-batches with its checkpoint; in continuous mode so many hosts beside a task's own keep "
    "a copy of its state"
)
_ASSIGN = "Spark assigns tasks"
_GROUP = "the driver is the one member of the group, by the classic protocol"
_STORES = "Spark's state store is configured by `spark.sql.streaming.stateStore.…`"
_METRICS = "metrics come over HTTP (`/metrics`)"
_FETCH = "a micro-batch reads what there is, bounded by `max.records.per.batch`"
_SOCKETS = "connections are Ottla's own"

WITHOUT_MEANING: Mapping[str, str] = {
    "acceptable.recovery.lag": _REPLICAS,
    "allow.os.group.write.access": _STORES,
    "buffered.records.per.partition": _FETCH,
    "application.server": "stores are served by the application's own address (`http.listener`)",
    "built.in.metrics.version": _METRICS,
    "connections.max.idle.ms": _SOCKETS,
    "default.client.supplier": _SOCKETS,
    "default.dsl.store": _STORES,
    **dict.fromkeys(
        (f"default.list.{part}.serde.{each}" for part in ("key", "value") for each in ("inner", "type")),
        "lists have their serdes from the DSL",
    ),
    "dsl.store.format": "changelogs are written in the default format",
    "dsl.store.suppliers.class": _STORES,
    "enable.metrics.push": _METRICS,
    "ensure.explicit.internal.resource.naming": "topologies with generated names are taken",
    "group.protocol": _GROUP,
    "log.summary.interval.ms": "the status line shows it",
    "max.task.idle.ms": "a micro-batch takes what all partitions have and merges it by timestamp",
    "max.warmup.replicas": _STANDBY,
    "metadata.max.age.ms": "metadata is asked for with every micro-batch",
    "metadata.recovery.rebootstrap.trigger.ms": _SOCKETS,
    "metadata.recovery.strategy": _SOCKETS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "num.standby.replicas": _REPLICAS,
    "num.stream.threads": _THREADS,
    "poll.ms": _FETCH,
    "probing.rebalance.interval.ms": _STANDBY,
    "processor.wrapper.class": "a Java class wraps nothing here",
    "processing.exception.handler.global.enabled": "an application has no global processors",
    "rack.aware.assignment.non_overlap_cost": _ASSIGN,
    "rack.aware.assignment.strategy": _ASSIGN,
    "rack.aware.assignment.tags": _ASSIGN,
    "rack.aware.assignment.traffic_cost": _ASSIGN,
    "receive.buffer.bytes": _SOCKETS,
    "reconnect.backoff.max.ms": _SOCKETS,
    "reconnect.backoff.ms": _SOCKETS,
    "rocksdb.config.setter": _STORES,
    "send.buffer.bytes": _SOCKETS,
    "state.cleanup.delay.ms": "Spark keeps as many versions of the state as `spark.sql.streaming.minBatchesToRetain`",
    "state.cleanup.dir.max.age.ms": "Spark keeps as many versions of the state as `spark.sql.streaming.minBatchesToRetain`",
    "task.assignor.class": _ASSIGN,
    "task.timeout.ms": "a query that fails is restarted (`restart.attempts.max`)",
    "upgrade.from": "a change of the plan is checked when the application starts",
    **dict.fromkeys(("window.size.ms", "windowed.inner.class.serde"), "it is for Java's consumers of windowed keys"),
}
"""Keys of Kafka's that are checked, accepted and without effect, with the reason that the notice gives."""

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "config.providers": (),
}
"""Keys of Kafka's with fewer values than there: what is not here yet is refused, since its lack would be noticed late."""

"""The client properties of a task: what Connect sets, then the worker's `producer.…`, then the connector's overrides.

As in Kafka, but that sending is idempotent unless somebody says otherwise: Kafka turns it off for brokers before 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.storage import TaskId, sink_group

__all__ = ["admin_properties", "consumer_properties", "prefixed", "producer_properties"]

Properties = Mapping[str, str | None]
_INT_MAX = str((1 << 31) - 1)


def prefixed(properties: Properties, prefix: str) -> dict[str, str]:
    """Return the properties below a prefix, without it."""
    return {
        key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix) and value is not None
    }


def producer_properties(
    worker: Mapping[str, str], connector: Properties, task: TaskId, *, sink: bool = False
) -> dict[str, str]:
    """Return the properties of a source task's producer, or of a sink task's for its dead letters."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092"),
        "acks": "all",
        "delivery.timeout.ms": _INT_MAX,
        "client.id": f"connector-{'dlq-' if sink else ''}producer-{task}",
        **prefixed(worker, "producer."),
        **prefixed(connector, "producer.override."),
    }


def consumer_properties(worker: Mapping[str, str], connector: Properties, task: TaskId) -> dict[str, str]:
    """Return a sink task's consumer properties."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092"),
        "group.id": sink_group(task.connector),
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "client.id": f"connector-consumer-{task}",
        **prefixed(worker, "consumer."),
        **prefixed(connector, "consumer.override."),
    }


def admin_properties(
    worker: Mapping[str, str], connector: Properties, task: TaskId, *, sink: bool = False
) -> dict[str, str]:
    """Return the properties of the client with which a task makes topics: a source's, or its dead letters'."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092"),
        "client.id": f"connector-{'dlq-' if sink else ''}adminclient-{task}",
        **prefixed(worker, "admin."),
        **prefixed(connector, "admin.override."),
    }

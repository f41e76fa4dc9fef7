"""The client properties of a task: what Connect sets, then the worker's `producer.…`, then the connector's overrides."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.storage import TaskId, sink_group

__all__ = ["admin_properties", "consumer_properties", "prefixed", "producer_properties"]

Properties = Mapping[str, str | None]
_LONG_MAX, _INT_MAX = str((1 << 63) - 1), str((1 << 31) - 1)


def prefixed(properties: Properties, prefix: str) -> dict[str, str]:
    """Return the properties below a prefix, without it."""
    return {
        key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix) and value is not None
    }


def producer_properties(worker: Mapping[str, str], connector: Properties, task: TaskId) -> dict[str, str]:
    """Return a source task's producer properties; Kafka's defaults lose no record, and keep their order."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092"),
        "max.block.ms": _LONG_MAX,
        "enable.idempotence": "false",
        "acks": "all",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": _INT_MAX,
        "client.id": f"connector-producer-{task}",
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


def admin_properties(worker: Mapping[str, str], connector: Properties, task: TaskId) -> dict[str, str]:
    """Return the properties of the client with which a task makes topics."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092"),
        "client.id": f"connector-adminclient-{task}",
        **prefixed(worker, "admin."),
        **prefixed(connector, "admin.override."),
    }

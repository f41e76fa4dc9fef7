"""KTableSuppress (KIP-328): a table's changes wait until their window closes, for a time, or until the buffer is full."""

from __future__ import annotations

from typing import Any

from ottla.streams.engine.buffers import SuppressBuffer
from ottla.streams.engine.interface import Headers
from ottla.streams.engine.task import Node, Process, builds
from ottla.streams.plan import operations

__all__ = ["BufferFullError"]


class BufferFullError(Exception):
    """A suppression's buffer is full, and the plan says that the application is to stop then."""


@builds(operations.Suppress)
def _suppress(node: Node) -> Process:
    """Time is the latest timestamp that this step has seen, not the clock."""
    operation, memory, forward = node.operation, node.memory, node.forward
    buffer: SuppressBuffer = node.store(operation.store)
    by_window: bool = operation.until == "window_close"
    most, most_bytes = operation.max_records, operation.max_bytes
    _provide_getter(node, buffer)

    def is_over() -> bool:
        return (most is not None and buffer.records > most) or (
            most_bytes is not None and buffer.size_bytes > most_bytes
        )

    def evict(goes_on: Any) -> None:
        for key, change, held in buffer.evict(goes_on):
            if change.new is not None or not by_window:
                forward(key, change, held.timestamp, held.headers)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        stream_time = max(memory.get("stream_time", -1), timestamp)
        memory["stream_time"] = stream_time
        time = key.end_ms if by_window else timestamp
        buffer.put(time, key, value, timestamp, headers, node.task.record)
        expired = stream_time - operation.wait_ms
        evict(lambda earliest: earliest <= expired)
        if is_over():
            if operation.on_full != "emit":
                raise BufferFullError(
                    f"{node.name}: the buffer holds {buffer.records} records ({buffer.size_bytes} bytes), "
                    f"more than it may ({most} records, {most_bytes} bytes)"
                )
            evict(lambda _earliest: is_over())

    return process


def _provide_getter(node: Node, buffer: SuppressBuffer) -> None:
    """Lookups see what has been let through: for a key that waits, the row before."""
    parent = node.getter(node.parents[0])

    def get(key: Any) -> tuple[Any, int] | None:
        prior = buffer.prior(key)
        if prior is None:
            return parent(key)
        return None if prior[0] is None else (prior[0], -1)

    node.provide_getter(get)

"""Records and batches that are too large: what is done so that there are none, and what a user is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.base import Millis
from ottla.cli.options import open_client
from ottla.cli.records.librdkafka import REQUEST_BYTES_MAX, patient, whole_setting

if TYPE_CHECKING:
    from confluent_kafka import Message

    from ottla.client import SizeLimit

__all__ = ["fitted", "not_sent", "not_taken"]

KEY_BYTES_SHOWN = 100
BATCH_BYTES_MAX = 1_000_000
"""The C library's own `batch.size`."""
PATIENCE_MS = "5000"
Headers = Sequence[tuple[str, str | bytes | None]]


def fitted(properties: Mapping[str, str], topic: str | None) -> dict[str, str]:
    """Return the properties with a batch size that the topic takes: Java's producer would divide what is refused."""
    limit = None if topic is None else _limit(properties, topic)
    if limit is None or limit.size_bytes >= whole_setting(properties, "batch.size", BATCH_BYTES_MAX):
        return dict(properties)
    return {**properties, "batch.size": str(limit.size_bytes)}


def not_sent(
    properties: Mapping[str, str], option: str, topic: str, key: bytes | None, value: bytes | None, headers: Headers
) -> str:
    """Return what to say of a record that is larger than the client sends; `option` is how a setting is given."""
    from ottla.client import larger_than_client_sends

    of_library = whole_setting(properties, "message.max.bytes", REQUEST_BYTES_MAX)  # the C library's own name for it
    limit = whole_setting(properties, "max.request.size", of_library)
    setting = f"max.request.size ({option} max.request.size=N)"
    size = _size_bytes(key, value, headers)
    return larger_than_client_sends(_named(topic, key), size, topic, limit_bytes=limit, setting=setting)


def not_taken(properties: Mapping[str, str], message: Message) -> str:
    """Return what to say of a record that the cluster refused; the cluster is asked for the topic's limit."""
    from ottla.client import larger_than_topic_takes

    topic, key, headers = message.topic() or "", message.key(), message.headers() or []
    limit = _limit(properties, topic)
    size = _size_bytes(key, message.value(), [*(headers.items() if isinstance(headers, dict) else headers)])
    if limit is not None and size <= limit.size_bytes:
        return (
            f"{_named(topic, key)} has {size} bytes and would fit into the {limit.size_bytes} that the topic takes, "
            f"but it was sent in one batch with others: lower batch.size to {limit.size_bytes}"
        )
    return larger_than_topic_takes(_named(topic, key), size, topic, limit)


def _limit(properties: Mapping[str, str], topic: str) -> SizeLimit | None:
    from ottla.client import size_limit

    with open_client(properties["bootstrap.servers"], patient(properties, PATIENCE_MS)) as client:
        return client.run(size_limit(client.client, topic))


def _named(topic: str, key: bytes | None) -> str:
    return f"a record for topic {topic}" + (f" with key {key[:KEY_BYTES_SHOWN]!r}" if key is not None else "")


def _size_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size of a batch that holds this record only, as it is before compression."""
    from ottla.wire import Record, build_batch

    encoded = tuple((name, text.encode() if isinstance(text, str) else text) for name, text in headers)
    return len(build_batch([Record(timestamp=Millis(0), key=key, value=value, headers=encoded)]))

"""What to say of a record that is too large: its size, the limit, and the setting that makes it, of whichever side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.base import KafkaError
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

__all__ = ["SizeLimit", "larger_than_client_sends", "larger_than_topic_takes", "size_limit"]

TOPIC = 2
"""DescribeConfigs' number for a topic."""
OF_TOPIC = 1
"""Its number for a value that the topic itself has; all others come from the brokers."""
KEY = "max.message.bytes"
BROKERS_KEY = "message.max.bytes"
CLIENTS_KEY = "max.request.size"


class _Asking(Protocol):
    """The part of `Client` that is needed here."""

    async def request(self, message: DescribeConfigsRequest, /) -> object:
        """Send a request to whoever answers."""


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """How large a topic's batches may be, and whether the topic says so itself or has it from the brokers."""

    size_bytes: int
    of_topic: bool


async def size_limit(client: _Asking, topic: str) -> SizeLimit | None:
    """Return a topic's limit; None where the cluster does not tell it to this client."""
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[KEY])
    try:
        answer = await client.request(DescribeConfigsRequest(resources=[wanted]))
    except (KafkaError, OSError):
        return None
    for result in getattr(answer, "results", ()):
        for config in result.configs:
            if config.name == KEY and config.value is not None:
                return SizeLimit(int(config.value), config.config_source == OF_TOPIC)
    return None


def larger_than_topic_takes(what: str, size_bytes: int, topic: str, limit: SizeLimit | None) -> str:
    """Return the sentence for a record that the topic's leader refused; `size_bytes` is that of its batch."""
    if limit is None:
        return (
            f"{what} has {size_bytes} bytes, more than topic {topic} takes: {KEY} of the topic says how many, or where "
            f"it has none {BROKERS_KEY} of the brokers"
        )
    if limit.of_topic:
        return f"{what} has {size_bytes} bytes, and topic {topic} takes {limit.size_bytes}: raise {KEY} of the topic"
    return (
        f"{what} has {size_bytes} bytes, and topic {topic} takes {limit.size_bytes}, as {BROKERS_KEY} of the brokers "
        f"says: set {KEY} of the topic, or raise {BROKERS_KEY}"
    )


def larger_than_client_sends(
    what: str, size_bytes: int, topic: str, *, limit_bytes: int, setting: str = CLIENTS_KEY
) -> str:
    """Return the sentence for a record that the client does not send; `setting` is how the user names its limit."""
    return (
        f"{what} has {size_bytes} bytes, and this client sends {limit_bytes}: raise {setting} of the client, and "
        f"{KEY} of topic {topic} where that takes fewer too"
    )

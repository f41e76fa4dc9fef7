"""Who writes to topics and reads from them, as Ottla's brokers count it; Apache Kafka's do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.errors import raise_code

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["ClientTraffic", "client_traffic"]


@dataclass(frozen=True, slots=True)
class ClientTraffic:
    """What one client has moved on one topic, all brokers together, since each of them has begun."""

    topic: str
    client_id: str
    principal: str | None
    """As whom it has logged in; None where who asks may not know."""
    bytes_in: int
    records_in: int
    bytes_out: int


def client_traffic(client: BlockingClient, topics: tuple[str, ...] | None = None) -> list[ClientTraffic]:
    """Return it for topics, or all, sorted by topic and client.

    Raises KafkaError: UNSUPPORTED_VERSION where a broker is not Ottla's.
    """
    from ottla.wire.messages.describe_client_traffic import DescribeClientTrafficRequest

    found: dict[tuple[str, str, str | None], list[int]] = {}
    for node in sorted(client.metadata(()).nodes):
        request = DescribeClientTrafficRequest(topics=None if topics is None else list(topics))
        answer = client.request(request, node=node)
        raise_code(answer.error_code, answer.error_message)
        for topic in answer.topics:
            for each in topic.clients:
                sums = found.setdefault((topic.name, each.client_id, each.principal), [0, 0, 0])
                for at, value in enumerate((each.bytes_in, each.records_in, each.bytes_out)):
                    sums[at] += value
    ordered = sorted(found.items(), key=lambda each: (each[0][0], each[0][1], each[0][2] or ""))
    return [ClientTraffic(*key, *sums) for key, sums in ordered]

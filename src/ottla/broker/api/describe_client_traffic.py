"""DescribeClientTraffic: which clients write to and read from topics here, and how much since the broker began.

An API of Ottla's own: its key, 1000, is far above Kafka's, and clients that do not know it pass it over. A cluster's lineage
and what its topics cost are made of it. Topics are those that the peer may describe; as whom a client has logged in, only
those are told who may describe the cluster. At most a thousand clients of topics are counted apart.
"""

from __future__ import annotations

from ottla.broker import meters
from ottla.broker.parts import TrafficParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_client_traffic import (
    ClientTraffic,
    DescribeClientTrafficRequest,
    DescribeClientTrafficResponse,
    TopicTraffic,
)

__all__ = ["HANDLER"]

NOTHING = meters.ClientTraffic()


def describe_client_traffic(
    context: RequestContext[TrafficParts], request: DescribeClientTrafficRequest
) -> DescribeClientTrafficResponse:
    """List the clients of the topics asked for, or of all (null) that have any; a topic without clients is left out."""
    traffic = context.services.traffic
    sees_principals = context.would_allow(Operation.DESCRIBE, Resource.CLUSTER)
    names = sorted(traffic.by_topic) if request.topics is None else dict.fromkeys(request.topics)
    topics = []
    for name in names:
        counted = traffic.by_topic.get(name)
        if counted is None or not counted.clients:
            continue
        if not context.would_allow(Operation.DESCRIBE, Resource.TOPIC, name):
            continue
        clients = [
            ClientTraffic(
                client_id=client_id,
                principal=principal if sees_principals else None,
                bytes_in=each.bytes_in,
                records_in=each.messages_in,
                bytes_out=each.bytes_out,
            )
            for (client_id, principal), each in counted.clients.items()
        ]
        topics.append(TopicTraffic(name=name, clients=clients))
    folded = traffic.folded if sees_principals else NOTHING
    return DescribeClientTrafficResponse(
        topics=topics, folded_bytes_in=folded.bytes_in, folded_bytes_out=folded.bytes_out
    )


HANDLER = Handler(
    DescribeClientTrafficRequest,
    versions=(0, 0),
    needs=Needs(Operation.DESCRIBE, Resource.TOPIC),
    handle=describe_client_traffic,
)

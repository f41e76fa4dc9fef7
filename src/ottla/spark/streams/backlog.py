"""How many records wait in an application's topics before it starts."""

from __future__ import annotations

from ottla.base import TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient
from ottla.spark.streams.secured import driver_network
from ottla.streams import SourceNode, StreamsSettings, Topology

__all__ = ["backlog", "waiting_records"]


def backlog(client: BlockingClient, topology: Topology, settings: StreamsSettings) -> int:
    """Return how many offsets lie between where an application begins and the ends of its topics; raises KafkaError.

    Topics that are not there, and those that begin at their end or at a time, have none.
    """
    cluster = client.metadata()
    counts = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
    reset: dict[TopicPartition, bool] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            is_whole = (node.offset_reset or settings.auto_offset_reset) == "earliest"
            for topic in node.topics_among(counts):
                if topic not in topology.repartition_topics:
                    reset |= {TopicPartition(topic, part): is_whole for part in range(counts.get(topic, 0))}
    if not reset:
        return 0
    committed = client.committed_offsets(settings.application_id, reset)
    begin = client.list_offsets(dict.fromkeys(reset, EARLIEST))
    end = client.list_offsets(dict.fromkeys(reset, LATEST))
    waiting = 0
    for place, is_whole in reset.items():
        known = committed.get(place)
        if known is not None or is_whole:
            first = int(begin[place].offset)
            waiting += max(0, int(end[place].offset) - max(first, first if known is None else int(known.offset)))
    return waiting


def waiting_records(topology: Topology, settings: StreamsSettings) -> int:
    """Return `backlog` by a client of its own: what the topics hold and the application has not committed."""
    topology = topology.of_application(settings.application_id)
    with BlockingClient(settings.bootstrap_servers, network=driver_network(settings)) as client:
        return backlog(client, topology, settings)

"""`ForwardingAdmin`: by what MirrorMaker changes its clusters, for whoever has to do that by something else (KIP-787)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.admin import ConfigChange, add_partitions, alter_config, create_acls
from ottla.base import KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient, NewTopic, create_topics
from ottla.security import Acl

__all__ = ["ForwardingAdmin"]


class ForwardingAdmin:
    """Makes topics, partitions, configurations, entries of access and groups' offsets at a cluster by asking its brokers.

    A class of one's own overrides what goes elsewhere, such as to a service that owns topics, and leaves the rest to this
    one. What is only asked does not go through it. Each connector and task has one for each cluster, with the properties
    that an admin client of that cluster has (`bootstrap.servers` among them). Every method may raise KafkaError, which is
    told in the log; what it was about is tried again at the next interval.
    """

    def __init__(self, configs: Mapping[str, str], client: BlockingClient) -> None:
        """`client` is connected to the cluster, and belongs to who makes this."""
        self.configs, self.client = configs, client

    def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        """Make topics; returns those that were refused, and why (TOPIC_ALREADY_EXISTS is as good as made)."""
        return self.client.run(create_topics(self.client.client, list(topics)))

    def create_partitions(self, topic: str, total_count: int) -> None:
        """Have a topic have so many partitions altogether."""
        add_partitions(self.client, [topic], count=total_count)

    def incremental_alter_configs(self, change: ConfigChange) -> None:
        """Set and drop values of one topic, all or none."""
        alter_config(self.client, change)

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Make entries of access; those that are there already are made again without harm."""
        create_acls(self.client, acls)

    def alter_consumer_group_offsets(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Set offsets of a group in which nobody is."""
        self.client.commit_offsets(group, dict(offsets))

    def close(self) -> None:
        """Let go of what it holds itself; the client is closed by who made it."""

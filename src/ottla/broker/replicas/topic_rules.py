"""What a topic's configuration says to each of its partitions, worked out once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.base import NodeId
from ottla.config import TopicSettings
from ottla.log import LogConfig
from ottla.wire import AT_ONCE_MAX, BatchRules, Codec

__all__ = ["Throttled", "TopicRules"]


@dataclass(frozen=True, slots=True)
class Throttled:
    """Which of a topic's partitions a list of throttled replicas (`*`, or `partition:broker`) names on this broker."""

    all: bool
    listed: frozenset[str]
    suffix: str

    @classmethod
    def of(cls, replicas: Sequence[str], node_id: NodeId) -> Throttled:
        """Read a list as the topic's configuration has it."""
        return cls("*" in replicas, frozenset(replicas), f":{node_id}")

    def has(self, partition: int) -> bool:
        """Return whether it names a partition."""
        return self.all or (bool(self.listed) and f"{partition}{self.suffix}" in self.listed)


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Of one topic, on one broker."""

    settings: TopicSettings
    log_config: LogConfig
    batches: BatchRules
    recompress_to: Codec | None
    """The codec that batches have to have; None for whichever they come with."""
    compression_level: int | None
    as_leader: Throttled
    as_follower: Throttled

    @classmethod
    def of(cls, settings: TopicSettings, log_config: LogConfig, node_id: NodeId) -> TopicRules:
        """Work out what settings mean."""
        batches = BatchRules(
            log_append_time=settings.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
            timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
            require_keys="compact" in settings.cleanup_policy,
            walk=True,
            batch_bytes_max=log_config.max_message_bytes,
            records_max=AT_ONCE_MAX,
        )
        name = settings.compression_type
        return cls(
            settings,
            log_config,
            batches,
            None if name == "producer" else _codec_of(name),
            getattr(settings, f"compression_{name}_level", None),
            Throttled.of(settings.leader_replication_throttled_replicas, node_id),
            Throttled.of(settings.follower_replication_throttled_replicas, node_id),
        )


def _codec_of(name: str) -> Codec:
    return Codec.NONE if name == "uncompressed" else Codec[name.upper()]

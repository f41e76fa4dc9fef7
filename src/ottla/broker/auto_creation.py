"""Creating topics that clients ask about, where the broker allows it (`auto.create.topics.enable`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.background import supervise
from ottla.base import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, ErrorCode, KafkaError
from ottla.broker.configuration import Configuration
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.envelopes import LENGTH_BYTES, forward_frame
from ottla.config import BrokerConfig
from ottla.wire import ApiKey, encode_request
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["AutoCreation"]

log = logging.getLogger(__name__)

CREATED_AT_ONCE_MAX = 1_000
"""Topics that are begun for one request: who named more asks again for the others."""
TOLD_MAX = 10
"""Names in one line of the log."""
COMPLAINTS_MAX = 1000
"""Topics of which it is remembered that they could not be made."""


class AutoCreation:
    """Has the controller create topics, each once however many ask; who asked sees it when it asks again."""

    def __init__(self, configuration: Configuration, controller: ControllerChannel) -> None:
        self._configuration = configuration
        self._controller = controller
        self._under_way: set[str] = set()
        self._complaints: dict[str, str] = {}
        """What was last logged of a topic that cannot be made: who waits for it asks many times a second."""

    def create(self, names: Iterable[str], asked_by: Connected | None = None) -> None:
        """Begin to create these topics, except those under way: with the rights of who asked, else with this node's."""
        new = [name for name in dict.fromkeys(names) if name not in self._under_way][:CREATED_AT_ONCE_MAX]
        if new:
            self._under_way.update(new)
            supervise(self._create(new, asked_by), name="create topics", serves="who asks for topics")

    async def _create(self, names: list[str], asked_by: Connected | None) -> None:
        config = self._configuration.broker
        timeout_ms = config.settings.request_timeout_ms
        request = CreateTopicsRequest(topics=[_topic(name, config) for name in names], timeout_ms=timeout_ms)
        try:
            if asked_by is None:
                response = await self._controller.ask(request, timeout_ms=timeout_ms)
            else:
                version = CreateTopicsRequest.VERSIONS[1]
                frame = encode_request(request, version, 0, None)[LENGTH_BYTES:]
                key = int(ApiKey.CREATE_TOPICS)
                response = await forward_frame(self._controller, asked_by, key, version, frame, timeout_ms=timeout_ms)
            for each in response.topics:
                if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._complain(each.name, each.error_message or "")
        except KafkaError as error:
            more = f" and {len(names) - TOLD_MAX} more" if len(names) > TOLD_MAX else ""
            self._complain(", ".join(names[:TOLD_MAX]) + more, str(error))
        finally:
            self._under_way.difference_update(names)

    def _complain(self, names: str, reason: str) -> None:
        """Log once why topics cannot be made, and again when the reason is another."""
        if self._complaints.get(names) != reason:
            if len(self._complaints) >= COMPLAINTS_MAX:
                self._complaints.clear()
            self._complaints[names] = reason
            log.warning("Auto topic creation failed for %s: %s", names, reason)


def _topic(name: str, config: BrokerConfig) -> CreatableTopic:
    """Return a topic with the broker's defaults; internal topics have their own counts and policies."""
    settings = config.settings
    if name == OFFSETS_TOPIC:
        return _internal(
            name,
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return _internal(
            name,
            settings.transaction_state_log_num_partitions,
            settings.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(settings.transaction_state_log_min_isr),
                "segment.bytes": str(settings.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_STATE_TOPIC:
        return _internal(
            name,
            settings.share_coordinator_state_topic_num_partitions,
            settings.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            },
        )
    return CreatableTopic(
        name=name,
        num_partitions=settings.num_partitions,
        replication_factor=settings.default_replication_factor,
    )


def _internal(name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )

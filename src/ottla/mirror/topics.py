"""A cluster's topics made on another one, and kept like their originals: partitions, configurations, and who may read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla.admin import (
    ConfigChange,
    ConfigEntity,
    DescribedConfig,
    describe_acls,
    describe_configs,
)
from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.client import BlockingClient, NewTopic
from ottla.mirror.clusters import topic_partitions
from ottla.mirror.filters import ConfigPropertyFilter, TopicFilter
from ottla.mirror.forwarding_admin import ForwardingAdmin
from ottla.mirror.policies import ReplicationPolicy, is_cycle
from ottla.security import Acl, AclFilter, Operation, PatternType, PermissionType, Resource

__all__ = ["MirroredTopics", "is_mirrored"]

log = logging.getLogger(__name__)
STATIC = "STATIC_BROKER_CONFIG"
CREATED_AT_ONCE = 500


def is_mirrored(
    policy: ReplicationPolicy, topic: str, chosen: TopicFilter, target: str, *, with_heartbeats: bool = True
) -> bool:
    """Whether a topic of the source is mirrored: chosen, nobody's internal one, and not from the target itself."""
    is_chosen = chosen.should_replicate_topic(topic) or (with_heartbeats and policy.is_heartbeats_topic(topic))
    return is_chosen and not policy.is_internal_topic(topic) and not is_cycle(policy, topic, target)


class MirroredTopics:
    """What is done about topics, from one connector, in one thread."""

    def __init__(
        self,
        source: BlockingClient,
        target: ForwardingAdmin,
        policy: ReplicationPolicy,
        settings: Mapping[str, Any],
        topics: TopicFilter,
        properties: ConfigPropertyFilter,
    ) -> None:
        """`topics` says which are mirrored, and `properties` which configurations of theirs are copied."""
        self._source, self._admin, self._policy, self._settings = source, target, policy, settings
        self._target: BlockingClient = target.client
        self._alias, self._target_alias = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._topics, self._properties = topics, properties
        self._acls: set[Acl] = set()
        self._has_acls = True
        self.partitions: dict[str, int] = {}
        """The topics of the source that are mirrored, and how many partitions each has."""

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions of the source that are mirrored, in order."""
        partitions = self.partitions  # another thread may look for topics meanwhile
        return [TopicPartition(name, each) for name in sorted(partitions) for each in range(partitions[name])]

    def refresh(self) -> bool:
        """Look for topics and partitions, and make what lacks on the target; returns whether there are others now.

        Raises KafkaError where a cluster does not answer. A topic that the target refuses is left out, and tried again.
        """
        found = {
            name: count
            for name, count in topic_partitions(self._source).items()
            if is_mirrored(
                self._policy,
                name,
                self._topics,
                self._target_alias,
                with_heartbeats=self._settings["heartbeats.replication.enabled"],
            )
        }
        made = self._made(found)
        is_other, self.partitions = made != self.partitions, made
        return is_other

    def remote(self, topic: str) -> str:
        """Return a topic's name on the target."""
        return self._policy.format_remote_topic(self._alias, topic)

    def _made(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Make what lacks on the target; returns what is there then: topics of the source, and partitions to mirror."""
        there = topic_partitions(self._target)
        new = [name for name in wanted if self.remote(name) not in there]
        refused = self._create(new, wanted) if new else set()
        found = {name: count for name, count in wanted.items() if self.remote(name) not in refused}
        for name, count in found.items():
            before = there.get(self.remote(name), 0)
            if 0 < before < count and not self._grown(self.remote(name), before, count):
                found[name] = before
        return found

    def _grown(self, remote: str, before: int, count: int) -> bool:
        try:
            self._admin.create_partitions(remote, count)
        except KafkaError as error:
            log.error("%s gets no more partitions on %s: %s", remote, self._target_alias, error)
            return False
        log.info("%s has %d partitions, %d before", remote, count, before)
        return True

    def _create(self, new: list[str], wanted: Mapping[str, int]) -> set[str]:
        """Make topics; returns those that were refused."""
        configs = self._configs(new)
        copies = self._settings["replication.factor"]
        topics = [
            NewTopic(self.remote(name), wanted[name], copies, self._values(configs.get(name, ()))) for name in new
        ]
        refused: set[str] = set()
        for begin in range(0, len(topics), CREATED_AT_ONCE):
            answers = self._admin.create_topics(topics[begin : begin + CREATED_AT_ONCE])
            for name, error in answers.items():
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    log.error("topic %s cannot be made on %s: %s", name, self._target_alias, error)
                    refused.add(name)
        made = [each.name for each in topics if each.name not in refused]
        log.info("made on %s: %s", self._target_alias, ", ".join(made) or "nothing")
        return refused

    # -- configurations

    def _configs(self, names: Iterable[str]) -> dict[str, list[DescribedConfig]]:
        entities = [ConfigEntity("topics", name) for name in names]
        if not entities:
            return {}
        found = describe_configs(self._source, entities, synonyms=False)
        return {str(entity.name): values for entity, values in found.items()}

    def _values(self, configs: Iterable[DescribedConfig]) -> dict[str, str]:
        """Return what of a topic's configuration the other one gets."""
        chosen = self._properties
        return {
            each.name: each.value
            for each in configs
            if each.value is not None
            and not each.read_only
            and not each.sensitive
            and each.source != STATIC
            and (not each.is_default or chosen.should_replicate_source_default(each.name))
            and chosen.should_replicate_config_property(each.name)
        }

    def sync_configs(self) -> None:
        """Have topics on the target configured like those of the source; raises KafkaError."""
        names = [name for name in self.partitions if not self._policy.is_heartbeats_topic(name)]
        there = topic_partitions(self._target)
        names = [name for name in names if self.remote(name) in there]
        wanted = self._configs(names)
        remote = [ConfigEntity("topics", self.remote(name)) for name in names]
        now = describe_configs(self._target, remote, synonyms=False) if remote else {}
        for name, entity in zip(names, remote, strict=True):
            values = self._values(wanted[name])
            own = {each.name: each.value for each in now[entity] if each.is_set_for(entity)}
            added = {key: value for key, value in values.items() if own.get(key) != value}
            gone = tuple(
                key for key in own if key not in values and self._properties.should_replicate_config_property(key)
            )
            if added or gone:
                log.info("%s is configured as %s: %s, without %s", entity.name, name, added, gone)
                try:
                    self._admin.incremental_alter_configs(ConfigChange(entity, added, gone))
                except KafkaError as error:  # of one topic; the others are configured all the same
                    log.error("%s cannot be configured as %s: %s", entity.name, name, error)

    # -- access

    def sync_acls(self) -> None:
        """Let who may read a topic read it on the target, too (never write); raises KafkaError."""
        if not self._has_acls:
            return
        try:
            found = describe_acls(
                self._source, AclFilter(resource_type=Resource.TOPIC, pattern_type=PatternType.LITERAL)
            )
            wanted = {
                made
                for each in found
                if each.resource_name in self.partitions and (made := self._acl(each)) is not None
            }
            new = wanted - self._acls
            if new:
                self._admin.create_acls(sorted(new, key=str))
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            log.info("a cluster keeps no entries of access, so none are copied (sync.topic.acls.enabled)")
            self._has_acls = False
            return
        self._acls |= wanted

    def _acl(self, acl: Acl) -> Acl | None:
        if acl.permission_type is PermissionType.ALLOW and acl.operation is Operation.WRITE:
            return None
        is_all = acl.permission_type is PermissionType.ALLOW and acl.operation is Operation.ALL
        operation = Operation.READ if is_all else acl.operation
        return replace(acl, resource_name=self.remote(acl.resource_name), operation=operation)

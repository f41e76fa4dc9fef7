"""MirrorCheckpointConnector: how far groups have come, in offsets of the cluster that mirrors theirs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, ClassVar

from ottla.admin import consumer_groups, group_state
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.connect import ConfigValue, Measure, SourceConnector, SourceRecord, SourceState, SourceTask
from ottla.connect.data import BYTES
from ottla.mirror.clusters import CompactedTopic, administered, connected, make_compacted_topic
from ottla.mirror.filters import TopicFilter
from ottla.mirror.metrics import CheckpointMetrics
from ottla.mirror.offset_syncs import OffsetSyncStore
from ottla.mirror.offsets import same_offsets
from ottla.mirror.own_classes import admin_class, group_filter, policy_of, topic_filter
from ottla.mirror.policies import ReplicationPolicy
from ottla.mirror.records import Checkpoint, OffsetSync, RecordError
from ottla.mirror.rounds import POLL_SECONDS_MAX, Round, Rounds
from ottla.mirror.settings import CHECKPOINT_DEF, PACKAGE, checked
from ottla.mirror.topics import is_mirrored

__all__ = ["MirrorCheckpointConnector", "MirrorCheckpointTask", "due_checkpoints", "due_offsets"]

log = logging.getLogger(__name__)
GROUPS = "task.assigned.groups"
ROLE = "MirrorCheckpointConnector"
DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
Known = Mapping[TopicPartition, Checkpoint]


def due_checkpoints(found: Sequence[Checkpoint], known: Known) -> list[Checkpoint]:
    """Return which of a group's checkpoints are told: new ones, and such as say more than the last; never a step back.

    One that goes back upstream, since somebody has reset the group, is told whatever it says of the target.
    """
    return [
        each
        for each in found
        if each.downstream >= 0
        and (
            (last := known.get(each.partition)) is None
            or each.upstream < last.upstream
            or each.downstream > last.downstream
        )
    ]


def due_offsets(checkpoints: Known, target: Mapping[TopicPartition, Offset] | None) -> dict[TopicPartition, Offset]:
    """Return which offsets a group is given on the target, where it has `target`: what lacks there or is lower."""
    return {
        place: each.downstream
        for place, each in checkpoints.items()
        if target is None or place not in target or target[place] < each.downstream
    }


class MirrorCheckpointTask(SourceTask):
    """A share of the groups. `stop` may come from another thread than the other calls."""

    java_name = f"{PACKAGE}MirrorCheckpointTask"
    version = "1.0"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._opened = ExitStack()
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._is_begun = False
        self._due_at_s = 0.0
        self._away: str | None = None

    def start(self, props: Mapping[str, str]) -> None:
        """Take the settings; what was told and synced before is read by the first poll."""
        super().start(props)
        self._settings = settings = CHECKPOINT_DEF.parse(props)
        self._alias, self._target_alias = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._policy = policy_of(props)
        self._topics = self._opened.enter_context(closing(topic_filter(props)))
        self._metrics = CheckpointMetrics(self._alias, self._target_alias)
        self._groups = [each for each in props[GROUPS].split(",") if each]
        self._interval_s = settings["emit.checkpoints.interval.seconds"]
        self._sync_s = settings["sync.group.offsets.interval.seconds"] if settings["sync.group.offsets.enabled"] else 0
        self._sync_at_s = time.monotonic() + self._sync_s
        number = props.get("task.index", "0")
        source = connected(props, "source", "admin", f"{number}|{ROLE}|checkpoint-source-admin")
        self._source: BlockingClient = self._opened.enter_context(source)
        target = administered(props, "target", f"{number}|{ROLE}|checkpoint-target-admin")
        self._admin = self._opened.enter_context(target)
        self._target: BlockingClient = self._admin.client
        where = settings["offset-syncs.topic.location"]
        reader = connected(props, where, "consumer", f"{number}|{ROLE}|offset-syncs-consumer")
        other = self._target_alias if where == "source" else self._alias
        self._reader = CompactedTopic(self._opened.enter_context(reader), self._policy.offset_syncs_topic(other))
        self._store = OffsetSyncStore()

    # -- polling

    def poll(self) -> list[SourceRecord] | None:
        """Wait for the interval, and return the checkpoints that are due; None where none are."""
        if self._is_begun and not self._is_due():
            return None
        with self._turn:
            if self._stopping.is_set():
                return None
            try:
                if not self._is_begun:
                    self._begin()
                else:
                    self._read_syncs()
                found = [each for group in self._groups for each in self._due(group)]
                if self._sync_s and time.monotonic() >= self._sync_at_s:
                    self._sync_at_s = time.monotonic() + self._sync_s
                    self._sync()
            except (KafkaError, OSError) as error:
                log.warning("groups of %s cannot be translated now, and are later: %s", self._alias, error)
                self._away = f"groups of {self._alias} cannot be translated: {error}"
                self._stopping.wait(1.0)
                return None
            self._away = None
        return [self._record(each) for each in found] or None

    def _is_due(self) -> bool:
        """Whether the interval is over, after a little while."""
        left_s = self._due_at_s - time.monotonic()
        if left_s > 0 and (self._stopping.wait(min(left_s, POLL_SECONDS_MAX)) or left_s > POLL_SECONDS_MAX):
            return False
        self._due_at_s = time.monotonic() + self._interval_s
        return True

    def source_state(self) -> SourceState:
        """Return why groups cannot be translated now."""
        return SourceState({"groups": len(self._groups)}, trouble=self._away)

    def _begin(self) -> None:
        """Read what was told before, and the syncs as far as they go."""
        known: dict[str, dict[TopicPartition, Checkpoint]] = {}
        topic = CompactedTopic(self._target, self._policy.checkpoints_topic(self._alias))
        try:
            for key, value in topic.read():
                try:
                    found = Checkpoint.of(key, value)
                except RecordError as error:
                    log.warning("a record of the checkpoints' topic is left out: %s", error)
                    continue
                if found.group in self._groups:
                    known.setdefault(found.group, {})[found.partition] = found
        except KafkaError as error:
            if error.code not in DENIED:
                raise
            log.warning("checkpoints of before may not be read, so that only later syncs count: %s", error)
            self._store.keeps_history = False
        self._known = known
        self._read_syncs()
        self._store.read_to_end()
        self._is_begun, self._due_at_s = True, time.monotonic() + self._interval_s

    def _read_syncs(self) -> None:
        for key, value in self._reader.read():
            try:
                self._store.add(OffsetSync.of(key, value))
            except RecordError as error:
                log.warning("a record of the offset syncs' topic is left out: %s", error)

    def _due(self, group: str) -> list[Checkpoint]:
        """Return a group's checkpoints that are told now, and note them."""
        found = []
        for place, committed in self._source.committed_offsets(group).items():
            if not self._takes(place.topic):
                continue
            translated = self._store.translate(place, int(committed.offset))
            if translated is not None:
                remote = TopicPartition(self._remote(place.topic), place.partition)
                found.append(Checkpoint(group, remote, committed.offset, translated, committed.metadata))
        known = self._known.setdefault(group, {})
        due = due_checkpoints(found, known)
        known |= {each.partition: each for each in due}
        return due

    def _takes(self, topic: str) -> bool:
        return is_mirrored_topic(self._policy, topic, self._topics, self._target_alias)

    def _remote(self, topic: str) -> str:
        """Return a topic's name on the target: its own where it comes from there."""
        if self._target_alias == self._policy.topic_source(topic):
            return self._policy.original_topic(topic)
        return self._policy.format_remote_topic(self._alias, topic)

    def _record(self, each: Checkpoint) -> SourceRecord:
        partition = {"group": each.group, "partition": each.partition.partition, "topic": each.partition.topic}
        return SourceRecord(
            topic=self._policy.checkpoints_topic(self._alias),
            partition=0,
            key_schema=BYTES,
            key=each.key(),
            value_schema=BYTES,
            value=each.value(),
            timestamp=time.time_ns() // 1_000_000,
            source_partition=partition,
            source_offset={"offset": 0},
        )

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        """Note how long a checkpoint took to be told."""
        if offset is not None and record.source_partition is not None and record.timestamp is not None:
            self._metrics.arrived(record.source_partition, record.timestamp)

    def measures(self) -> list[Measure]:
        """Return latencies by group and partition of the target."""
        return self._metrics.measures()

    # -- groups on the target

    def _sync(self) -> None:
        """Give groups in which nobody is on the target the offsets that theirs translate to."""
        for group in self._groups:
            checkpoints = self._known.get(group)
            if not checkpoints:
                continue
            try:
                if not self._may_set(group):
                    continue
                there = self._target.committed_offsets(group)
                offsets = due_offsets(checkpoints, {place: each.offset for place, each in there.items()} or None)
                if offsets:
                    self._admin.alter_consumer_group_offsets(group, offsets)
            except KafkaError as error:
                log.warning("offsets of group %s are not set on %s: %s", group, self._target_alias, error)

    def _may_set(self, group: str) -> bool:
        """Whether nobody is in a group on the target, or it is not there."""
        try:
            return group_state(self._target, group) in ("Empty", "Dead")
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return True
            raise

    def stop(self) -> None:
        """End, also a poll that waits."""
        self._stopping.set()
        with self._turn:
            self._opened.close()


def is_mirrored_topic(policy: ReplicationPolicy, topic: str, chosen: TopicFilter, target: str) -> bool:
    """Whether a group's offsets of a topic are translated: it is mirrored, or was mirrored from the target."""
    if policy.topic_source(topic) == target:
        return chosen.should_replicate_topic(topic) and not policy.is_internal_topic(topic)
    return is_mirrored(policy, topic, chosen, target, with_heartbeats=False)


class MirrorCheckpointConnector(SourceConnector):
    """Divides the source's groups among tasks; its settings are those of Kafka's."""

    java_name = f"{PACKAGE}MirrorCheckpointConnector"
    version = "1.0"
    config_def = CHECKPOINT_DEF
    task_class: ClassVar[type[Any]] = MirrorCheckpointTask
    aliases = ("ottla.mirror.MirrorCheckpointConnector",)

    def __init__(self) -> None:
        self._rounds: Rounds | None = None
        self._groups: list[str] = []

    def start(self, props: Mapping[str, str]) -> None:
        """Make the topic, look for groups, and go on looking; raises KafkaError where a cluster does not answer."""
        super().start(props)
        self._settings = settings = CHECKPOINT_DEF.parse(props)
        if not settings["enabled"] or not settings["emit.checkpoints.enabled"]:
            return
        if not settings["emit.offset-syncs.enabled"]:
            log.warning("without offset syncs (emit.offset-syncs.enabled=false) no group can be translated")
            return
        self._policy = policy_of(props)
        with ExitStack() as opened:
            self._topics = opened.enter_context(closing(topic_filter(props)))
            self._chosen = opened.enter_context(closing(group_filter(props)))
            with administered(props, "target", f"{ROLE}|checkpoint-target-admin") as target:
                name = self._policy.checkpoints_topic(settings["source.cluster.alias"])
                make_compacted_topic(target, name, settings["checkpoints.topic.replication.factor"])
            self._source = opened.enter_context(connected(props, "source", "admin", f"{ROLE}|checkpoint-source-admin"))
            self._groups = self._found()
            every_s = settings["refresh.groups.interval.seconds"] if settings["refresh.groups.enabled"] else 0
            rounds = [Round("refreshing groups", float(every_s), self._refresh)]
            self._rounds = Rounds(rounds, name=f"mirror-{props.get('name', 'groups')}", end=opened.pop_all().close)

    def _found(self) -> list[str]:
        """Return the groups that are translated: of consumers, chosen, and with an offset of a topic that is mirrored."""
        target = self._settings["target.cluster.alias"]
        return [
            group
            for group in consumer_groups(self._source)
            if self._chosen.should_replicate_group(group)
            and any(
                is_mirrored_topic(self._policy, place.topic, self._topics, target)
                for place in self._source.committed_offsets(group)
            )
        ]

    def _refresh(self) -> None:
        found = self._found()
        if found != self._groups:
            self._groups = found
            self.context.request_task_reconfiguration()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return tasks with blocks of groups; none where no group is translated."""
        count = min(tasks_max, len(self._groups))
        at, found = 0, []
        for number in range(count):
            size = len(self._groups) // count + (number < len(self._groups) % count)
            share, at = self._groups[at : at + size], at + size
            found.append({**self.props, GROUPS: ",".join(share), "task.index": str(number)})
        return found

    def no_tasks(self) -> str | None:
        """Say that no group is translated, and why."""
        off = [
            key
            for key in ("enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled")
            if not self._settings[key]
        ]
        if off:
            return f"{off[0]} is false"
        return "no group of the source cluster is chosen by groups and has offsets of mirrored topics, until one has"

    def stop(self) -> None:
        """End looking."""
        if self._rounds is not None:
            self._rounds.stop()
            self._rounds = None

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration."""
        values = super().validate(props)
        if any(each.errors for each in values.values()):
            return values
        checked(values, props, (policy_of, topic_filter, group_filter, admin_class))
        return values

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no offset of this connector."""
        return same_offsets(offsets, {"group": str, "partition": int, "topic": str}, only_zero=True)

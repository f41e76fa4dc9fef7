"""MirrorHeartbeatConnector: tells once a second that records of one cluster come to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect import ConfigValue, SourceConnector, SourceRecord, SourceTask
from ottla.connect.data import BYTES
from ottla.mirror.clusters import administered, make_compacted_topic
from ottla.mirror.offsets import same_offsets
from ottla.mirror.own_classes import admin_class, policy_of
from ottla.mirror.records import Heartbeat
from ottla.mirror.rounds import POLL_SECONDS_MAX
from ottla.mirror.settings import HEARTBEAT_DEF, PACKAGE, checked

__all__ = ["MirrorHeartbeatConnector", "MirrorHeartbeatTask"]


class MirrorHeartbeatTask(SourceTask):
    """Makes one record at each interval."""

    java_name = f"{PACKAGE}MirrorHeartbeatTask"
    version = "1.0"

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def start(self, props: Mapping[str, str]) -> None:
        """Take the settings."""
        super().start(props)
        settings = HEARTBEAT_DEF.parse(props)
        self._flow = settings["source.cluster.alias"], settings["target.cluster.alias"]
        self._topic = policy_of(props).heartbeats_topic()
        self._interval_s = settings["emit.heartbeats.interval.seconds"]
        self._due_at_s = time.monotonic() + self._interval_s

    def poll(self) -> list[SourceRecord] | None:
        """Wait for the interval, and return a heartbeat."""
        left_s = self._due_at_s - time.monotonic()
        if left_s > 0 and (self._stopping.wait(min(left_s, POLL_SECONDS_MAX)) or left_s > POLL_SECONDS_MAX):
            return None
        self._due_at_s = time.monotonic() + self._interval_s
        source, target = self._flow
        now_ms = time.time_ns() // 1_000_000
        beat = Heartbeat(source, target, now_ms)
        return [
            SourceRecord(
                topic=self._topic,
                partition=0,
                key_schema=BYTES,
                key=beat.key(),
                value_schema=BYTES,
                value=beat.value(),
                timestamp=now_ms,
                source_partition={"sourceClusterAlias": source, "targetClusterAlias": target},
                source_offset={"offset": 0},
            )
        ]

    def stop(self) -> None:
        """End, also a poll that waits."""
        self._stopping.set()


class MirrorHeartbeatConnector(SourceConnector):
    """Has one task, and makes its topic on the target."""

    java_name = f"{PACKAGE}MirrorHeartbeatConnector"
    version = "1.0"
    config_def = HEARTBEAT_DEF
    task_class: ClassVar[type[Any]] = MirrorHeartbeatTask
    aliases = ("ottla.mirror.MirrorHeartbeatConnector",)

    def start(self, props: Mapping[str, str]) -> None:
        """Make the topic; raises KafkaError where it cannot be made."""
        super().start(props)
        settings = HEARTBEAT_DEF.parse(props)
        # whether records are mirrored (`enabled`) does not matter: the other direction needs to know that this one lives
        self._beats = settings["emit.heartbeats.enabled"] and settings["emit.heartbeats.interval.seconds"] > 0
        if self._beats:
            with administered(props, "target", "MirrorHeartbeatConnector|heartbeats-admin") as admin:
                name = policy_of(props).heartbeats_topic()
                make_compacted_topic(admin, name, settings["heartbeats.topic.replication.factor"])

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task; none where heartbeats are off."""
        return [self.props] if self._beats else []

    def no_tasks(self) -> str | None:
        """Say that heartbeats are off."""
        return "emit.heartbeats.enabled is false, or emit.heartbeats.interval.seconds is 0"

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration."""
        values = super().validate(props)
        if not any(each.errors for each in values.values()):
            checked(values, props, (policy_of, admin_class))
        return values

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no offset of this connector."""
        return same_offsets(offsets, {"sourceClusterAlias": str, "targetClusterAlias": str}, only_zero=True)

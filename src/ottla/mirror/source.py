"""MirrorSourceConnector: another cluster's topics, record by record as they are, made and kept like their originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, ClassVar

from ottla.base import ConfigError
from ottla.connect import ConfigValue, SourceConnector
from ottla.mirror.clusters import administered, make_compacted_topic
from ottla.mirror.offsets import same_offsets
from ottla.mirror.own_classes import admin_class, policy_of, property_filter, topic_filter
from ottla.mirror.rounds import Round, Rounds
from ottla.mirror.settings import PACKAGE, SOURCE_DEF, checked, client_properties
from ottla.mirror.source_task import PARTITIONS, MirrorSourceTask
from ottla.mirror.topics import MirroredTopics

__all__ = ["MirrorSourceConnector"]

ROLE = "MirrorSourceConnector|replication"


class MirrorSourceConnector(SourceConnector):
    """See the module's description; its settings are those of Kafka's."""

    java_name = f"{PACKAGE}MirrorSourceConnector"
    version = "1.0"
    config_def = SOURCE_DEF
    task_class: ClassVar[type[Any]] = MirrorSourceTask
    aliases = ("ottla.mirror.MirrorSourceConnector",)

    def __init__(self) -> None:
        self._topics: MirroredTopics | None = None
        self._rounds: Rounds | None = None

    def start(self, props: Mapping[str, str]) -> None:
        """Look for topics, make what lacks, and go on looking; raises KafkaError where a cluster does not answer."""
        super().start(props)
        settings = SOURCE_DEF.parse(props)
        if not settings["enabled"]:
            return
        policy = policy_of(props)
        with ExitStack() as opened:
            source = opened.enter_context(administered(props, "source", f"{ROLE}-source-admin"))
            target = opened.enter_context(administered(props, "target", f"{ROLE}-target-admin"))
            where = settings["offset-syncs.topic.location"]
            if settings["emit.offset-syncs.enabled"]:
                keeper, other = (source, "target") if where == "source" else (target, "source")
                name = policy.offset_syncs_topic(settings[f"{other}.cluster.alias"])
                make_compacted_topic(keeper, name, settings["offset-syncs.topic.replication.factor"])
            chosen = opened.enter_context(closing(topic_filter(props)))
            copied = opened.enter_context(closing(property_filter(props)))
            self._topics = topics = MirroredTopics(source.client, target, policy, settings, chosen, copied)
            topics.refresh()
            # the clients' loops run in whichever thread asks; from now on that is the rounds' one
            rounds = [
                Round("refreshing topics", _every(settings, "refresh.topics"), self._refresh),
                Round("syncing topics' configurations", _every(settings, "sync.topic.configs"), topics.sync_configs),
                Round("syncing topics' entries of access", _every(settings, "sync.topic.acls"), topics.sync_acls),
            ]
            first = [each for each in rounds[1:] if each.interval_s > 0]
            self._rounds = Rounds(
                rounds, name=f"mirror-{props.get('name', 'source')}", end=opened.pop_all().close, first=first
            )

    def _refresh(self) -> None:
        assert self._topics is not None
        if self._topics.refresh():
            self.context.request_task_reconfiguration()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return tasks with partitions in turn; none where nothing is mirrored."""
        places = [] if self._topics is None else self._topics.places
        count = min(tasks_max, len(places))
        shares = [places[number::count] for number in range(count)]
        return [
            {**self.props, PARTITIONS: ",".join(map(str, share)), "task.index": str(number)}
            for number, share in enumerate(shares)
        ]

    def no_tasks(self) -> str | None:
        """Say that nothing is mirrored, and why."""
        if self._topics is None:
            return "enabled is false"
        return "no topic of the source cluster is chosen by topics and topics.exclude, until one is made"

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
        settings = checked(values, props, (policy_of, topic_filter, property_filter, admin_class))
        if not settings["emit.offset-syncs.enabled"]:
            for name, value in props.items():
                if value is not None and name.startswith(("offset-syncs-", "offset-syncs.topic.")):
                    words = f"{name} has no meaning where emit.offset-syncs.enabled is false"
                    (values.get(name) or values["emit.offset-syncs.enabled"]).errors.append(words)
        if settings["offset-syncs.topic.location"] not in ("source", "target"):
            values["offset-syncs.topic.location"].errors.append("source or target is expected")
        return values

    def exactly_once_support(self, props: Mapping[str, str]) -> bool | None:
        """Return whether only committed records are read: aborted ones could not be taken back on the target."""
        try:
            consumer = client_properties(props, "source", "consumer")
        except ConfigError:
            return False
        return consumer.get("isolation.level", "").lower() == "read_committed"

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no offset of this connector."""
        return same_offsets(offsets, {"cluster": str, "partition": int, "topic": str})


def _every(settings: Mapping[str, Any], what: str) -> float:
    return float(settings[f"{what}.interval.seconds"]) if settings[f"{what}.enabled"] else 0.0

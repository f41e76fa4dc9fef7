"""What happens before an application's queries start: topics looked up and made, offsets chosen, the upgrade checked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.base import ConfigError, ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient
from ottla.spark.internal_topics import InternalTopic, internal_topics, make_topics, repartition_topic
from ottla.spark.progress import committed_offsets, reset_offsets
from ottla.streams import (
    PartitionPlan,
    SourceNode,
    Stage,
    StageFacts,
    Stages,
    StreamsSettings,
    Topology,
    check_upgrade,
    fingerprint,
    partition_plan,
)

__all__ = ["Checkpoint", "Prepared", "prepare"]

PLAN_FILE = "plan.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where an application's queries keep their progress and state: a folder, or a URI that Spark's file systems know."""

    root: str

    @classmethod
    def of(cls, settings: StreamsSettings, cluster_id: str) -> Checkpoint:
        """Return `<state.dir>/<application.id>`; without `state.dir` in the user's state folder (XDG), by cluster."""
        given = settings.state_dir
        if given is None:
            home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
            given = f"{home}/ottla/streams/{cluster_id}"
        root = given.removeprefix("file://") if given.startswith("file:///") else given
        return cls(f"{root.rstrip('/')}/{settings.application_id}")

    @property
    def is_local(self) -> bool:
        """True for a folder of this machine."""
        return "://" not in self.root

    def of_stage(self, name: str) -> str:
        """Return the checkpoint location of a stage's query."""
        return f"{self.root}/{name}"

    def plan(self) -> dict[str, Any] | None:
        """Return what was noted about the plan, or None where nothing was (or where it is not on this machine)."""
        path = Path(self.root) / PLAN_FILE
        if not self.is_local or not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def note(self, plan: Mapping[str, Any]) -> None:
        """Note the plan; the file is whole at every time."""
        if not self.is_local:
            return
        folder = Path(self.root)
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{PLAN_FILE}.new"
        new.write_text(json.dumps(plan, indent=1))
        new.replace(folder / PLAN_FILE)

    def has_committed(self, stage: str) -> bool:
        """Whether a stage's query has finished a batch: it has state to go on from."""
        return self._holds(stage, "commits")

    def has_begun(self, stage: str) -> bool:
        """Whether a stage's query has planned a batch, finished or not."""
        return self._holds(stage, "offsets")

    def _holds(self, stage: str, kind: str) -> bool:
        folder = Path(self.of_stage(stage)) / kind
        return self.is_local and folder.is_dir() and any(each.name.isdecimal() for each in folder.iterdir())

    @property
    def exists(self) -> bool:
        """Whether there is anything, as far as that can be seen from here."""
        return self.is_local and Path(self.root).exists()

    def remove(self) -> bool:
        """Remove everything; returns whether there was something. Raises ConfigError where it is elsewhere."""
        if not self.is_local:
            raise ConfigError("state.dir", self.root, "remove it with the tools of that file system")
        there = self.exists
        if there:
            shutil.rmtree(self.root)
        return there


@dataclass(frozen=True)
class Prepared:
    """Everything that the queries need to know about the cluster."""

    cluster_id: str
    stages: Stages
    partitions: PartitionPlan
    checkpoint: Checkpoint
    internal: tuple[InternalTopic, ...]
    created: tuple[str, ...]
    """Internal topics that this start has made."""
    counts: Mapping[str, int]
    """The number of partitions of every topic in the cluster, internal ones too, by full name."""
    starting: Mapping[str, Mapping[TopicPartition, Offset]]
    """By stage, where a query without a checkpoint begins, by full topic names."""
    rebuilt: tuple[str, ...] = ()
    """Stages whose checkpoint is gone though their changelogs hold records."""


def prepare(client: BlockingClient, topology: Topology, stages: Stages, settings: StreamsSettings) -> Prepared:
    """Look at the cluster and make what is missing; raises KafkaError for what stands against a start.

    Raises UpgradeError where the plan does not fit the state that is there.
    """
    cluster = client.metadata()
    known = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
    partitions = partition_plan(topology, known)
    identity = cluster.cluster_id or "cluster"
    checkpoint = Checkpoint.of(settings, identity)
    plan = {**fingerprint(topology, (facts_of(stage, partitions) for stage in stages.stages)), "cluster": identity}
    old = checkpoint.plan()
    _check_cluster(old, identity, checkpoint)
    check_upgrade(old, plan, drop_stores=settings["upgrade.drop.stores"])
    wanted = internal_topics(topology, partitions, settings, repartition=stages.repartition_topics)
    created = make_topics(client, wanted, settings.replication_factor)
    committed = committed_offsets(client, settings.application_id)
    fresh = [stage for stage in stages.stages if not checkpoint.has_committed(stage.name)]
    rebuilt = _rebuilt(client, fresh, [topic for topic in wanted if topic.name not in created], checkpoint, old)
    starting = {
        stage.name: _starting(client, stage, settings, known, committed, rebuild=stage.name in rebuilt)
        for stage in fresh
    }
    checkpoint.note({**plan, "rebuilding": rebuilt})
    counts = {**known, **{topic.name: topic.partitions for topic in wanted}}
    return Prepared(
        identity, stages, partitions, checkpoint, tuple(wanted), tuple(created), counts, starting, tuple(rebuilt)
    )


def facts_of(stage: Stage, partitions: PartitionPlan) -> StageFacts:
    """Return what of a stage its state depends on."""
    tasks = max((partitions.stores.get(store, 0) for store in stage.stores), default=0)
    inputs = tuple(node.name for node in stage.source_nodes())
    return StageFacts(stage.name, stage.kind, frozenset(stage.nodes), inputs, tasks)


def _check_cluster(old: Mapping[str, Any] | None, identity: str, checkpoint: Checkpoint) -> None:
    if old is not None and old.get("cluster", identity) != identity:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"{checkpoint.root} belongs to cluster {old['cluster']}, and this is {identity}: "
            "give another state.dir or application.id, or remove that folder",
        )


def topics_of(stage: Stage, settings: StreamsSettings, known: Mapping[str, int]) -> dict[str, SourceNode]:
    """Return the full names of the topics that a stage reads, with the source that each belongs to."""
    found: dict[str, SourceNode] = {}
    internal = stage.plan.repartition_topics
    for source in stage.source_nodes():
        for name in source.topics_among(known):
            full = repartition_topic(settings.application_id, name) if name in internal else name
            found[full] = source
    return found


def _starting(
    client: BlockingClient,
    stage: Stage,
    settings: StreamsSettings,
    known: Mapping[str, int],
    committed: Mapping[TopicPartition, Offset],
    *,
    rebuild: bool,
) -> dict[TopicPartition, Offset]:
    """Return where a stage without a checkpoint begins: at the group's offsets, else where the reset policy says.

    A native aggregate whose checkpoint is lost begins anew with the first record that is there.
    """
    topics = topics_of(stage, settings, known)
    cluster = client.metadata(topics)
    partitions = [each for name in topics for each in cluster.partitions_of(name)]
    reset = {name: source.offset_reset or settings.auto_offset_reset for name, source in topics.items()}
    internal = {repartition_topic(settings.application_id, name) for name in stage.plan.repartition_topics}
    reset.update({name: "earliest" for name in topics if name in internal or topics[name].is_global})
    anew = rebuild and stage.kind == "native"
    usable = {} if anew else {each: offset for each, offset in committed.items() if not topics_global(topics, each)}
    if anew:
        reset = dict.fromkeys(topics, "earliest")
    found = reset_offsets(client, partitions, usable, reset)
    gone = [f"{each} begins at {offset}" for each, offset in found.items() if offset] if anew else []
    if gone:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the checkpoint of {stage.name} is gone, and what it aggregated cannot be read again: {', '.join(gone)}. "
            "`ottla streams reset` begins anew with what is there",
        )
    return found


def topics_global(topics: Mapping[str, SourceNode], partition: TopicPartition) -> bool:
    """Whether a partition belongs to a global table, which is read whole whatever was committed."""
    source = topics.get(partition.topic)
    return source is not None and source.is_global


def _rebuilt(
    client: BlockingClient,
    fresh: list[Stage],
    changelogs: list[InternalTopic],
    checkpoint: Checkpoint,
    old: Mapping[str, Any] | None,
) -> list[str]:
    """Return the stages whose state is to come from their changelogs.

    A first batch that was cut short is done again: with state from the changelogs only if it was to have that the first
    time, since what a part of it has written there must not count twice.
    """
    if not checkpoint.is_local:
        return []
    halfway = {stage.name for stage in fresh if checkpoint.has_begun(stage.name)}
    again = halfway & set((old or {}).get("rebuilding", ()))
    lost = _lost(client, [stage for stage in fresh if stage.name not in halfway], changelogs)
    return [stage.name for stage in fresh if stage.name in again or stage.name in lost]


def _lost(client: BlockingClient, fresh: list[Stage], changelogs: list[InternalTopic]) -> list[str]:
    """Return the stages without a checkpoint whose changelogs hold records: theirs was lost."""
    by_store = {topic.store: topic for topic in changelogs if topic.store is not None}
    found = []
    for stage in fresh:
        partitions = [
            TopicPartition(by_store[store].name, index)
            for store in stage.stores
            if store in by_store
            for index in range(by_store[store].partitions)
        ]
        ends = client.list_offsets(dict.fromkeys(partitions, LATEST)) if partitions else {}
        if any(each.offset > 0 for each in ends.values()):
            found.append(stage.name)
    return found

"""What happens before an application's queries start: topics looked up and made, offsets chosen, the upgrade checked."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.base import ConfigError, ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, CommittedOffset
from ottla.spark.checkpoint_files import Files, LocalFiles
from ottla.spark.private_api.checkpoints import QueryCheckpoint
from ottla.spark.source.positions import offsets_of_json, offsets_to_json
from ottla.spark.streams.commits import deliverer, fence_tasks
from ottla.spark.streams.internal_topics import InternalTopic, internal_topics, make_topics, repartition_topic
from ottla.spark.streams.progress import OWN_WORDS, reset_offsets
from ottla.spark.streams.state.positions import read_furthest, topic_ids
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

__all__ = ["Checkpoint", "Prepared", "is_uri", "prepare", "topics_of"]

log = logging.getLogger(__name__)
PLAN_FILE = "plan.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where an application's queries keep their progress and state: a folder, or a URI that Spark's file systems know."""

    root: str
    files: Files | None = None
    """By what its files are seen; None where that cannot be from here."""

    @classmethod
    def of(cls, settings: StreamsSettings, cluster_id: str, files: Files | None = None) -> Checkpoint:
        """Return `<state.dir>/<application.id>`; without `state.dir` in the user's state folder (XDG), by cluster.

        `files` are those of the file system that a URI names.
        """
        given = settings.state_dir
        if given is None:
            home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
            given = f"{home}/ottla/streams/{cluster_id}"
        root = given.removeprefix("file://") if given.startswith("file:///") else given
        return cls(f"{root.rstrip('/')}/{settings.application_id}", files if is_uri(root) else LocalFiles())

    @property
    def is_local(self) -> bool:
        """True for a folder of this machine."""
        return not is_uri(self.root)

    def of_stage(self, name: str) -> str:
        """Return the checkpoint location of a stage's query."""
        return f"{self.root}/{name}"

    def plan(self) -> dict[str, Any] | None:
        """Return what was noted about the plan, or None where nothing was (or where it cannot be seen)."""
        text = self.files.read(f"{self.root}/{PLAN_FILE}") if self.files is not None else None
        if text is None:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def note(self, plan: Mapping[str, Any]) -> None:
        """Note the plan; the file is whole at every time."""
        if self.files is not None:
            self.files.write(f"{self.root}/{PLAN_FILE}", json.dumps(plan, indent=1))

    def has_committed(self, stage: str) -> bool:
        """Whether a stage's query has finished a batch: it has state to go on from."""
        query = self._query(stage)
        return query is not None and query.has_committed()

    def has_begun(self, stage: str) -> bool:
        """Whether a stage's query has planned a batch, finished or not."""
        query = self._query(stage)
        return query is not None and query.has_begun()

    def _query(self, stage: str) -> QueryCheckpoint | None:
        return None if self.files is None else QueryCheckpoint(self.of_stage(stage), self.files)

    @property
    def exists(self) -> bool:
        """Whether there is anything, as far as that can be seen from here."""
        return self.files is not None and bool(self.files.names(self.root))

    def query_id(self, stage: str) -> str | None:
        """Return Spark's id of a stage's query, by which the commits topic knows it; None where there is no checkpoint."""
        query = self._query(stage)
        return None if query is None else query.query_id()

    def remove(self, stage: str | None = None) -> bool:
        """Remove everything, or one stage's; returns whether there was something.

        Raises ConfigError where it cannot be reached from here.
        """
        if self.files is None:
            raise ConfigError("state.dir", self.root, "remove it with the tools of that file system")
        return self.files.remove(self.root if stage is None else self.of_stage(stage))


def is_uri(folder: str | None) -> bool:
    """True for a folder in another file system than this machine's."""
    return folder is not None and "://" in folder and not folder.startswith("file:///")


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
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids of the topics that are read, by full name."""


def prepare(
    client: BlockingClient, topology: Topology, stages: Stages, settings: StreamsSettings, files: Files | None = None
) -> Prepared:
    """Look at the cluster and make what is missing; raises KafkaError for what stands against a start.

    `files` are those of `state.dir` where that is a URI. Raises UpgradeError where the plan does not fit the state that is
    there, ConfigError where it could not be seen whether state is there.
    """
    cluster = client.metadata()
    known = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
    partitions = partition_plan(topology, known)
    identity = cluster.cluster_id or "cluster"
    checkpoint = Checkpoint.of(settings, identity, files)
    if checkpoint.files is None and any(stage.kind != "stateless" for stage in stages.stages):
        words = "whether state is there cannot be seen over Spark Connect: give a classic session, or a folder"
        raise ConfigError("state.dir", checkpoint.root, words)
    plan = {**fingerprint(topology, (facts_of(stage, partitions) for stage in stages.stages)), "cluster": identity}
    old = checkpoint.plan()
    _check_cluster(old, identity, checkpoint)
    check_upgrade(old, plan, drop_stores=settings["upgrade.drop.stores"])
    wanted = internal_topics(topology, partitions, settings, repartition=stages.repartition_topics)
    created = make_topics(client, wanted, settings.replication_factor)
    if settings.exactly_once:
        _take_over(client, stages, settings, checkpoint)
    committed = client.committed_offsets(settings.application_id)
    fresh = [stage for stage in stages.stages if not checkpoint.has_committed(stage.name)]
    rebuilt = _rebuilt(client, fresh, [topic for topic in wanted if topic.name not in created], checkpoint, old)
    noted = (old or {}).get("starting", {})
    starting = {
        # a first batch that is done again reads what it read: Spark asks anew where it begins
        stage.name: offsets_of_json(noted[stage.name])
        if stage.name in noted and checkpoint.has_begun(stage.name)
        else _starting(client, stage, settings, known, committed, rebuild=stage.name in rebuilt)
        for stage in fresh
    }
    begun = {name: offsets_to_json(offsets) for name, offsets in starting.items()}
    checkpoint.note({**plan, "rebuilding": rebuilt, "starting": begun})
    counts = {**known, **{topic.name: topic.partitions for topic in wanted}}
    read = (name for stage in stages.stages for name in topics_of(stage, settings, counts))
    return Prepared(
        cluster_id=identity,
        stages=stages,
        partitions=partitions,
        checkpoint=checkpoint,
        internal=tuple(wanted),
        created=tuple(created),
        counts=counts,
        starting=starting,
        rebuilt=tuple(rebuilt),
        topic_ids=topic_ids(client, read),
    )


def _take_over(client: BlockingClient, stages: Stages, settings: StreamsSettings, checkpoint: Checkpoint) -> None:
    """Fence the tasks of whoever drove the application before, and put checkpoints aside that others have gone beyond.

    Offsets and positions are read afterwards, when nobody can commit any more.
    """
    for stage in stages.stages:
        last = deliverer(client, settings.application_id, stage.name)
        if last is None:
            continue
        fence_tasks(client, settings.application_id, stage.name, last.tasks)
        mine = checkpoint.query_id(stage.name)
        if mine is not None and mine != last.query_id:
            where = checkpoint.of_stage(stage.name)
            log.warning("another driver of %s has delivered since %s was written: it is removed", stage.name, where)
            checkpoint.remove(stage.name)


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
    committed: Mapping[TopicPartition, CommittedOffset],
    *,
    rebuild: bool,
) -> dict[TopicPartition, Offset]:
    """Return where a stage without a checkpoint begins: at the group's offsets, else where the reset policy says.

    Exactly once a stage without state goes on behind what its tasks have noted. A native aggregate whose checkpoint is lost
    begins anew with the first record that is there.
    """
    topics = topics_of(stage, settings, known)
    cluster = client.metadata(topics)
    partitions = [each for name in topics for each in cluster.partitions_of(name)]
    reset = {name: source.offset_reset or settings.auto_offset_reset for name, source in topics.items()}
    internal = {repartition_topic(settings.application_id, name) for name in stage.plan.repartition_topics}
    reset.update({name: "earliest" for name in topics if name in internal or topics[name].is_global})
    anew = rebuild and stage.kind == "native"
    usable = {each: found.offset for each, found in committed.items() if not topics_global(topics, each)}
    if stage.kind == "stateless" and settings.exactly_once:
        usable.update(_noted(client, stage, settings, committed))
    usable = {} if anew else usable
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


def _noted(
    client: BlockingClient,
    stage: Stage,
    settings: StreamsSettings,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> dict[TopicPartition, Offset]:
    """Return how far a stage's tasks have come where they noted it, and the group's offset is behind that.

    An offset that somebody else has committed for the group is what somebody wants, and counts.
    """
    own = CommittedOffset(Offset(-1), metadata=OWN_WORDS)
    wished = {place for place, each in committed.items() if each.metadata != OWN_WORDS}
    found = read_furthest(client, settings.application_id, stage.name, but=wished)
    return {each: offset for each, offset in found.items() if committed.get(each, own).offset < offset}


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
    if checkpoint.files is None:
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

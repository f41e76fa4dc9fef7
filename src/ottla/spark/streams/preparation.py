"""What happens before an application's queries start: topics looked up and made, offsets chosen, the upgrade checked."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ottla.base import ConfigError, ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, CommittedOffset
from ottla.spark.checkpoint_files import Files, LocalFiles
from ottla.spark.private_api.checkpoints import QueryCheckpoint
from ottla.spark.source.positions import Planned, has_been_made_again, offsets_of_json
from ottla.spark.streams.commits import deliverer, fence_tasks, has_delivered
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

__all__ = ["Checkpoint", "Prepared", "Removals", "check_cluster", "facts_of", "is_uri", "prepare", "topics_of"]

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

    def unfinished(self, stage: str) -> int | None:
        """Return the number of a stage's batch that is planned and not finished; None where there is none."""
        query = self._query(stage)
        last = None if query is None else query.last_planned()
        return None if query is None or last == query.last_committed() else last

    def finished(self, stage: str) -> Planned:
        """Return how far a stage's last finished batch goes; nowhere where none is known."""
        query = self._query(stage)
        last = None if query is None else query.last_committed()
        return Planned({}) if last is None else self.planned(stage, last)

    def planned(self, stage: str, batch: int) -> Planned:
        """Return how far a stage's batch goes, in all its sources; nowhere where it is not known."""
        query = self._query(stage)
        found = Planned({})
        for text in query.offsets_of_sources(batch) if query is not None else ():
            more = Planned.of_json(json.loads(text))
            begun = {**found.begun, **more.begun}
            found = Planned({**found.offsets, **more.offsets}, {**found.ids, **more.ids}, begun)
        return found

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
    gone: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By stage, ids of topics that are gone, of which a batch was planned and nothing delivered yet."""


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
    check_cluster(old, identity, checkpoint)
    check_upgrade(old, plan, drop_stores=settings["upgrade.drop.stores"])
    removals = Removals.of(checkpoint, {**(old or {}), **plan})
    removals.finish()
    wanted = internal_topics(topology, partitions, settings, repartition=stages.repartition_topics)
    created = make_topics(client, wanted, settings.replication_factor)
    counts = {**known, **{topic.name: topic.partitions for topic in wanted}}
    ids = topic_ids(client, (name for stage in stages.stages for name in topics_of(stage, settings, counts)))
    gone = {}
    if settings.exactly_once:
        _take_over(client, stages, settings, checkpoint, removals)
        gone = _without_gone_records(client, stages, settings, checkpoint, removals, ids)
    committed = client.committed_offsets(settings.application_id)
    fresh = [stage for stage in stages.stages if not checkpoint.has_committed(stage.name)]
    rebuilt = _rebuilt(client, fresh, [topic for topic in wanted if topic.name not in created], checkpoint, old)
    noted = (old or {}).get("starting", {})
    starting = {
        # a first batch that is done again reads what it read: Spark asks anew where it begins
        stage.name: offsets_of_json(noted[stage.name])
        if stage.name in noted and checkpoint.has_begun(stage.name)
        else _starting(
            client, stage, settings, known, committed, removals.before(stage.name, ids), rebuild=stage.name in rebuilt
        )
        for stage in fresh
    }
    begun = {
        name: noted[name]
        if name in noted and checkpoint.has_begun(name)  # with the ids that its topics had
        else Planned(offsets, ids).to_json()
        for name, offsets in starting.items()
    }
    checkpoint.note({**plan, "rebuilding": rebuilt, "starting": begun, **removals.left()})
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
        topic_ids=ids,
        gone=gone,
    )


@dataclass(frozen=True)
class Removals:
    """Checkpoints that have to go, so that a stage begins anew: noted in the plan before anything of them is removed.

    A folder is not removed at once: a start that was killed meanwhile left a part. The next one goes by the note, which
    stays until the stage has planned a batch in its new checkpoint.
    """

    checkpoint: Checkpoint
    plan: Mapping[str, Any]
    """What stands in the plan beside them."""
    noted: dict[str, dict[str, Any]]
    """By stage, the query's id and where the stage goes on in its topics."""

    @classmethod
    def of(cls, checkpoint: Checkpoint, plan: Mapping[str, Any]) -> Removals:
        """Return those that a plan has noted."""
        return cls(checkpoint, plan, dict(plan.get("removals", {})))

    def finish(self) -> None:
        """Remove what is left of a checkpoint that an earlier start has begun to remove, and no newer one."""
        for stage, each in self.noted.items():
            if self.checkpoint.query_id(stage) in (None, each["query_id"]):
                self.checkpoint.remove(stage)

    def remove(self, stage: str, going_on: Planned) -> None:
        """Remove a stage's checkpoint; it goes on at some offsets where it is known."""
        self.noted[stage] = {"query_id": self.checkpoint.query_id(stage), "offsets": going_on.to_json()}
        self.checkpoint.note({**self.plan, "removals": self.noted})
        self.checkpoint.remove(stage)

    def before(self, stage: str, ids: Mapping[str, str]) -> dict[TopicPartition, Offset]:
        """Return where a stage goes on, in topics that have the same ids still."""
        known = Planned.of_json(self.noted.get(stage, {}).get("offsets", {}))
        same = {name for name, each in known.ids.items() if ids.get(name) == each}
        return {each: offset for each, offset in known.offsets.items() if each.topic in same}

    def left(self) -> dict[str, Any]:
        """Return what the plan has to note of them still."""
        return {"removals": {name: each for name, each in self.noted.items() if not self.checkpoint.has_begun(name)}}


def _take_over(
    client: BlockingClient, stages: Stages, settings: StreamsSettings, checkpoint: Checkpoint, removals: Removals
) -> None:
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
            removals.remove(stage.name, Planned({}))


def _without_gone_records(
    client: BlockingClient,
    stages: Stages,
    settings: StreamsSettings,
    checkpoint: Checkpoint,
    removals: Removals,
    ids: Mapping[str, str],
) -> dict[str, frozenset[str]]:
    """Look for batches that were planned and not finished, and cannot be done again: records of them are gone.

    What their tasks have delivered is in a stage's changelogs, and not in its checkpoint. So state is rebuilt from those;
    a native aggregate's, or a store's that is not logged, cannot be, which raises KafkaError. Where nothing was delivered
    the batch is done without those records: returns the ids of topics that were made again, by stage. Stages without state
    need nothing: a task that has delivered is passed over.
    """
    found: dict[str, frozenset[str]] = {}
    for stage in stages.stages:
        batch = None if stage.kind == "stateless" else checkpoint.unfinished(stage.name)
        if batch is None:
            continue
        planned, begun = checkpoint.planned(stage.name, batch), _begun(stage, checkpoint, batch, removals.plan)
        changed = [name for name, each in planned.ids.items() if ids.get(name, each) != each]
        again = sorted(name for name in changed if has_been_made_again(client, name, planned.ids[name]))
        cut = _without_head(client, begun, planned, but=changed)
        if not again and not cut:
            continue
        query = checkpoint.query_id(stage.name)
        if query is None or not has_delivered(client, settings.application_id, stage.name, query, batch):
            found[stage.name] = frozenset(planned.ids[name] for name in again)
            continue
        why = [f"{name} was made again" for name in again] + [f"retention has passed {each}" for each in cut]
        words = f"{', '.join(why)} since batch {batch} of {stage.name} was planned, and a part is delivered"
        stores = stage.topology.stores
        if stage.kind == "native" or not all(stores[name].logged or stores[name].is_global for name in stage.stores):
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{words}: state without a changelog cannot be brought to where that is. "
                "`ottla streams reset` begins anew with what is there",
            )
        log.warning("%s: its state is rebuilt from the changelogs", words)
        topics = topics_of(stage, settings, dict.fromkeys(begun.ids, 0))
        kept = {each: offset for each, offset in begun.offsets.items() if not topics_global(topics, each)}
        removals.remove(stage.name, replace(begun, offsets=kept))
    return found


def _begun(stage: Stage, checkpoint: Checkpoint, batch: int, plan: Mapping[str, Any]) -> Planned:
    """Return where a stage's batch begins, and in which topics."""
    noted = plan.get("starting", {}).get(stage.name, {})
    before = checkpoint.planned(stage.name, batch - 1) if batch else Planned.of_json(noted)
    planned = checkpoint.planned(stage.name, batch)
    return Planned({**before.offsets, **planned.begun}, {**before.ids, **planned.ids})


def _without_head(
    client: BlockingClient, begun: Planned, planned: Planned, *, but: Collection[str]
) -> list[TopicPartition]:
    """Return the partitions whose logs begin behind where a batch of them begins; of some topics nobody asks."""
    read = [
        each for each, end in planned.offsets.items() if begun.offsets.get(each, end) < end and each.topic not in but
    ]
    cluster = client.metadata(sorted({each.topic for each in read}))
    there = {each for topic in cluster.topics for each in cluster.partitions_of(topic)}
    heads = client.list_offsets({each: EARLIEST for each in read if each in there}) if read else {}
    return sorted(each for each, head in heads.items() if head.offset > begun.offsets[each])


def facts_of(stage: Stage, partitions: PartitionPlan) -> StageFacts:
    """Return what of a stage its state depends on."""
    tasks = max((partitions.stores.get(store, 0) for store in stage.stores), default=0)
    inputs = tuple(node.name for node in stage.source_nodes())
    return StageFacts(stage.name, stage.kind, frozenset(stage.nodes), inputs, tasks)


def check_cluster(old: Mapping[str, Any] | None, identity: str, checkpoint: Checkpoint) -> None:
    """Raise KafkaError where a checkpoint is another cluster's."""
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
    before: Mapping[TopicPartition, Offset],
    *,
    rebuild: bool,
) -> dict[TopicPartition, Offset]:
    """Return where a stage without a checkpoint begins: at the group's offsets, else where the reset policy says.

    `before` is where a batch began that is not done again: what nobody has committed anything of begins there. Exactly once
    a stage without state goes on behind what its tasks have noted. A native aggregate whose checkpoint is lost begins anew
    with the first record that is there.
    """
    topics = topics_of(stage, settings, known)
    cluster = client.metadata(topics)
    partitions = [each for name in topics for each in cluster.partitions_of(name)]
    reset = {name: source.offset_reset or settings.auto_offset_reset for name, source in topics.items()}
    internal = {repartition_topic(settings.application_id, name) for name in stage.plan.repartition_topics}
    reset.update({name: "earliest" for name in topics if name in internal or topics[name].is_global})
    anew = rebuild and stage.kind == "native"
    usable = dict(before)
    usable.update({each: found.offset for each, found in committed.items() if not topics_global(topics, each)})
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

"""What happens before an application's hosts start: topics looked up and made, offsets chosen, the upgrade checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient, ConsumerGroupMetadata
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION
from ottla.spark.continuous.plan import ApplicationPlan, CheckpointPlan, application_plan
from ottla.spark.continuous.work import Note, note_of, words_of
from ottla.spark.source.positions import has_been_made_again, ids_of
from ottla.spark.streams.internal_topics import InternalTopic, internal_topics, make_topics, repartition_topic
from ottla.spark.streams.preparation import Checkpoint, check_cluster
from ottla.spark.streams.progress import OWN_WORDS, reset_offsets
from ottla.streams import (
    AGE_MS_MAX,
    PartitionPlan,
    SourceNode,
    StageFacts,
    StreamsSettings,
    Topology,
    check_upgrade,
    fingerprint,
    partition_plan,
)

__all__ = ["STATE_FOLDER", "WORDS", "ContinuousPrepared", "facts_of_groups", "prepare_continuous"]

log = logging.getLogger(__name__)
STATE_FOLDER = "state"
"""Where checkpoints of works lie, below the application's folder."""
WORDS = f"{OWN_WORDS} "
"""What stands beside an offset of which nothing is noted: how those begin that continuous mode has committed."""


@dataclass(frozen=True)
class ContinuousPrepared:
    """What a start has found out, and what hosts are told."""

    cluster_id: str
    partitions: PartitionPlan
    checkpoint: Checkpoint
    internal: tuple[InternalTopic, ...]
    created: tuple[str, ...]
    """Internal topics that this start has made."""
    counts: Mapping[str, int]
    plan: ApplicationPlan
    rebuilt: tuple[str, ...] = ()


def prepare_continuous(
    client: BlockingClient,
    topology: Topology,
    settings: StreamsSettings,
    checkpoint: Checkpoint,
    member: ConsumerGroupMetadata | None,
    *,
    fence: Callable[[ApplicationPlan], None],
) -> ContinuousPrepared:
    """Look at the cluster and make what is missing; raises KafkaError for what stands against a start.

    `fence` makes sure that hosts of an earlier life commit nothing more, so that the offsets that are read are the last.
    Raises UpgradeError where the plan does not fit the state that is there.
    """
    cluster = client.metadata()
    known = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
    partitions = partition_plan(topology, known)
    identity = cluster.cluster_id or "cluster"
    wanted = internal_topics(topology, partitions, settings)
    counts = {**known, **{topic.name: topic.partitions for topic in wanted}}
    plan = application_plan(topology, settings, partitions, counts, _checkpoints(settings, checkpoint, identity))
    noted = {**fingerprint(topology, facts_of_groups(plan)), "cluster": identity, EXECUTION: CONTINUOUS}
    old = checkpoint.plan()
    check_cluster(old, identity, checkpoint)
    check_upgrade(old, noted, drop_stores=settings["upgrade.drop.stores"])
    created = make_topics(client, wanted, settings.replication_factor)
    fence(plan)
    _commit_beginnings(client, plan, settings, member)
    checkpoint.note(noted)
    return ContinuousPrepared(identity, partitions, checkpoint, tuple(wanted), tuple(created), counts, plan)


def facts_of_groups(plan: ApplicationPlan) -> Iterator[StageFacts]:
    """Yield what of each sub-topology its state depends on."""
    for each in plan.groups:
        kind = "stateful" if each.group.is_stateful else "stateless"
        yield StageFacts(each.group.name, kind, frozenset(each.group.nodes), each.group.sources, each.tasks)


def _checkpoints(settings: StreamsSettings, checkpoint: Checkpoint, cluster_id: str) -> CheckpointPlan:
    """Return where hosts save state: beside the application's notes, on each machine its own."""
    interval_ms = int(settings["state.checkpoint.interval.ms"])
    folder = f"{checkpoint.root}/{STATE_FOLDER}" if checkpoint.is_local and interval_ms else None
    kept_ms = settings.topic_config().get("delete.retention.ms", "")
    age_ms_max = min(AGE_MS_MAX, int(kept_ms) // 2) if kept_ms.isdigit() else AGE_MS_MAX
    return CheckpointPlan(folder, interval_ms, age_ms_max, cluster_id)


def _commit_beginnings(
    client: BlockingClient, plan: ApplicationPlan, settings: StreamsSettings, member: ConsumerGroupMetadata | None
) -> None:
    """Commit where each partition begins of which nothing usable is committed, by its topic's reset policy.

    So a work finds its offsets committed always, each with its topic's id, and `latest` means what was the latest at the
    first start. Offsets of a topic that was made again since are not usable; what has no id counts as this topic's.
    """
    application = settings.application_id
    internal = {repartition_topic(application, name) for name in plan.topology.repartition_topics}
    reset: dict[str, str] = {}
    wanted: list[TopicPartition] = []
    for each in plan.groups:
        for task in range(each.tasks):
            wanted += each.partitions(task, plan.counts)
        for topic, source in each.topics.items():
            node = plan.topology.nodes[source]
            assert isinstance(node, SourceNode)
            reset[topic] = "earliest" if topic in internal else node.offset_reset or settings.auto_offset_reset
    committed = client.committed_offsets(application, wanted, require_stable=settings.exactly_once)
    notes = {each: note_of(found.metadata) for each, found in committed.items()}
    again = _made_again(client, notes)
    ids = ids_of(client.metadata({each.topic for each in wanted})) if wanted else {}
    before = {each: found.offset for each, found in committed.items() if each.topic not in again}
    found = reset_offsets(client, dict.fromkeys(wanted), before, reset)
    new: dict[TopicPartition, Offset] = {}
    words: dict[TopicPartition, str] = {}
    for place, offset in found.items():
        known = notes.get(place, Note()) if place.topic not in again else Note()
        is_same = before.get(place) == offset
        if not is_same or not known.topic_id:
            note = Note(known.memory if is_same else None, known.topic_id or ids.get(place.topic, ""))
            new[place], words[place] = Offset(offset), words_of(note)
    client.commit_offsets(application, new, metadata=words, member=member)


def _made_again(client: BlockingClient, notes: Mapping[TopicPartition, Note]) -> frozenset[str]:
    """Return the topics that are others by now than those of which offsets are committed, and say so in the log."""
    noted = {each.topic: note.topic_id for each, note in notes.items() if note.topic_id}
    now = ids_of(client.metadata(noted)) if noted else {}
    changed = [topic for topic, topic_id in sorted(noted.items()) if now.get(topic, topic_id) != topic_id]
    found = frozenset(topic for topic in changed if has_been_made_again(client, topic, noted[topic]))
    for topic in sorted(found):
        log.warning("%s was made again: it is read from where auto.offset.reset says", topic)
    return found

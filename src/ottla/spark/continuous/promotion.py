"""`ottla streams promote`: an application goes on in the other way of execution, over its offsets and changelogs.

It is done between two runs: whoever promotes becomes the application's driver for that long, so that no other one commits.
What is noted of the plan, and beside the offsets, says afterwards in which mode the application is; what the mode before
kept on this machine goes, since it would be out of date when the application came back. Whatever stands against it is said
before anything is changed, and a promotion that is cut short leaves an application that starts in one mode or the other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import LATEST, BlockingClient, CommittedOffset, ConsumerGroupMetadata, FetchPosition, Isolation
from ottla.spark.continuous.application import fence_earlier_life
from ottla.spark.continuous.mode import CONTINUOUS, EXECUTION, MICRO_BATCH, continuous_hosts, why_not_continuous
from ottla.spark.continuous.plan import ApplicationPlan, application_plan, works_of
from ottla.spark.continuous.preparation import STATE_FOLDER, WORDS, facts_of_groups
from ottla.spark.streams.commits import deliverer, fence_tasks
from ottla.spark.streams.internal_topics import internal_topics, repartition_topic
from ottla.spark.streams.lowering.record_times import extractor_of
from ottla.spark.streams.membership import Membership
from ottla.spark.streams.preparation import Checkpoint, check_cluster, facts_of, is_uri
from ottla.spark.streams.progress import OWN_WORDS
from ottla.spark.streams.secured import driver_network
from ottla.streams import (
    PartitionPlan,
    SourceNode,
    Stages,
    StreamsSettings,
    StreamsWork,
    Topology,
    cut,
    fingerprint,
    partition_plan,
    why_not_promoted,
)
from ottla.wire import ColumnDecoder

__all__ = ["Move", "Promoting", "Promotion", "check_plan", "promote"]

log = logging.getLogger(__name__)
DRAIN_SECONDS_MAX = 30.0
"""How long records in repartition topics are waited for before an application that runs is stopped to be promoted."""
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promotion found, and did."""

    application: str
    before: str
    after: str
    offsets: Mapping[TopicPartition, Offset]
    """Where the application goes on."""


def promote(topology: Topology, settings: StreamsSettings, to: str, *, dry_run: bool = False) -> Promotion:
    """Have an application that does not run go on in mode `to` when it is started; with `dry_run` only look whether it may.

    Raises KafkaError: INVALID_REQUEST with all reasons where equal results are not proven, where it has not begun, or is in
    that mode already, where micro-batches have left a batch half done or records are on their way in a repartition topic;
    INCONSISTENT_GROUP_PROTOCOL where it runs.
    """
    name = settings.application_id
    topology = topology.of_application(name)
    stages = cut(topology, stream_time=settings["stream.time"], every_update=not settings.cache)
    check_plan(topology, stages, settings, to)
    with BlockingClient(
        settings.bootstrap_servers, client_id=f"{name}-promote", network=driver_network(settings)
    ) as client:
        membership = Membership(
            settings.bootstrap_servers,
            name,
            topics=sorted(
                {topic for node in topology.nodes.values() if isinstance(node, SourceNode) for topic in node.topics}
            ),
            client_id=f"{name}-promote",
            network=lambda: driver_network(settings),
        )
        membership.join()
        try:
            return Promoting(client, topology, stages, settings, to, membership.member).run(dry_run=dry_run)
        finally:
            membership.leave()


def check_plan(topology: Topology, stages: Stages, settings: StreamsSettings, to: str) -> None:
    """Raise KafkaError INVALID_REQUEST, with all reasons, where a plan's results in mode `to` are not proven to be equal."""
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    reasons = why_not_promoted(
        topology, stages, {each.name: extractor_of(each, topology, settings) for each in sources}
    )
    if is_uri(settings.state_dir):
        reasons.append("state.dir is a URI, where continuous mode keeps nothing")
    if to == CONTINUOUS and (cannot := why_not_continuous(topology, settings)) is not None:
        reasons.append(cannot)
    _refuse(settings.application_id, to, reasons)


def _refuse(application: str, to: str, reasons: list[str]) -> None:
    if reasons:
        words = f"application {application} is not promoted to {to}: {'; '.join(reasons)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, words)


class Move:
    """A promotion that a running application is asked for: its watcher does it, and who asked waits for the answer."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.answer: Future[Promotion] = Future()


class Promoting:
    """One promotion, as the application's driver."""

    def __init__(
        self,
        client: BlockingClient,
        topology: Topology,
        stages: Stages,
        settings: StreamsSettings,
        to: str,
        member: ConsumerGroupMetadata,
    ) -> None:
        self._client, self._topology, self._stages, self._settings = client, topology, stages, settings
        self._to, self._member, self._name = to, member, settings.application_id
        cluster = client.metadata()
        self._identity = cluster.cluster_id or "cluster"
        self._known = {name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error}
        self._partitions: PartitionPlan = partition_plan(topology, self._known)
        self._checkpoint = Checkpoint.of(settings, self._identity)
        wanted = internal_topics(topology, self._partitions, settings)
        counts = {**self._known, **{topic.name: topic.partitions for topic in wanted}}
        self._plan: ApplicationPlan = application_plan(topology, settings, self._partitions, counts)

    def run(self, *, dry_run: bool) -> Promotion:
        """Promote, or with `dry_run` look whether that may be; raises KafkaError as `promote`."""
        noted = self._checkpoint.plan()
        check_cluster(noted, self._identity, self._checkpoint)
        if not dry_run:
            self._fence()
        committed = self._client.committed_offsets(self._name, require_stable=self._settings.exactly_once)
        before = self._mode(noted, committed)
        if before is None:
            words = f"application {self._name} has not begun: start it with {EXECUTION}={self._to}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, words)
        if before == self._to:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"application {self._name} is in mode {self._to} already")
        reasons = self._unfinished(committed) if self._to == CONTINUOUS else self._on_its_way(committed)
        _refuse(self._name, self._to, reasons)
        read = {place for each in works_of(self._plan) for place in self._read_by(each)}
        offsets = {place: each.offset for place, each in committed.items() if place in read}
        if not dry_run:
            self._change(offsets)
            log.info("application %s goes on in mode %s", self._name, self._to)
        return Promotion(self._name, before, self._to, offsets)

    def is_unfinished(self, stage: str) -> bool:
        """Whether micro-batches have left a batch of a stage half done."""
        return self._checkpoint.unfinished(stage) is not None

    def drain(self, stop_reading: Callable[[], None], is_ending: Callable[[], bool]) -> None:
        """Have works that run process what is in repartition topics; who has them and no time for all is refused later."""
        if not self._topology.repartition_topics:
            return
        stop_reading()
        until_s, in_a_row = time.monotonic() + DRAIN_SECONDS_MAX, 0
        while in_a_row < 2 and time.monotonic() < until_s and not is_ending():
            time.sleep(
                max(LOOK_SECONDS, self._settings.commit_interval_ms / 1000)
            )  # what was read before is on its way
            committed = self._client.committed_offsets(self._name, require_stable=self._settings.exactly_once)
            in_a_row = 0 if self._on_its_way(committed) else in_a_row + 1

    def _read_by(self, work: StreamsWork) -> tuple[TopicPartition, ...]:
        return self._plan.of_group(work.sub_topology).partitions(work.partition, self._plan.counts)

    def _mode(self, noted: Mapping[str, Any] | None, committed: Mapping[TopicPartition, CommittedOffset]) -> str | None:
        words = {each.metadata for each in committed.values()}
        if (noted or {}).get(EXECUTION) == CONTINUOUS or any(each.startswith(WORDS) for each in words):
            return CONTINUOUS
        return MICRO_BATCH if noted is not None or OWN_WORDS in words else None

    def _fence(self) -> None:
        """Have nobody of an earlier life commit any more: the offsets that are read afterwards are the last."""
        fence_earlier_life(self._client, self._name, continuous_hosts(self._settings), self._plan)
        for stage in self._stages.stages if self._settings.exactly_once else ():
            if (last := deliverer(self._client, self._name, stage.name)) is not None:
                fence_tasks(self._client, self._name, stage.name, last.tasks)

    def _unfinished(self, committed: Mapping[TopicPartition, CommittedOffset]) -> list[str]:
        """Return what of micro-batches is not as the group's offsets say."""
        reasons = []
        if not self._checkpoint.exists:
            return [f"there is no checkpoint at {self._checkpoint.root}: promote it where it has run"]
        for stage in self._stages.stages:
            if self.is_unfinished(stage.name):
                reasons.append(f"{stage.name} has a batch that is not finished: start it and stop it again")
                continue
            for place, offset in self._checkpoint.finished(stage.name).offsets.items():
                found = committed.get(place)
                if place.topic in self._global:
                    continue
                if found is None or found.offset != offset or found.metadata != OWN_WORDS:
                    where = "nothing" if found is None else str(found.offset)
                    reasons.append(f"{stage.name} has read {place} up to {offset}, and the group has committed {where}")
        return reasons

    @property
    def _global(self) -> frozenset[str]:
        nodes = self._topology.nodes.values()
        found = [each for each in nodes if isinstance(each, SourceNode) and each.is_global]
        return frozenset(topic for each in found for topic in each.topics)

    def _on_its_way(self, committed: Mapping[TopicPartition, CommittedOffset]) -> list[str]:
        """Return the repartition topics that micro-batches have none of, and that hold records not processed yet."""
        real = set(self._stages.repartition_topics)
        fused = [repartition_topic(self._name, each) for each in self._topology.repartition_topics if each not in real]
        cluster = self._client.metadata(fused) if fused else None
        places = [] if cluster is None else [place for name in fused for place in cluster.partitions_of(name)]
        ends = self._client.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
        reasons = []
        for place in sorted(places):
            begin = committed[place].offset if place in committed else Offset(0)
            if self._holds_records(place, begin, int(ends[place].offset)):
                words = f"{place} holds records that are not processed: let it run until they are, and stop it"
                reasons.append(words)
        return reasons

    def _holds_records(self, place: TopicPartition, begin: Offset, end: int) -> bool:
        """Whether there is any record, and not the marks of transactions alone."""
        isolation = Isolation.READ_COMMITTED if self._settings.exactly_once else Isolation.READ_UNCOMMITTED
        decoder = ColumnDecoder()
        while begin < end:
            [answer] = self._client.fetch([FetchPosition(place, begin)], max_wait_ms=100, isolation=isolation)
            answer.check()
            decoded = decoder.decode(answer.records, start=begin, aborted=answer.aborted)
            if any(len(columns.offsets) for columns in decoded.columns):
                return True
            if decoded.next_offset <= begin:
                return answer.last_stable_offset < end if self._settings.exactly_once else False
            begin = Offset(int(decoded.next_offset))
        return False

    # -- what is changed

    def _change(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Remove what the mode before has kept, and say in which one the application is; restartable after each step."""
        if self._to == CONTINUOUS:
            for stage in self._stages.stages:
                self._checkpoint.remove(stage.name)
            self._checkpoint.note({**self._facts_of_groups(), EXECUTION: CONTINUOUS})
            self._client.commit_offsets(self._name, offsets, metadata=WORDS, member=self._member)
        else:
            self._checkpoint.remove(STATE_FOLDER)
            for stage in self._stages.stages:  # of a life in micro-batches that was before the last one
                self._checkpoint.remove(stage.name)
            self._client.commit_offsets(self._name, offsets, metadata=OWN_WORDS, member=self._member)
            self._checkpoint.note(self._facts_of_stages())

    def _facts_of_groups(self) -> dict[str, Any]:
        return {**fingerprint(self._topology, facts_of_groups(self._plan)), "cluster": self._identity}

    def _facts_of_stages(self) -> dict[str, Any]:
        facts = (facts_of(stage, self._partitions) for stage in self._stages.stages)
        return {**fingerprint(self._topology, facts), "cluster": self._identity}

"""What a cluster was at one moment, as a value, and what two of them say together: rates, lag in time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.base import TopicPartition

__all__ = [
    "BrokerSample",
    "Flow",
    "FlowRate",
    "GroupSample",
    "Moved",
    "PartitionSample",
    "Sample",
    "TopicFigures",
    "Traffic",
    "flow_rates",
    "group_lags",
    "topic_figures",
    "topic_rates",
]


@dataclass(frozen=True, slots=True)
class PartitionSample:
    """One partition: who has it, and where it begins and ends; offsets are -1 where its leader did not answer."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """One broker: where it is, and what lies on its disks; bytes are -1 where it did not say."""

    host: str
    port: int
    rack: str | None
    bytes: int = -1
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group as listed, and what it has committed; for a share group, where it begins (KIP-932)."""

    state: str
    type: str
    protocol: str
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Empty where it could not be read, too: `Sample.partial` says so."""
    clients: frozenset[str] = frozenset()
    """Client ids of its members, where they were asked for."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Whose bytes of which topic: a client by its id, and as whom it has logged in (None where that is not told)."""

    topic: str
    client_id: str
    principal: str | None


@dataclass(frozen=True, slots=True)
class Moved:
    """What has flowed since a broker began: bytes and records written, and bytes read."""

    bytes_in: int
    records_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What brokers of Ottla have counted of their clients, by broker."""

    at_ms: int
    flows: Mapping[int, Mapping[Flow, Moved]]


@dataclass(frozen=True, slots=True)
class FlowRate:
    """What flows a second, between two countings."""

    flow: Flow
    bytes_in: float
    records_in: float
    bytes_out: float


@dataclass(frozen=True, slots=True)
class Sample:
    """A cluster at one moment; `partial` names what did not answer."""

    at_ms: int
    cluster_id: str
    controller: int
    brokers: Mapping[int, BrokerSample]
    topics: Mapping[str, Mapping[int, PartitionSample]]
    internal: frozenset[str]
    groups: Mapping[str, GroupSample]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of a topic's copies on all brokers."""
    partial: tuple[str, ...] = ()
    traffic: Traffic | None = None
    """None where no broker tells it: those of Apache Kafka do not."""
    traffic_before: Traffic | None = None

    def ends(self) -> dict[TopicPartition, int]:
        """Where each partition ends, those that did not answer left out."""
        return {
            TopicPartition(topic, index): each.end
            for topic, partitions in self.topics.items()
            for index, each in partitions.items()
            if each.end >= 0
        }


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One topic in numbers; `rate` is records a second since the sample before, None where there is none."""

    name: str
    partitions: int
    replicas: int
    records: int
    bytes: int | None
    rate: float | None
    groups: int
    lag: int
    without_leader: int
    out_of_sync: int
    is_internal: bool


def group_lags(sample: Sample, group: GroupSample, only: str | None = None) -> dict[TopicPartition, int | None]:
    """Return how many records a group has still to read of each partition that it has committed; None is not known.

    With `only`, of that topic's partitions.
    """
    found: dict[TopicPartition, int | None] = {}
    for partition, committed in group.committed.items():
        if only is not None and partition.topic != only:
            continue
        known = sample.topics.get(partition.topic, {}).get(partition.partition)
        found[partition] = max(0, known.end - committed) if known is not None and known.end >= 0 else None
    return found


def flow_rates(sample: Sample) -> list[FlowRate] | None:
    """Return what flows a second; None where it is not known: not counted, or not twice yet.

    A broker that was silent or began anew between the two countings is left out.
    """
    new, old = sample.traffic, sample.traffic_before
    if new is None or old is None or new.at_ms <= old.at_ms:
        return None
    seconds = (new.at_ms - old.at_ms) / 1000
    nothing = Moved(0, 0, 0)
    sums: dict[Flow, list[int]] = {}
    for node, flows in new.flows.items():
        then = old.flows.get(node)
        if then is None:
            continue
        for flow, each in flows.items():
            was = then.get(flow, nothing)
            grown = (each.bytes_in - was.bytes_in, each.records_in - was.records_in, each.bytes_out - was.bytes_out)
            total = sums.setdefault(flow, [0, 0, 0])
            if min(grown) >= 0:
                for at, value in enumerate(grown):
                    total[at] += value
    return [FlowRate(flow, *(value / seconds for value in total)) for flow, total in sums.items()]


def topic_figures(sample: Sample, before: Sample | None, only: str | None = None) -> list[TopicFigures]:
    """Return each topic's numbers, sorted by name, or those of one topic, where there is one of that name."""
    readers: dict[str, set[str]] = {}
    lags: dict[str, int] = {}
    for name, group in sample.groups.items():
        for partition, lag in group_lags(sample, group, only).items():
            readers.setdefault(partition.topic, set()).add(name)
            lags[partition.topic] = lags.get(partition.topic, 0) + (lag or 0)
    return [
        TopicFigures(
            name=name,
            partitions=len(partitions),
            replicas=max((len(each.replicas) for each in partitions.values()), default=0),
            records=sum(each.end - each.start for each in partitions.values() if each.end >= 0 and each.start >= 0),
            bytes=sample.sizes.get(name),
            rate=_rate(name, sample, before),
            groups=len(readers.get(name, ())),
            lag=lags.get(name, 0),
            without_leader=sum(each.leader < 0 for each in partitions.values()),
            out_of_sync=sum(len(each.in_sync) < len(each.replicas) for each in partitions.values()),
            is_internal=name in sample.internal,
        )
        for name, partitions in sorted(sample.topics.items())
        if only is None or name == only
    ]


def topic_rates(sample: Sample, before: Sample | None) -> dict[str, float]:
    """Return records a second by topic since the sample before; topics of which it is not known are left out."""
    found = {name: _rate(name, sample, before) for name in sample.topics}
    return {name: rate for name, rate in found.items() if rate is not None}


def _rate(name: str, sample: Sample, before: Sample | None) -> float | None:
    """Records a second that came into a topic between two samples; a topic that was made anew counts from nothing."""
    if before is None or sample.at_ms <= before.at_ms or name not in before.topics:
        return None
    then, grown = before.topics[name], 0
    for index, each in sample.topics[name].items():
        old = then.get(index)
        if each.end < 0 or old is None or old.end < 0:
            continue
        grown += max(0, each.end - old.end)
    return grown * 1000 / (sample.at_ms - before.at_ms)

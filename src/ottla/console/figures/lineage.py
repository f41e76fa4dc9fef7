"""Who writes which topics, and who reads them: made of what brokers count, of groups and of connectors. Pure.

An actor is whatever stands at an end: a connector, a query of SQL, a group (an application that reads, and writes where its
clients do), or a client that is none of these. Where brokers do not tell what clients move (Apache Kafka's do not), groups
and the connectors' topics are what is known: writers that are no connectors are missing then, and the answer says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace

from ottla.console.figures.samples import FlowRate, Sample, flow_rates, group_lags

__all__ = ["Actor", "Connector", "Edge", "Lineage", "lineage", "named", "of_topic"]

OF_CONNECTOR = re.compile(r"connector-(?:producer|consumer|dlq-producer|adminclient)-(.+)-\d+")
"""Kafka's names for the clients of a connector's tasks."""
EDGES_MAX = 1000
"""Edges that one answer has; a search by name or topic finds the others."""
GROUP_OF_CONNECTOR = "connect-"
CONNECTOR, GROUP, CLIENT, QUERY = "connector", "group", "client", "query"
OF_QUERY = "_confluent-ksql-"
"""What groups and clients of SQL's queries begin with, as ksqlDB's do."""


@dataclass(frozen=True, slots=True, order=True)
class Actor:
    """Somebody that writes or reads: its kind (`connector`, `query`, `group` or `client`) and its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as its workers tell it: `source` or `sink`, and the topics that it has used (KIP-558)."""

    name: str
    worker: str
    kind: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """What one actor writes to a topic, or reads from it; figures that are not known are None."""

    actor: Actor
    topic: str
    writes: bool
    bytes_per_s: float | None = None
    records_per_s: float | None = None
    lag: int | None = None
    clients: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()

    def with_flow(self, flow: FlowRate) -> Edge:
        """Return the edge with what one more client moves."""
        each = flow.flow
        moved = flow.bytes_in if self.writes else flow.bytes_out
        records = self.records_per_s
        if self.writes:
            records = (records or 0) + flow.records_in
        principals = {*self.principals, *([] if each.principal is None else [each.principal])}
        return replace(
            self,
            bytes_per_s=(self.bytes_per_s or 0) + moved,
            records_per_s=records,
            clients=tuple(sorted({*self.clients, each.client_id})),
            principals=tuple(sorted(principals)),
        )


@dataclass(slots=True)
class Lineage:
    """The edges, by actor, topic and direction; `counted` says whether brokers tell what clients move."""

    counted: bool
    edges: dict[tuple[Actor, str, bool], Edge] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    """Whose connectors they are, by name."""

    def edge(self, actor: Actor, topic: str, *, writes: bool) -> Edge:
        """Return an edge, made where there is none."""
        return self.edges.setdefault((actor, topic, writes), Edge(actor, topic, writes))

    def keep(self, edge: Edge) -> None:
        """Take an edge in."""
        self.edges[edge.actor, edge.topic, edge.writes] = edge

    def shown(self) -> dict[str, object]:
        """Return it as JSON has it: edges that carry most first, and how many there are besides."""
        found = sorted(
            self.edges.values(),
            key=lambda each: (-(each.bytes_per_s or 0), -(each.records_per_s or 0), each.topic, each.actor),
        )
        return {
            "counted": self.counted,
            "edges": [asdict(each) for each in found[:EDGES_MAX]],
            "left_out": max(0, len(found) - EDGES_MAX),
            "workers": self.workers,
        }


def lineage(
    sample: Sample, before: Sample | None, connectors: Iterable[Connector], *, internal: bool = False
) -> Lineage:
    """Return who writes and who reads, without topics that are internal, unless they are asked for."""
    found = Lineage(sample.traffic is not None)
    known = list(connectors)
    for each in known:
        found.workers[each.name] = each.worker
        for topic in each.topics:
            if topic in sample.topics:
                found.edge(Actor(CONNECTOR, each.name), topic, writes=each.kind == "source")
    names = {each.name for each in known} | _named_by_clients(sample)
    _add_groups(found, sample, before, names)
    actors = _Actors(sample, names)
    for flow in _flows(sample):
        topic, actor = flow.flow.topic, actors.of(flow.flow.client_id)
        for writes, moves in ((True, _has_written(sample, flow)), (False, _has_read(sample, flow))):
            if moves and topic in sample.topics:
                found.keep(found.edge(actor, topic, writes=writes).with_flow(flow))
    if not internal:
        found.edges = {key: each for key, each in found.edges.items() if each.topic not in sample.internal}
    return found


def _named_by_clients(sample: Sample) -> set[str]:
    """Return the connectors that are known by what their tasks' clients are called: of workers that nobody asks."""
    clients = {client for group in sample.groups.values() for client in group.clients}
    if sample.traffic is not None:
        clients |= {flow.client_id for flows in sample.traffic.flows.values() for flow in flows}
    return {found.group(1) for each in clients if (found := OF_CONNECTOR.fullmatch(each))}


def named(whole: Lineage, words: str) -> Lineage:
    """Return the edges of which an actor, topic, client or principal contains some words."""
    wanted = words.casefold()

    def has(edge: Edge) -> bool:
        texts = (edge.actor.name, edge.topic, *edge.clients, *edge.principals)
        return any(wanted in each.casefold() for each in texts)

    return Lineage(whole.counted, {key: each for key, each in whole.edges.items() if has(each)}, whole.workers)


def of_topic(whole: Lineage, topic: str) -> Lineage:
    """Return the part around one topic: its writers and readers, and what those read and write besides."""
    near = {each.actor for each in whole.edges.values() if each.topic == topic}
    writers = {each.actor for each in whole.edges.values() if each.topic == topic and each.writes}
    readers = near - writers
    edges = {
        key: each
        for key, each in whole.edges.items()
        if each.topic == topic or (each.actor in writers and not each.writes) or (each.actor in readers and each.writes)
    }
    workers = {name: worker for name, worker in whole.workers.items() if Actor(CONNECTOR, name) in near}
    return Lineage(whole.counted, edges, workers)


def _add_groups(found: Lineage, sample: Sample, before: Sample | None, connectors: Collection[str]) -> None:
    for name, group in sample.groups.items():
        actor = _of_group(name, connectors)
        old = None if before is None else before.groups.get(name)
        seconds = 0.0 if before is None else (sample.at_ms - before.at_ms) / 1000
        sums: dict[str, list[float]] = {}
        for partition, lag in group_lags(sample, group).items():
            total = sums.setdefault(partition.topic, [0, 0])
            total[0] += lag or 0
            if old is not None:
                total[1] += max(
                    0, group.committed[partition] - old.committed.get(partition, group.committed[partition])
                )
        for topic, (behind, moved) in sums.items():
            edge = found.edge(actor, topic, writes=False)
            consumed = moved / seconds if old is not None and seconds > 0 else None
            found.keep(replace(edge, lag=int(behind), records_per_s=consumed, clients=tuple(sorted(group.clients))))


def _of_group(name: str, connectors: Collection[str]) -> Actor:
    connector = name.removeprefix(GROUP_OF_CONNECTOR)
    if connector != name and connector in connectors:
        return Actor(CONNECTOR, connector)
    if name.startswith(OF_QUERY):
        return Actor(QUERY, name.removeprefix(OF_QUERY))
    return Actor(GROUP, name)


class _Actors:
    """Whose client an id is: a connector's, a group's, or nobody's but its own.

    A group's are its members, and those named after it, as Streams names an application's producers.
    """

    def __init__(self, sample: Sample, connectors: Collection[str]) -> None:
        self._connectors = connectors
        self._members = {client: name for name, group in sample.groups.items() for client in group.clients}
        self._groups = sorted(sample.groups, key=len, reverse=True)

    def of(self, client_id: str) -> Actor:
        task = OF_CONNECTOR.fullmatch(client_id)
        if task is not None:
            return Actor(CONNECTOR, task.group(1))
        group = self._members.get(client_id)
        if group is None:
            group = next((each for each in self._groups if each and client_id.startswith(f"{each}-")), None)
        if group is not None:
            return _of_group(group, self._connectors)
        return Actor(CLIENT, client_id)


def _flows(sample: Sample) -> list[FlowRate]:
    """What flows a second; where only one counting is there, that of everything that has flowed, at no known rate."""
    rates = flow_rates(sample)
    if rates is not None:
        return rates
    flows = {flow for each in (() if sample.traffic is None else sample.traffic.flows.values()) for flow in each}
    return [FlowRate(flow, 0, 0, 0) for flow in flows]


def _has_written(sample: Sample, rate: FlowRate) -> bool:
    assert sample.traffic is not None
    return any(rate.flow in each and each[rate.flow].bytes_in > 0 for each in sample.traffic.flows.values())


def _has_read(sample: Sample, rate: FlowRate) -> bool:
    assert sample.traffic is not None
    return any(rate.flow in each and each[rate.flow].bytes_out > 0 for each in sample.traffic.flows.values())

"""What topics and those who use them cost in a month: bytes that lie and bytes that move, at prices that are set. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.console.figures.samples import FlowRate, Sample, TopicFigures, flow_rates

__all__ = ["ClientCost", "Prices", "TopicCost", "client_costs", "topic_costs"]

MONTH_S = 30 * 86_400
GB = 10**9


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a gigabyte (10⁹ bytes) of a copy that lies for a month, that is written to a copy, that is read."""

    stored: float = 0.0
    written: float = 0.0
    read: float = 0.0
    currency: str = ""

    @property
    def are_set(self) -> bool:
        """True where anything costs something."""
        return self.stored > 0 or self.written > 0 or self.read > 0


@dataclass(frozen=True, slots=True)
class TopicCost:
    """A topic: bytes of all copies, bytes a second that clients write and read, and what a month of it costs.

    What is not told is None: sizes to who may not describe the cluster, rates by brokers that do not count.
    """

    topic: str
    copies: int
    stored: int | None
    written_per_s: float | None
    read_per_s: float | None
    cost_stored: float | None
    cost_written: float | None
    cost_read: float | None

    @property
    def cost(self) -> float | None:
        """Everything that is known; None where nothing is."""
        known = [each for each in (self.cost_stored, self.cost_written, self.cost_read) if each is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class ClientCost:
    """Who writes and reads: as whom a client has logged in, or its id, with its share of what its topics cost."""

    name: str
    is_principal: bool
    written_per_s: float
    read_per_s: float
    stored: float
    """Its part of the bytes that lie: of each topic as much as of what is written to that now."""
    cost: float


def topic_costs(sample: Sample, figures: Iterable[TopicFigures], prices: Prices) -> list[TopicCost]:
    """Return a row for each topic, the dearest first; moving bytes are counted as if they went on for a month."""
    rates = flow_rates(sample)
    written, read = _by_topic(rates)
    rows = []
    for each in figures:
        copies = max(1, each.replicas)
        into = None if rates is None else written.get(each.name, 0.0)
        out = None if rates is None else read.get(each.name, 0.0)
        rows.append(
            TopicCost(
                *(each.name, copies, each.bytes, into, out),
                None if each.bytes is None else each.bytes / GB * prices.stored,
                None if into is None else into * copies * MONTH_S / GB * prices.written,
                None if out is None else out * MONTH_S / GB * prices.read,
            )
        )
    return sorted(rows, key=lambda row: (-(row.cost or 0), -(row.stored or 0), row.topic))


def client_costs(sample: Sample, rows: Iterable[TopicCost], prices: Prices) -> list[ClientCost] | None:
    """Return a row for each that writes or reads, the dearest first; None where brokers do not count, or not twice yet.

    By principal where anybody has logged in; else by client id.
    """
    rates = flow_rates(sample)
    if rates is None:
        return None
    topics = {row.topic: row for row in rows}
    named = {each.flow.principal for each in rates} - {None, "User:ANONYMOUS"}
    sums: dict[str, list[float]] = {}
    for each in rates:
        row = topics.get(each.flow.topic)
        if row is None:
            continue
        name = (each.flow.principal or "not told") if named else each.flow.client_id
        total = sums.setdefault(name, [0.0, 0.0, 0.0, 0.0])
        share = each.bytes_in / row.written_per_s if row.written_per_s else 0.0
        total[0] += each.bytes_in
        total[1] += each.bytes_out
        total[2] += share * (row.stored or 0)
        total[3] += share * ((row.cost_stored or 0) + (row.cost_written or 0))
        total[3] += each.bytes_out * MONTH_S / GB * prices.read
    found = [ClientCost(name, bool(named), *total) for name, total in sums.items()]
    return sorted(found, key=lambda each: (-each.cost, -each.written_per_s - each.read_per_s, each.name))


def _by_topic(rates: list[FlowRate] | None) -> tuple[dict[str, float], dict[str, float]]:
    written: dict[str, float] = {}
    read: dict[str, float] = {}
    for each in rates or ():
        written[each.flow.topic] = written.get(each.flow.topic, 0.0) + each.bytes_in
        read[each.flow.topic] = read.get(each.flow.topic, 0.0) + each.bytes_out
    return written, read

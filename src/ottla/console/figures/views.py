"""What pages are told, made of samples: lists, one topic, one group, the overview with what needs attention. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from ottla.base import TopicPartition
from ottla.console.figures.forecast import DAY_MS, Forecast, forecast
from ottla.console.figures.history import Bucket, History
from ottla.console.figures.offset_times import OffsetTimes
from ottla.console.figures.partition_lags import PartitionLags
from ottla.console.figures.samples import GroupSample, Sample, group_lags, topic_figures, topic_rates

__all__ = [
    "Finding",
    "KeptSummary",
    "Seen",
    "Summary",
    "broker_rows",
    "disk_forecast",
    "findings",
    "group_partitions",
    "group_row",
    "group_rows",
    "overview",
    "topic_row",
    "topic_rows",
    "why_behind",
    "with_recent",
]

FULL_SECONDS_LOW = 3 * 86_400.0
"""A disk that is full sooner than in three days is told."""
DISK_SHARE_LOW = 0.15
BEHIND_MS = 5 * 60_000
MOST_OF_LAG = 0.8
FINDINGS_MAX = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """What a sampler has of a cluster."""

    sample: Sample
    before: Sample | None
    history: History
    times: OffsetTimes
    period_s: float
    partition_lags: PartitionLags = field(default_factory=PartitionLags)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs attention: how bad, what, and where to go."""

    severity: str
    """`bad` or `warn`."""
    title: str
    text: str
    link: str


def topic_rows(seen: Seen) -> list[dict[str, object]]:
    """Return a row for each topic."""
    return [asdict(each) for each in topic_figures(seen.sample, seen.before)]


def topic_row(seen: Seen, name: str) -> dict[str, object] | None:
    """Return one topic's row; None where there is no such topic."""
    return next((asdict(each) for each in topic_figures(seen.sample, seen.before, only=name)), None)


def group_rows(seen: Seen, of_topic: str | None = None) -> list[dict[str, object]]:
    """Return a row for each group, or each that has committed something of a topic, the furthest behind first."""
    rows = [
        group_row(seen, name, group)
        for name, group in seen.sample.groups.items()
        if of_topic is None or any(each.topic == of_topic for each in group.committed)
    ]
    return sorted(rows, key=lambda row: (-int(str(row["lag"] or 0)), str(row["name"])))


def group_row(seen: Seen, name: str, group: GroupSample) -> dict[str, object]:
    """Return one group's row: lag in records and in time, rates, and when it has caught up at this pace."""
    lags = group_lags(seen.sample, group)
    known = [lag for lag in lags.values() if lag is not None]
    ages = [age for each in lags if (age := _age(seen, group, each)) is not None]
    lag = sum(known) if known else None
    consumed, comes = seen.history.newest(f"consumed/{name}"), _comes_in(seen, lags)
    return {
        "name": name,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol,
        "topics": sorted({each.topic for each in lags}),
        "lag": lag,
        "lag_ms": max(ages, default=None),
        "consumed_per_s": consumed,
        "in_per_s": comes,
        "caught_up_in_s": _caught_up_in_s(lag, consumed, comes),
    }


def with_recent(seen: Seen, row: Mapping[str, object]) -> dict[str, object]:
    """Return a group's row with its lag of the last four hours: what is shown needs it, what is sorted does not."""
    return {**row, "recent": [bucket.last for bucket in _recent(seen, f"lag/{row['name']}")]}


def _recent(seen: Seen, series: str) -> list[Bucket]:
    return seen.history.read(series, seen.sample.at_ms - 4 * 3_600_000, seen.sample.at_ms, 40)


def _age(seen: Seen, group: GroupSample, partition: TopicPartition) -> int | None:
    return seen.times.age_ms(partition, group.committed[partition], seen.sample.at_ms)


def _comes_in(seen: Seen, partitions: Iterable[TopicPartition]) -> float | None:
    """Records a second that came into some partitions between the newest two samples."""
    before = seen.before
    if before is None or seen.sample.at_ms <= before.at_ms:
        return None
    grown = 0
    for topic, index in partitions:
        new, old = seen.sample.topics.get(topic, {}).get(index), before.topics.get(topic, {}).get(index)
        if new is not None and old is not None and new.end >= 0 and old.end >= 0:
            grown += max(0, new.end - old.end)
    return grown * 1000 / (seen.sample.at_ms - before.at_ms)


def _caught_up_in_s(lag: int | None, consumed: float | None, comes: float | None) -> float | None:
    """Seconds at this pace; 0 where there is nothing to catch up, -1 for never, None where it is not known."""
    if lag is None or consumed is None or comes is None:
        return None
    if lag == 0:
        return 0
    return lag / (consumed - comes) if consumed > comes else -1


def group_partitions(seen: Seen, name: str) -> list[dict[str, object]]:
    """Return a row for each partition that a group has committed."""
    group = seen.sample.groups[name]
    before = seen.before.groups.get(name) if seen.before is not None else None
    rows = []
    for partition, lag in sorted(group_lags(seen.sample, group).items()):
        known = seen.sample.topics.get(partition.topic, {}).get(partition.partition)
        committed = group.committed[partition]
        consumed = None
        if before is not None and seen.before is not None and seen.sample.at_ms > seen.before.at_ms:
            moved = max(0, committed - before.committed.get(partition, committed))
            consumed = moved * 1000 / (seen.sample.at_ms - seen.before.at_ms)
        comes = _comes_in(seen, [partition])
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start": -1 if known is None else known.start,
                "end": -1 if known is None else known.end,
                "committed": committed,
                "lag": lag,
                "lag_ms": _age(seen, group, partition),
                "recent": seen.partition_lags.of(name, partition),
                "in_per_s": comes,
                "consumed_per_s": consumed,
                "caught_up_in_s": _caught_up_in_s(lag, consumed, comes),
            }
        )
    return rows


Members = Mapping[str, frozenset[TopicPartition]]
"""Which partitions each member has, by what it is called."""


def why_behind(seen: Seen, name: str, found: Members | None) -> str | None:
    """Say in a sentence or two why a group is behind; None where it is not, or where nothing can be said.

    `found` is None where its members are not known.
    """
    return _why(seen, group_row(seen, name, seen.sample.groups[name]), found)


def _why(seen: Seen, row: Mapping[str, object], found: Members | None) -> str | None:
    members = None if found is None else len(found)
    name, lag = str(row["name"]), row["lag"]
    group = seen.sample.groups[name]
    age = row["lag_ms"]
    if not isinstance(lag, int) or lag == 0:
        return None
    if group.state.upper() in ("EMPTY", "DEAD"):
        return f"Nobody reads: the group has no members, and {lag:,} records wait. Start its consumers."
    if not isinstance(age, int) or age < BEHIND_MS:
        return None
    comes, consumed = row["in_per_s"], row["consumed_per_s"]
    if not isinstance(comes, float) or not isinstance(consumed, float):
        return None
    if consumed == 0:
        return (
            f"It reads nothing: {members if members is not None else 'its'} members are there, and no offset has moved "
            f"since {seen.period_s:g} s. They are paused, stuck in a record, or do not commit."
        )
    if consumed >= comes:
        return None
    lags = group_lags(seen.sample, group)
    worst, most = max(lags.items(), key=lambda each: each[1] or 0)
    if found is not None and (slow := _slow_member(seen, name, lag, found)) is not None:
        return slow
    rates = f"{comes:,.0f} records/s come in, {consumed:,.0f} are consumed"
    if len(lags) > 2 and (most or 0) > MOST_OF_LAG * lag:
        return (
            f"Partition {worst} has {(most or 0) / lag:.0%} of the lag; the others keep up. {rates}. More members would "
            "not help, since one partition has one consumer: look at which keys it gets."
        )
    if members is not None and members < len(lags):
        return f"{rates}. {members} members share {len(lags)} partitions: up to {len(lags)} members would help."
    return f"{rates}. Each partition has its consumer: they have to become quicker, or the topic needs more partitions."


def _slow_member(seen: Seen, name: str, lag: int, members: Members) -> str | None:
    """Say which member is behind while the others keep up: one that has several partitions, nearly all of the lag."""
    if len(members) < 2:
        return None
    group, before = seen.sample.groups[name], None if seen.before is None else seen.before.groups.get(name)
    lags = group_lags(seen.sample, group)
    sums = {member: sum(lags.get(each) or 0 for each in has) for member, has in members.items()}
    worst = max(sums, key=lambda each: sums[each])
    has = members[worst]
    behind = [each for each in has if lags.get(each)]
    if sums[worst] <= MOST_OF_LAG * lag or len(behind) < 2 or before is None:
        return None
    moved = sum(max(0, group.committed.get(each, 0) - before.committed.get(each, 0)) for each in has)
    share = f"{sums[worst] / lag:.0%} of the lag is in the {len(behind)} partitions of member {worst}"
    if moved == 0:
        return (
            f"{share}, and none of their offsets moves: it is paused, stuck in a record, or gone without having left. "
            "The other members keep up."
        )
    return f"{share}, which is slower than the others: look at that process, its machine, and what it calls."


def disk_forecast(seen: Seen, node: int) -> Forecast | None:
    """Return when a broker's disks are full at the pace of the last day; None where they are not, or nobody knows."""
    now_ms = seen.sample.at_ms
    return forecast(seen.history.read(f"disk/{node}", now_ms - DAY_MS, now_ms), now_ms)


Forecasts = Mapping[int, Forecast | None]


def _forecasts(seen: Seen) -> Forecasts:
    return {node: disk_forecast(seen, node) for node in seen.sample.brokers}


def broker_rows(seen: Seen) -> list[dict[str, object]]:
    """Return a row for each broker."""
    return _broker_rows(seen, _forecasts(seen))


def _broker_rows(seen: Seen, forecasts: Forecasts) -> list[dict[str, object]]:
    sample = seen.sample
    leads: dict[int, int] = {}
    has: dict[int, int] = {}
    for partitions in sample.topics.values():
        for each in partitions.values():
            leads[each.leader] = leads.get(each.leader, 0) + 1
            for node in each.replicas:
                has[node] = has.get(node, 0) + 1
    return [
        {
            "id": node,
            **asdict(each),
            "is_controller": node == sample.controller,
            "leads": leads.get(node, 0),
            "partitions": has.get(node, 0),
            "full_in_s": None if (full := forecasts[node]) is None else full.full_in_s,
        }
        for node, each in sample.brokers.items()
    ]


def findings(seen: Seen) -> list[Finding]:
    """Return what needs attention, the worst first."""
    rows = [group_row(seen, name, group) for name, group in sorted(seen.sample.groups.items())]
    return _findings(seen, rows, _forecasts(seen))


def _findings(seen: Seen, groups: Iterable[Mapping[str, object]], forecasts: Forecasts) -> list[Finding]:
    found = [*_of_partitions(seen.sample), *_of_groups(seen, groups), *_of_disks(seen, forecasts)]
    found += [Finding("warn", "Something did not answer", each, "/brokers") for each in seen.sample.partial]
    return sorted(found, key=lambda each: each.severity != "bad")[:FINDINGS_MAX]


def _of_partitions(sample: Sample) -> Iterable[Finding]:
    for topic, partitions in sorted(sample.topics.items()):
        lost = [index for index, each in partitions.items() if each.leader < 0]
        behind = [index for index, each in partitions.items() if len(each.in_sync) < len(each.replicas)]
        link = f"/topics/{topic}/partitions"
        if lost:
            text = f"Nothing can be read from or written to partition {_named(lost)}: no copy of it is alive."
            yield Finding("bad", f"{topic} has partitions without a leader", text, link)
        elif behind:
            text = f"Copies of partition {_named(behind)} are not in sync."
            yield Finding("warn", f"{topic} has copies that are behind", text, link)


def _named(indexes: list[int]) -> str:
    more = f" and {len(indexes) - 5} more" if len(indexes) > 5 else ""
    return ", ".join(map(str, indexes[:5])) + more


def _of_groups(seen: Seen, rows: Iterable[Mapping[str, object]]) -> Iterable[Finding]:
    for row in rows:
        why = _why(seen, row, None)
        if why is not None:
            name = str(row["name"])
            is_empty = seen.sample.groups[name].state.upper() in ("EMPTY", "DEAD")
            title = f"{name} has nobody who reads" if is_empty else f"{name} falls behind"
            yield Finding("warn" if is_empty else "bad", title, why, f"/groups/{name}")


def _of_disks(seen: Seen, forecasts: Forecasts) -> Iterable[Finding]:
    for node, each in seen.sample.brokers.items():
        if each.total_bytes <= 0:
            continue
        left = each.usable_bytes / each.total_bytes
        full = forecasts[node]
        soon = (
            ""
            if full is None
            else f" At the pace of the last {_span(full.seen_s)} it is full in {_span(full.full_in_s)}."
        )
        is_soon = full is not None and full.full_in_s < FULL_SECONDS_LOW
        if left < DISK_SHARE_LOW or is_soon:
            is_bad = left < DISK_SHARE_LOW / 3 or (full is not None and full.full_in_s < FULL_SECONDS_LOW / 12)
            text = f"{left:.0%} of its disk is free.{soon} Shorten retention, move partitions, or add a disk."
            yield Finding("bad" if is_bad else "warn", f"Broker {node} runs out of disk", text, "/brokers")


def _span(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"


@dataclass(frozen=True, slots=True)
class Summary:
    """The first page's figures, and what needs attention."""

    figures: Mapping[str, object]
    findings: tuple[Finding, ...]

    def with_findings(self, also: Iterable[Finding] = ()) -> dict[str, object]:
        """Return the first page: a verdict, the key figures, what needs attention, brokers and the groups with lag.

        `also` are findings from elsewhere, which come first.
        """
        found = [*also, *self.findings]
        return {"verdict": _verdict(found), **self.figures, "findings": [asdict(each) for each in found]}


def overview(seen: Seen) -> Summary:
    """Return what the first page is made of; each group is looked at once."""
    sample, forecasts = seen.sample, _forecasts(seen)
    groups = group_rows(seen)
    copies = sum(len(each.replicas) for partitions in sample.topics.values() for each in partitions.values())
    in_sync = sum(len(each.in_sync) for partitions in sample.topics.values() for each in partitions.values())
    rates = topic_rates(sample, seen.before)
    behind = [row for row in groups if row["lag"]]
    totals = [each for each in sample.brokers.values() if each.total_bytes > 0]
    figures = {
        "cluster_id": sample.cluster_id,
        "brokers": _broker_rows(seen, forecasts),
        "racks": len({each.rack for each in sample.brokers.values() if each.rack}),
        "topics": len(sample.topics),
        "is_empty": sample.topics.keys() <= sample.internal,
        "partitions": sum(map(len, sample.topics.values())),
        "in_per_s": sum(rates.values()) if rates else None,
        "consumed_per_s": _sum(row["consumed_per_s"] for row in groups),
        "copies": copies,
        "copies_out_of_sync": copies - in_sync,
        "lag": sum(int(str(row["lag"])) for row in behind),
        "groups_with_lag": [with_recent(seen, each) for each in behind[:8]],
        "groups": len(groups),
        "bytes": sum(each.bytes for each in sample.brokers.values() if each.bytes > 0),
        "disk_total": sum(each.total_bytes for each in totals) or None,
        "disk_free": sum(each.usable_bytes for each in totals) if totals else None,
    }
    by_name = sorted(groups, key=lambda row: str(row["name"]))
    return Summary(figures, tuple(_findings(seen, by_name, forecasts)))


class KeptSummary:
    """The summary of the newest sample: made once, whoever asks for it how often."""

    def __init__(self) -> None:
        self._of: Sample | None = None
        self._summary: Summary | None = None

    def of(self, seen: Seen) -> Summary:
        """Return a sample's summary."""
        if self._summary is None or seen.sample is not self._of:
            self._of, self._summary = seen.sample, overview(seen)
        return self._summary


def _sum(values: Iterable[object]) -> float | None:
    known = [each for each in values if isinstance(each, int | float)]
    return sum(known) if known else None


NUMBERS: Mapping[int, str] = {
    1: "One thing needs",
    2: "Two things need",
    3: "Three things need",
    4: "Four things need",
    5: "Five things need",
}


def _verdict(found: list[Finding]) -> str:
    if not found:
        return "Working."
    count = NUMBERS.get(len(found), f"{len(found)} things need")
    lost = any("without a leader" in each.title for each in found)
    return f"{'Parts cannot be reached' if lost else 'Working'}. {count} attention."

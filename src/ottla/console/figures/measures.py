"""The figures that an alert's condition may ask for, of what a sampler has seen. Pure.

A figure that is not known is None: a condition that needs it neither holds nor fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.console.figures.samples import flow_rates, group_lags
from ottla.console.figures.views import Seen, disk_forecast, findings, group_row
from ottla.sql import Measure

__all__ = ["FIGURES", "FIGURES_SAID"]

Texts = tuple[str, ...]


def _group(seen: Seen, texts: Texts, field: str) -> object:
    """One field of a group's row; of all groups the largest, where none is named."""
    groups = seen.sample.groups
    names = texts or tuple(groups)
    found = [group_row(seen, name, groups[name])[field] for name in names if name in groups]
    if texts:
        return found[0] if found else None
    numbers = [each for each in found if isinstance(each, int | float)]
    return max(numbers, default=0)


def _lag(seen: Seen, texts: Texts) -> object:
    if texts:
        return _group(seen, texts, "lag")
    lags = (group_lags(seen.sample, group).values() for group in seen.sample.groups.values())
    return max((sum(each or 0 for each in of_group) for of_group in lags), default=0)


def _time_lag(seen: Seen, texts: Texts) -> object:
    found = _group(seen, texts, "lag_ms")
    return found / 1000 if isinstance(found, int | float) else None


def _consumed(seen: Seen, texts: Texts) -> object:
    return _group(seen, texts, "consumed_per_s") if texts else None


def _state(seen: Seen, texts: Texts) -> object:
    found = _group(seen, texts, "state") if texts else None
    return None if found is None else str(found).upper()


def _written(seen: Seen, texts: Texts) -> object:
    if texts and texts[0] not in seen.sample.topics:
        return None
    return seen.history.newest(f"in/{texts[0]}" if texts else "in")


def _bytes(seen: Seen, texts: Texts) -> object:
    sizes = seen.sample.sizes
    return sizes.get(texts[0]) if texts else sum(sizes.values())


def _written_bytes(seen: Seen, texts: Texts) -> object:
    rates = flow_rates(seen.sample)
    if rates is None:
        return None
    return sum(each.bytes_in for each in rates if not texts or each.flow.topic == texts[0])


def _disk_free(seen: Seen, texts: Texts) -> object:
    """The share of a disk that is free, from 0 to 1: of a broker, or of the fullest."""
    shares = {
        str(node): each.usable_bytes / each.total_bytes
        for node, each in seen.sample.brokers.items()
        if each.total_bytes > 0
    }
    return shares.get(texts[0]) if texts else min(shares.values(), default=None)


def _without_leader(seen: Seen, texts: Texts) -> object:
    return _partitions(seen, texts, lambda each: each.leader < 0)


def _not_in_sync(seen: Seen, texts: Texts) -> object:
    return _partitions(seen, texts, lambda each: len(each.in_sync) < len(each.replicas))


def _partitions(seen: Seen, texts: Texts, counts: object) -> object:
    assert callable(counts)
    topics = seen.sample.topics
    if texts and texts[0] not in topics:
        return None
    chosen = [topics[texts[0]]] if texts else list(topics.values())
    return sum(bool(counts(each)) for partitions in chosen for each in partitions.values())


def _brokers(seen: Seen, texts: Texts) -> object:
    return len(seen.sample.brokers)


def _findings(seen: Seen, texts: Texts) -> object:
    return sum(not texts or each.severity == texts[0] for each in findings(seen))


def _disk_full_in(seen: Seen, texts: Texts) -> object:
    """Seconds until a disk is full at the pace of the last day: of a broker, or of the first; nothing where it is not."""
    nodes = [node for node in seen.sample.brokers if not texts or str(node) == texts[0]]
    found = [each.full_in_s for node in nodes if (each := disk_forecast(seen, node)) is not None]
    return min(found) if found else None


FIGURES: Mapping[str, tuple[Measure, int]] = {
    "lag": (_lag, 1),
    "time_lag": (_time_lag, 1),
    "consumed": (_consumed, 1),
    "state": (_state, 1),
    "written": (_written, 1),
    "written_bytes": (_written_bytes, 1),
    "bytes": (_bytes, 1),
    "disk_free": (_disk_free, 1),
    "disk_full_in": (_disk_full_in, 1),
    "without_leader": (_without_leader, 1),
    "not_in_sync": (_not_in_sync, 1),
    "brokers": (_brokers, 0),
    "findings": (_findings, 1),
}
FIGURES_SAID: Mapping[str, str] = {
    "lag('GROUP')": "records that a group has still to read; lag() of the group that is furthest behind",
    "time_lag('GROUP')": "seconds since the oldest of them was written",
    "consumed('GROUP')": "records a second that a group reads",
    "state('GROUP')": "a group's state in capitals: 'STABLE', 'EMPTY', …",
    "written('TOPIC')": "records a second that come into a topic; written() into all",
    "written_bytes('TOPIC')": "bytes a second that clients write (brokers of Ottla)",
    "bytes('TOPIC')": "bytes of all its copies; bytes() of all topics",
    "disk_free('BROKER')": "the share of its disk that is free, 0 to 1; disk_free() of the fullest",
    "disk_full_in('BROKER')": "seconds until its disk is full at the pace of the last day; disk_full_in() of the first",
    "without_leader('TOPIC')": "partitions without a leader; without_leader() of all topics",
    "not_in_sync('TOPIC')": "partitions with copies that are behind; not_in_sync() of all topics",
    "brokers()": "brokers that are there",
    "findings('bad')": "what needs attention, as the overview says it: 'bad' or 'warn'; findings() of both",
}

"""The `range` assignor: every topic is split into equal ranges among its subscribers, and moves little.

Topics with as many partitions and the same subscribers are split alike, so that partition 7 of one and partition 7 of the
other meet at one member: their records can be joined there. A member keeps what it has up to its share.
"""

from __future__ import annotations

from ottla.base import Uuid
from ottla.groups.consumer.assignment import Assignment, Subscriptions

__all__ = ["assign_range"]

Held = dict[str, dict[Uuid, list[int]]]


def assign_range(asked: Subscriptions) -> Assignment:
    """Return an assignment in which co-partitioned topics are split alike."""
    held: Held = {member_id: dict(asked.kept(member_id)) for member_id in asked.members}
    found: Assignment = {member_id: {} for member_id in asked.members}
    for (count, subscribers), topics in _co_partitioned(asked).items():
        pattern = max(topics, key=lambda topic_id: sum(len(held[each].get(topic_id, ())) for each in subscribers))
        split = _split({each: held[each].get(pattern, []) for each in subscribers}, count)
        for member_id, partitions in split.items():
            if partitions:
                found[member_id].update({topic_id: set(partitions) for topic_id in topics})
    return found


def _co_partitioned(asked: Subscriptions) -> dict[tuple[int, tuple[str, ...]], list[Uuid]]:
    """Return the topics that are split alike, by their number of partitions and their subscribers."""
    found: dict[tuple[int, tuple[str, ...]], list[Uuid]] = {}
    for topic_id, subscribers in asked.subscribers().items():
        if subscribers:
            found.setdefault((asked.partitions[topic_id], tuple(subscribers)), []).append(topic_id)
    return found


def _split(held: dict[str, list[int]], count: int) -> dict[str, list[int]]:
    """Return each subscriber's partitions: first what it has already, then runs of what is left over."""
    share, extras = divmod(count, len(held))
    free = set(range(count))
    split: dict[str, list[int]] = {}
    for member_id, partitions in held.items():
        kept = [each for each in partitions if each in free]
        allowed = share + (1 if len(kept) > share and extras > 0 else 0)
        extras -= allowed - share
        split[member_id] = kept[:allowed]
        free.difference_update(kept[:allowed])
    left = sorted(free)
    for partitions in split.values():
        wanted = share - len(partitions)
        if extras > 0 and wanted >= 0:
            wanted += 1
            extras -= 1
        if wanted > 0:
            partitions += left[:wanted]
            del left[:wanted]
    assert not left
    return split

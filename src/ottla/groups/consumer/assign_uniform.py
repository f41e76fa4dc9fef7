"""The `uniform` assignor: every member holds as many partitions as the others, within one, and as few as possible move.

Where all members ask for the same topics, that is reached exactly. Where they do not, no partition could go to another
subscriber of its topic that has two fewer: members that ask for little stay behind those that ask for much.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace

from ottla.base import Uuid
from ottla.groups.consumer.assignment import Assignment, Subscriptions

__all__ = ["assign_uniform"]

ROUNDS_MAX = 64
"""Walks over all topics to even out members with different subscriptions; each one makes the rest smaller."""


def assign_uniform(asked: Subscriptions) -> Assignment:
    """Return an even assignment."""
    found, free = _what_they_have(asked)
    if not found:
        return found
    if asked.is_homogeneous:
        _deal_shares(asked, found, free)
    else:
        _deal_to_the_least(asked, found, free)
        _even_out(asked, found)
    return found


def _what_they_have(asked: Subscriptions) -> tuple[Assignment, dict[Uuid, list[int]]]:
    """Return what members have of the target so far, and the partitions that nobody has."""
    free = {topic_id: set(range(asked.partitions[topic_id])) for topic_id in sorted(asked.partitions)}
    found: Assignment = {}
    for member_id in asked.members:
        mine: dict[Uuid, set[int]] = {}
        for topic_id, partitions in asked.kept(member_id):
            mine[topic_id] = free[topic_id].intersection(partitions)
            free[topic_id] -= mine[topic_id]
        found[member_id] = mine
    return found, {topic_id: sorted(partitions) for topic_id, partitions in free.items() if partitions}


def _size(partitions: dict[Uuid, set[int]]) -> int:
    return sum(map(len, partitions.values()))


def _deal_shares(asked: Subscriptions, found: Assignment, free: dict[Uuid, list[int]]) -> None:
    """Cut everyone back to a share, then deal what is free in turns, topic after topic, so that topics spread too."""
    share, extras = divmod(sum(asked.partitions.values()), len(found))
    for mine in found.values():
        size = _size(mine)
        allowed = share + (1 if size > share and extras > 0 else 0)
        extras -= allowed - share
        for topic_id, partition in _to_give_up(mine, size - allowed):
            mine[topic_id].remove(partition)
            free.setdefault(topic_id, []).append(partition)
    hungry: deque[tuple[str, int]] = deque()
    for member_id, mine in found.items():
        wanted = share - _size(mine)
        if extras > 0 and wanted >= 0:
            wanted += 1
            extras -= 1
        if wanted > 0:
            hungry.append((member_id, wanted))
    for topic_id in sorted(free):
        for partition in sorted(free[topic_id]):
            member_id, wanted = hungry.popleft()
            found[member_id].setdefault(topic_id, set()).add(partition)
            if wanted > 1:
                hungry.append((member_id, wanted - 1))
    assert not hungry


def _to_give_up(mine: dict[Uuid, set[int]], count: int) -> list[tuple[Uuid, int]]:
    """Return so many partitions of a member: each time the last one of the topic that it has most of then."""
    if not count:
        return []
    piles = {topic_id: sorted(partitions) for topic_id, partitions in mine.items()}
    most = [(-len(piles[topic_id]), place, topic_id) for place, topic_id in enumerate(sorted(mine, reverse=True))]
    heapify(most)
    found = []
    for _ in range(count):
        size, place, topic_id = most[0]
        found.append((topic_id, piles[topic_id].pop()))
        heapreplace(most, (size + 1, place, topic_id))
    return found


def _deal_to_the_least(asked: Subscriptions, found: Assignment, free: dict[Uuid, list[int]]) -> None:
    """Give each free partition to the subscriber that has least; topics with few subscribers come first."""
    subscribers = asked.subscribers()
    loads = {member_id: _size(mine) for member_id, mine in found.items()}
    for topic_id in sorted(free, key=lambda each: (len(subscribers[each]), each)):
        if not subscribers[topic_id]:
            continue
        order = {member_id: place for place, member_id in enumerate(subscribers[topic_id])}
        heap = [(loads[member_id], order[member_id], member_id) for member_id in order]
        heapify(heap)
        for partition in free[topic_id]:
            load, place, member_id = heap[0]
            found[member_id].setdefault(topic_id, set()).add(partition)
            loads[member_id] = load + 1
            heapreplace(heap, (load + 1, place, member_id))


def _even_out(asked: Subscriptions, found: Assignment) -> None:
    """Move partitions between subscribers of a topic while one has two more than another."""
    loads = {member_id: _size(mine) for member_id, mine in found.items()}
    topics = [(topic_id, members) for topic_id, members in asked.subscribers().items() if len(members) > 1]
    for _ in range(ROUNDS_MAX):
        moved = sum(_even_out_topic(found, loads, topic_id, members) for topic_id, members in topics)
        if not moved:
            return


def _even_out_topic(found: Assignment, loads: dict[str, int], topic_id: Uuid, members: list[str]) -> int:
    """Return how many partitions of a topic were moved; every move makes the sum of the squares of loads smaller."""
    piles = {each: [-partition for partition in found[each].get(topic_id, ())] for each in members}
    for pile in piles.values():
        heapify(pile)
    givers = [(-loads[each], place, each) for place, each in enumerate(members)]
    takers = [(loads[each], place, each) for place, each in enumerate(members)]
    heapify(givers)
    heapify(takers)
    for moved in range(sum(map(len, piles.values())) + 1):
        while givers and (-givers[0][0] != loads[givers[0][2]] or not piles[givers[0][2]]):
            heappop(givers)
        while takers[0][0] != loads[takers[0][2]]:
            heappop(takers)
        if not givers or -givers[0][0] - takers[0][0] < 2:
            return moved
        (_, giver_place, giver), (_, taker_place, taker) = givers[0], takers[0]
        partition = -heappop(piles[giver])
        heappush(piles[taker], -partition)
        found[giver][topic_id].remove(partition)
        found[taker].setdefault(topic_id, set()).add(partition)
        for each, place, change in ((giver, giver_place, -1), (taker, taker_place, 1)):
            loads[each] += change
            heappush(givers, (-loads[each], place, each))  # what was there of them is passed over
            heappush(takers, (loads[each], place, each))
    return moved

"""What an assignor is given and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base import Uuid
from ottla.groups.consumer.member import Target

__all__ = ["Assignment", "Subscriptions"]

Assignment = dict[str, dict[Uuid, set[int]]]
"""Member id -> topic id -> partitions."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Who asks for which topics: `members` in the order in which they are served.

    `partitions` has every topic that any member asks for, with its number of partitions. `target` is the target
    assignment so far; it may name members and partitions that are no more.
    """

    members: Mapping[str, frozenset[Uuid]]
    partitions: Mapping[Uuid, int]
    target: Mapping[str, Target]

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members ask for the same topics."""
        topics = iter(self.members.values())
        first = next(topics, None)
        return all(each == first for each in topics)

    def subscribers(self) -> dict[Uuid, list[str]]:
        """Return the members that ask for each topic, in order; topics by id."""
        found: dict[Uuid, list[str]] = {topic_id: [] for topic_id in sorted(self.partitions)}
        for member_id, topics in self.members.items():
            for topic_id in topics:
                found[topic_id].append(member_id)
        return found

    def kept(self, member_id: str) -> Iterable[tuple[Uuid, list[int]]]:
        """Yield (topic id, partitions in order) of a member's target that still exist and that it still asks for."""
        wanted = self.members[member_id]
        target = self.target.get(member_id)
        for topic_id, partitions in sorted(target.items()) if target is not None else ():
            if topic_id in wanted:
                count = self.partitions[topic_id]
                yield topic_id, sorted(each for each in partitions if each < count)

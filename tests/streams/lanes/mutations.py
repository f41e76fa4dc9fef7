"""Faults that lanes, hosts and their driver had, put back: the worlds must find each.

A host that has its id back though it was given up is found in one of some hundred worlds only: it has tests of its own
(`tests/streams/continuous/test_lane_orders.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.spark.continuous import fetching, restoring
from ottla.spark.continuous.lane import Lane
from ottla.streams import StreamsWork
from tests.sim.mutations import Mutation, Surgeon
from tests.streams.lanes.driver import Driver
from tests.streams.lanes.world import run_world

__all__ = ["FIRST", "MUTATIONS", "WORLDS", "found_in"]

WORLDS = 200
"""In so many worlds each is found."""
FIRST = 1_000
KIND = "lanes"


def found_in(mutation: Mutation, worlds: int = WORLDS, first: int = FIRST) -> tuple[int, str] | None:
    """Return in how many worlds a mutation is found, and what was seen; None where it is not."""
    with mutation.applied():
        for number in range(worlds):
            try:
                run_world(first + number)
            except AssertionError as error:
                return number + 1, str(error)
    return None


def _sends_only_what_is_here(surgeon: Surgeon) -> None:
    async def gather(self: Any, made: Iterable[Any]) -> None:
        for work, each in made:
            if self.works.get(work.name) is work:
                changelogs, produced, partition = work.group.changelogs, work.produced, work.name.partition
                work.counts.poison += await self._writer.gather(work.plan, partition, changelogs, each, produced)

    surgeon.put(Lane, "_gather", gather)


def _keeps_what_it_is_told_to_let_go(surgeon: Surgeon) -> None:
    def revoke(self: Any, works: Iterable[StreamsWork]) -> None:
        wanted = set(works)
        for name in wanted & self._restoring.keys():
            self._restoring.pop(name).cancel()
        gone = wanted - self.works.keys()
        if gone:
            self._listener.on_released(gone)
        self._leaving |= wanted & self.works.keys()
        self.wake()

    surgeon.put(Lane, "revoke", revoke)


def _tells_of_failures_at_once(surgeon: Surgeon) -> None:
    real = Lane._tell_failed

    def tell(self: Any, *, whole: bool = False) -> None:
        real(self, whole=True)

    surgeon.put(Lane, "_tell_failed", tell)


def _fences_no_commits_at_least_once(surgeon: Surgeon) -> None:
    surgeon.put(Driver, "renew", lambda self, name: None)


def _takes_late_notes_for_new_ones(surgeon: Surgeon) -> None:
    surgeon.put(Driver, "is_as_given", lambda self, work, number: True)


def _begins_before_all_is_let_go(surgeon: Surgeon) -> None:
    surgeon.put(Driver, "has_let_go", lambda self, name: True)


def _knows_topics_by_name(surgeon: Surgeon) -> None:
    surgeon.put(fetching, "_of_another_topic", lambda stream, fetched: None)
    surgeon.put(restoring, "_check_same", lambda place, wanted, found: None)


MUTATIONS = {
    each.name: each
    for each in (
        Mutation(
            "gone-works-unsent",
            "positions are taken before a commit's awaits, and works that are removed in between are not sent",
            KIND,
            _sends_only_what_is_here,
        ),
        Mutation(
            "kept-works",
            "a host that goes back keeps a work that it was told to let go meanwhile",
            KIND,
            _keeps_what_it_is_told_to_let_go,
        ),
        Mutation(
            "early-failures",
            "works that have failed are told while a commit has their positions",
            KIND,
            _tells_of_failures_at_once,
        ),
        Mutation(
            "unfenced-commits",
            "at least once a host that is cut off and has not noticed moves offsets back",
            KIND,
            _fences_no_commits_at_least_once,
        ),
        Mutation(
            "late-notes",
            "that a work was let go is heard when it was given again, and another host has it, too",
            KIND,
            _takes_late_notes_for_new_ones,
        ),
        Mutation(
            "early-beginnings",
            "an application begins again, and chooses its offsets, while a host still commits for it",
            KIND,
            _begins_before_all_is_let_go,
        ),
        Mutation(
            "topics-by-name",
            "a source that was made again is read on from the old offset",
            KIND,
            _knows_topics_by_name,
        ),
    )
}

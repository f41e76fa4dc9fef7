"""Faults that a mirror had or could have, to be put back: the machine finds each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ottla.base import ZERO_UUID, Offset, TopicPartition, Uuid
from ottla.client import EARLIEST, Fetched
from ottla.mirror import offset_syncs, source_task
from ottla.mirror.offset_syncs import SyncPlan
from ottla.mirror.source_task import MirrorSourceTask
from tests.mirror.machine.run import Case, checked

__all__ = ["MUTATIONS", "SEEDS_MAX", "Mutation"]

SEEDS_MAX = 400
"""So many schedules are enough to find each."""
Put = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """A fault, as what stands in whose place."""

    name: str
    puts: Callable[[], list[Put]]
    seed: int
    """A schedule that has found it."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the fault until the block ends."""
        with ExitStack() as stack:
            for owner, name, new in self.puts():
                stack.enter_context(patch.object(owner, name, new))
            yield

    def found(self) -> tuple[Case, str] | None:
        """Return the first schedule that finds it, and what that says; None where none does."""
        with self.made():
            for seed in (self.seed, *range(SEEDS_MAX)):
                try:
                    said, _ = checked(Case(seed))
                except Exception as error:  # a task that fails altogether is found, too
                    said = repr(error)
                if said is not None:
                    return Case(seed), said
        return None


def _discards_others() -> list[Put]:
    """One partition's failed reset throws away what the others' answers held, whose positions have moved."""
    before = MirrorSourceTask._answered

    def answered(task: MirrorSourceTask, answer: Fetched) -> Any:
        if answer.error.name == "OFFSET_OUT_OF_RANGE":
            task._go_to_reset([answer.partition])
            return []
        return before(task, answer)

    return [(MirrorSourceTask, "_answered", answered)]


def _by_name() -> list[Put]:
    """A topic that was made again passes for the one that had its name."""
    return [(MirrorSourceTask, "_is_made_again", lambda _task, _answer: False)]


def _forgets_ids() -> list[Put]:
    """Ids are known while the task runs, and not stored with offsets."""
    return [(source_task, "source_offset", lambda offset, _topic_id: {"offset": offset})]


def _trusts_the_first_answer() -> list[Put]:
    """A partition's beginning is looked up without its topic's id: the first answer may be another topic's."""
    before = MirrorSourceTask._go_to_reset

    def go_to_reset(task: MirrorSourceTask, places: Sequence[TopicPartition]) -> None:
        before(task, places)
        task._ids |= dict.fromkeys(places, ZERO_UUID)

    return [(MirrorSourceTask, "_go_to_reset", go_to_reset)]


def _ids_afterwards() -> list[Put]:
    """The topic's id is asked for behind its beginning, not before: it may be another topic's by then."""

    def go_to_reset(task: MirrorSourceTask, places: Sequence[TopicPartition]) -> None:
        assert task._reading is not None
        found = task._reading.list_offsets(dict.fromkeys(places, EARLIEST), isolation=task._isolation)
        topics = task._reading.metadata(sorted({each.topic for each in places}))
        ids: dict[TopicPartition, Uuid] = {each: topics.topic_id(each.topic) for each in places}
        task._positions |= {place: each.offset for place, each in found.items()}
        task._ids |= ids
        task._new -= found.keys()

    return [(MirrorSourceTask, "_go_to_reset", go_to_reset)]


def _waits_for_all() -> list[Put]:
    """A partition without a leader keeps all others waiting."""
    before = MirrorSourceTask._look

    def look(task: MirrorSourceTask) -> None:
        before(task)
        task._absent = set()

    return [(MirrorSourceTask, "_look", look)]


def _loses_new() -> list[Put]:
    """What a poll has begun is forgotten where the poll fails later on."""
    before = MirrorSourceTask._fetched

    def fetched(task: MirrorSourceTask) -> Any:
        positions = dict(task._positions)
        try:
            return before(task)
        except Exception:
            task._positions = positions
            raise

    return [(MirrorSourceTask, "_fetched", fetched)]


def _reads_aborted() -> list[Put]:
    """Records of aborted transactions are told."""
    before = MirrorSourceTask._between

    def between(task: MirrorSourceTask, place: Any, data: Any, start: Any, _aborted: Any) -> Any:
        return before(task, place, data, start, ())

    return [(MirrorSourceTask, "_between", between)]


def _whole_from_before() -> list[Put]:
    """A large batch travels whole although it begins before the position."""
    before = source_task._is_whole
    return [(source_task, "_is_whole", lambda header, _start: before(header, None))]


def _tells_no_last() -> list[Put]:
    """What was kept back of syncs is never told."""
    return [(SyncPlan, "take_pending", lambda _plan: {})]


def _guesses() -> list[Put]:
    """A group's offset is translated as if nothing lay between the records on the target."""

    def translated(slots: Any, upstream: int) -> Offset | None:
        if slots is None:
            return None
        sync = next((each for each in slots if each.upstream <= upstream), slots[-1])
        return Offset(sync.downstream + 2 * (upstream - sync.upstream))

    return [(offset_syncs, "translated", translated)]


_SOURCES: Mapping[str, tuple[Callable[[], list[Put]], int]] = {
    "a failed reset discards the others' records": (_discards_others, 51),
    "a topic made again passes for the old one": (_by_name, 3),
    "ids are not stored with offsets": (_forgets_ids, 17),
    "a beginning is looked up without an id": (_trusts_the_first_answer, 117),
    "the id is asked for behind the beginning": (_ids_afterwards, 2372),
    "one partition without a leader stops all": (_waits_for_all, 3),
    "a poll that fails forgets what it began": (_loses_new, 33),
    "records of aborted transactions are told": (_reads_aborted, 9),
    "a batch from before the position travels whole": (_whole_from_before, 12),
    "translation goes beyond what was told": (_guesses, 0),
    "syncs that were kept back are never told": (_tells_no_last, 0),
}
MUTATIONS = tuple(Mutation(name, puts, seed) for name, (puts, seed) in _SOURCES.items())

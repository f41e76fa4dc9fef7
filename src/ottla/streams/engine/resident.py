"""State that stays decoded in memory from batch to batch, in a process that is a task's for as long as the task lives.

Nothing of a store is encoded at the end of a batch: what is lost with the process is read again from the changelogs, and
from what `saved` returned at some time, where somebody has kept that. What a
task remembers besides stores (stream times, when schedules are due) is one small blob, which whoever commits offsets keeps
beside them: `kept_memory` is what of it changelogs do not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ottla.base import plain_bytes, plain_value

__all__ = ["TASK_BLOB", "ResidentState", "kept_memory", "memory_over", "task_memory"]

TASK_BLOB = "task"
"""What a task remembers besides its stores: (stream time, integers by node and name), as plain bytes."""
_TOLD = frozenset({"count", "bytes", "left", "right"})
"""What stores count of what they hold: told by the changelog, record by record."""
_STORE = "store "


class _KeptBlocks(Protocol):
    """A store's blocks, which stay where they are."""

    @property
    def store(self) -> str:
        """Whose they are."""
        ...

    @property
    def loaded(self) -> int:
        """How many entries are decoded."""
        ...

    def saved(self) -> Iterator[tuple[str, bytes]]:
        """Yield the blobs that hold all entries."""
        ...


class ResidentState:
    """A `StateBackend` of a task that lives on: blocks of its stores stay where they are."""

    def __init__(self, memory: bytes | None = None, blobs: Mapping[str, bytes] | None = None) -> None:
        """`memory` is what `kept_memory` returned where the task stood before, `blobs` what `saved` did."""
        self._blobs: dict[str, bytes] = dict(blobs or {})
        if memory is not None:
            self._blobs[TASK_BLOB] = memory
        self._kept: list[_KeptBlocks] = []

    def keep(self, blocks: _KeptBlocks) -> None:
        """Note blocks that stay where they are: `saved` asks them."""
        self._kept.append(blocks)

    def take(self, blob: str) -> bytes | None:
        """Return a blob, and hold it no longer: its entries are decoded from now on."""
        return self._blobs.pop(blob, None)

    def entries(self, store: str) -> int:
        """Return how many entries of a store are decoded."""
        return sum(each.loaded for each in self._kept if each.store == store)

    def saved(self) -> dict[str, bytes]:
        """Return everything as of the last batch, as blobs that another `ResidentState` begins with."""
        found = dict(self._blobs)
        for each in self._kept:
            found.update(each.saved())
        return found

    def get(self, blob: str) -> bytes | None:
        """Return a blob; nothing of a store that was not put."""
        return self._blobs.get(blob)

    def put(self, blob: str, data: bytes | None) -> None:
        """Set a blob; None removes it."""
        if data is None:
            self._blobs.pop(blob, None)
        else:
            self._blobs[blob] = data

    @property
    def memory(self) -> bytes | None:
        """What the task remembers besides its stores, as of its last batch; None before the first."""
        return self._blobs.get(TASK_BLOB)


def kept_memory(memory: bytes) -> bytes:
    """Return a task's memory without what stores tell again when they are restored from their changelogs.

    Raises ValueError for what is no task's memory.
    """
    stream_time, by_name = task_memory(memory)
    kept = {
        name: {key: number for key, number in found.items() if not (name.startswith(_STORE) and key in _TOLD)}
        for name, found in by_name.items()
    }
    return plain_bytes((stream_time, {name: found for name, found in kept.items() if found}))


def task_memory(memory: bytes) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return the stream time and the integers by node and name; raises ValueError for what is no task's memory.

    It stands beside offsets, where whoever may commit for the group writes it: it is looked at before it is believed.
    """
    found = plain_value(memory)
    if (
        not isinstance(found, tuple)
        or len(found) != 2
        or not isinstance(found[0], int)
        or not isinstance(found[1], dict)
    ):
        raise ValueError("no task's memory")
    for name, numbers in found[1].items():
        if not isinstance(name, str) or not isinstance(numbers, dict):
            raise ValueError("no task's memory")
        if not all(isinstance(key, str) and isinstance(number, int) for key, number in numbers.items()):
            raise ValueError("no task's memory")
    return found[0], found[1]


def memory_over(saved: Mapping[str, bytes], committed: bytes | None) -> bytes | None:
    """Return what a task remembers that begins with what `ResidentState.saved` returned, and stood elsewhere since.

    `committed` is what `kept_memory` returned at that later place: it counts for all but what stores count of what they
    hold, which goes on from the saved state as changelogs are restored. Raises as `kept_memory`.
    """
    before = saved.get(TASK_BLOB)
    if before is None or committed is None:
        return before or committed
    stream_time, by_name = task_memory(committed)
    for name, found in task_memory(before)[1].items():
        if name.startswith(_STORE):
            told = {key: number for key, number in found.items() if key in _TOLD}
            by_name[name] = {**by_name.get(name, {}), **told}
    return plain_bytes((stream_time, by_name))

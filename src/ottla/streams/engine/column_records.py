"""What goes into an executor, and what comes out of it, as columns; numpy and PyArrow are not imported for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.streams.engine.interface import Headers, Output, Record, StoreChange

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["BlockRecords", "ChangeColumns", "OutputColumns"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockRecords:
    """Records at a source, in the order in which they are to be processed; keys and values are bytes."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    times: NDArray[np.int64]
    """Milliseconds."""
    headers: list[Headers] | None
    """None where no record has any."""
    place: Callable[[int], tuple[str, int, int]]
    """Returns a row's topic, partition and offset."""
    records: Callable[[], list[Record]]
    """Returns the same as records."""

    def __len__(self) -> int:
        return len(self.times)

    def record(self, row: int) -> Record:
        """Return one of them."""
        headers = () if self.headers is None else self.headers[row]
        key, value = self.keys[row].as_py(), self.values[row].as_py()
        return Record(key, value, int(self.times[row]), headers, *self.place(row))


@dataclass(frozen=True, slots=True, eq=False)
class OutputColumns:
    """Records that leave for one topic, as `Output` says it of one."""

    target: str
    topic: str
    keys: pa.BinaryArray
    values: pa.BinaryArray
    times: NDArray[np.int64]
    headers: list[Headers] | None = None

    def __len__(self) -> int:
        return len(self.times)

    def outputs(self) -> list[Output]:
        """Return them one by one."""
        headers = self.headers if self.headers is not None else [()] * len(self)
        rows = zip(self.keys.to_pylist(), self.values.to_pylist(), self.times.tolist(), headers, strict=True)
        return [Output(self.target, self.topic, key, value, time, own) for key, value, time, own in rows]


@dataclass(frozen=True, slots=True, eq=False)
class ChangeColumns:
    """Changes of one store, as `StoreChange` says it of one."""

    store: str
    keys: list[bytes]
    values: list[bytes | None]
    times: list[int]

    def __len__(self) -> int:
        return len(self.times)

    def changes(self) -> list[StoreChange]:
        """Return them one by one."""
        rows = zip(self.keys, self.values, self.times, strict=True)
        return [StoreChange(self.store, key, value, time) for key, value, time in rows]

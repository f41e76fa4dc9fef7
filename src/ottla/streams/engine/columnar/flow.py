"""Records between two steps of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ottla.streams.engine.columnar.values import Column
from ottla.streams.engine.interface import Headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Flow"]


class Flow:
    """Records between two steps; `origin` is the row of the block that each has come of, None where it is its own."""

    __slots__ = ("headers", "key", "origin", "times", "value")

    def __init__(
        self,
        key: Column,
        value: Column,
        times: NDArray[np.int64],
        headers: list[Headers] | None,
        origin: NDArray[np.int64] | None = None,
    ) -> None:
        self.key, self.value, self.times, self.headers, self.origin = key, value, times, headers, origin

    def __len__(self) -> int:
        return len(self.times)

    def of(self, key: Column, value: Column) -> Flow:
        """Return the same with other keys and values."""
        return Flow(key, value, self.times, self.headers, self.origin)

    def spread(self, rows: NDArray[np.int64], key: Column, value: Column) -> Flow:
        """Return keys and values of their own that some rows have come to, each as often as it is named."""
        headers = None if self.headers is None else [self.headers[row] for row in rows.tolist()]
        origin = rows if self.origin is None else self.origin[rows]
        return Flow(key, value, self.times[rows], headers, origin)

    def take(self, rows: NDArray[np.int64]) -> Flow:
        """Return some rows."""
        return self.spread(rows, self.key.take(rows), self.value.take(rows))

    def where(self, kept: NDArray[np.bool_]) -> Flow:
        """Return the rows that are marked."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

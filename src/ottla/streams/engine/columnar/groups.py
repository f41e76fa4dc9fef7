"""The rows of a block by what they are aggregated under: one pass over arrays, however many groups there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Groups", "grouped", "key_codes"]

DENSE_TIMES = 4
"""Codes that are at most so many times as many as rows are counted in a table; more are sorted first."""
SUM_MAX = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups in the order in which their first rows came."""

    codes: NDArray[np.int64]
    """What each group is of."""
    of_row: NDArray[np.int64]
    """Each row's group."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    counts: NDArray[np.int64]
    latest: NDArray[np.int64]
    """The latest time of each."""

    @property
    def by_last(self) -> list[int]:
        """The groups in the order in which their last rows came."""
        return np.argsort(self.last).tolist()  # type: ignore[no-any-return]

    def counted(self, marks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many rows of each group are marked."""
        return np.bincount(self.of_row[marks], minlength=len(self.codes))

    def summed(self, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return each group's sum; None where one could be too large for 64 bits."""
        largest = max(abs(int(numbers.min(initial=0))), abs(int(numbers.max(initial=0))))
        if largest * max(1, len(numbers)) >= SUM_MAX:
            return None
        found = np.zeros(len(self.codes), np.int64)
        np.add.at(found, self.of_row, numbers)
        return found


def key_codes(keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return each key's code, and the keys by code, in the order in which they came first."""
    encoded = keys.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def grouped(codes: NDArray[np.int64], times: NDArray[np.int64]) -> Groups:
    """Group rows by code; codes are not negative."""
    count = len(codes)
    if not count:
        none = np.zeros(0, np.int64)
        return Groups(none, none, none, none, none, none)
    size = int(codes.max()) + 1
    known: NDArray[Any] | None = None
    if size > DENSE_TIMES * count + 1024:
        known, codes = np.unique(codes, return_inverse=True)
        size = len(known)
    rows = np.arange(count)
    first = np.full(size, count, np.int64)
    first[codes[::-1]] = rows[::-1]  # of rows with one code the last that is set stays
    present = np.flatnonzero(first < count)
    order = present[np.argsort(first[present])]
    place = np.empty(size, np.int64)
    place[order] = np.arange(len(order))
    of_row = place[codes]
    last = np.empty(len(order), np.int64)
    last[of_row] = rows
    if (times[1:] >= times[:-1]).all():
        latest = times[last]
    else:
        latest = np.full(len(order), np.iinfo(np.int64).min)
        np.maximum.at(latest, of_row, times)
    counts = np.bincount(of_row, minlength=len(order))
    return Groups(order if known is None else known[order], of_row, first[order], last, counts, latest)

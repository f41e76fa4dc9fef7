"""What is made once for a key, and kept for the keys asked for last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Kept"]

Key = TypeVar("Key")
Made = TypeVar("Made")


class Kept(Generic[Key, Made]):
    """Makes what it has not; beyond so many the one that was asked for longest ago goes."""

    def __init__(self, size: int, make: Callable[[Key], Made]) -> None:
        self._size, self._make = max(size, 1), make
        self._made: OrderedDict[Key, Made] = OrderedDict()

    def __getitem__(self, key: Key) -> Made:
        found = self._made.get(key)
        if found is None:
            found = self._make(key)
            self._made[key] = found
            while len(self._made) > self._size:
                self._made.popitem(last=False)
        else:
            try:
                self._made.move_to_end(key)
            except KeyError:  # another thread let it go meanwhile
                self._made[key] = found
        return found

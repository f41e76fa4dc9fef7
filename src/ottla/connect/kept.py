"""What is made for a schema once and kept for the schemas seen last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Kept"]

Key = TypeVar("Key")
Made = TypeVar("Made")


class Kept(Generic[Key, Made]):
    """A mapping that makes what it has not: so many at most, and the oldest goes."""

    def __init__(self, size: int, make: Callable[[Key], Made]) -> None:
        self._size, self._make = size, make
        self._made: OrderedDict[Key, Made] = OrderedDict()

    def __getitem__(self, key: Key) -> Made:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(key)
            if len(self._made) > max(self._size, 1):
                self._made.popitem(last=False)
        return found

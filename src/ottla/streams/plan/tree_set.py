"""The order of a `java.util.TreeSet`, in which `TopologyDescription` prints what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["TreeSet"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    value: T
    parent: _Entry[T] | None
    left: _Entry[T] | None = None
    right: _Entry[T] | None = None
    black: bool = True


class TreeSet(Generic[T]):
    """`java.util.TreeSet` under a comparator that may change its mind between insertions, as that of described nodes does.

    A red-black tree, because what a new element is compared with depends on the shape that the tree has by then.
    """

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, value: T) -> None:
        """Insert a value unless an equal one is met on the way down."""
        if self._root is None:
            self._root = _Entry(value, None)
            return
        at: _Entry[T] = self._root
        while True:
            order = self._compare(value, at.value)
            if order == 0:
                return
            below = at.left if order < 0 else at.right
            if below is None:
                break
            at = below
        entry = _Entry(value, at)
        if order < 0:
            at.left = entry
        else:
            at.right = entry
        self._balance(entry)

    def __iter__(self) -> Iterator[T]:
        stack: list[_Entry[T]] = []
        at = self._root
        while stack or at is not None:
            while at is not None:
                stack.append(at)
                at = at.left
            at = stack.pop()
            yield at.value
            at = at.right

    def _balance(self, entry: _Entry[T]) -> None:
        """`TreeMap.fixAfterInsertion`: colour the entry red, and turn the tree where two reds meet."""
        entry.black = False
        x = entry
        while (parent := x.parent) is not None and not parent.black:
            grand = parent.parent
            assert grand is not None
            on_left = parent is grand.left
            uncle = grand.right if on_left else grand.left
            if uncle is not None and not uncle.black:
                parent.black = uncle.black = True
                grand.black = False
                x = grand
                continue
            if x is (parent.right if on_left else parent.left):
                self._rotate(parent, left=on_left)
                x, parent = parent, x
            parent.black = True
            grand.black = False
            self._rotate(grand, left=not on_left)
        assert self._root is not None
        self._root.black = True

    def _rotate(self, pivot: _Entry[T], *, left: bool) -> None:
        child = pivot.right if left else pivot.left
        assert child is not None
        inner = child.left if left else child.right
        if left:
            pivot.right = inner
            child.left = pivot
        else:
            pivot.left = inner
            child.right = pivot
        if inner is not None:
            inner.parent = pivot
        child.parent = pivot.parent
        if pivot.parent is None:
            self._root = child
        elif pivot.parent.left is pivot:
            pivot.parent.left = child
        else:
            pivot.parent.right = child
        pivot.parent = child

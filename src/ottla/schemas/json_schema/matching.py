"""How many of one side can each have one of the other side for themselves."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["largest_matching"]


def largest_matching(edges: Sequence[Sequence[bool]]) -> int:
    """Return the size of a largest matching, where `edges[i][j]` says that i on the left goes with j on the right.

    Each on the left looks for one on the right along augmenting paths (Kuhn), breadth first, so nothing nests.
    """
    owner: dict[int, int] = {}  # of the right -> of the left
    return sum(_augmented(start, edges, owner) for start in range(len(edges)))


def _augmented(start: int, edges: Sequence[Sequence[bool]], owner: dict[int, int]) -> bool:
    came_from: dict[int, int] = {}  # of the right -> of the left that reached it
    queue = [start]
    for left in queue:
        for right, goes in enumerate(edges[left]):
            if not goes or right in came_from:
                continue
            came_from[right] = left
            if right not in owner:
                _take(right, came_from, owner, start)
                return True
            queue.append(owner[right])
    return False


def _take(right: int, came_from: dict[int, int], owner: dict[int, int], start: int) -> None:
    """Give each on the path the one on the right that it reached."""
    had = {left: each for each, left in owner.items()}
    while True:
        left = came_from[right]
        owner[right] = left
        if left == start:
            return
        right = had[left]

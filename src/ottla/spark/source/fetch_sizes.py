"""How many bytes a Fetch asks for: what the records that are wanted will need, from what those before them needed.

A micro-batch with a limit takes a small part of what waits in a partition. Asked for as much as a connection keeps room
for, a broker sends all of that each time, and most of it is thrown away.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["TOPICS_MAX", "FetchSizes"]

TOPICS_MAX = 1000
"""How many topics are remembered; the one that was seen longest ago is forgotten."""
SPREAD = 1.1
"""How much larger than those before them the records that are wanted may be before a further Fetch is needed."""
BYTES_MIN = 64 << 10


class FetchSizes:
    """Bytes per offset of topics, as the last answers had it: outlives a task with the client that it is kept beside."""

    def __init__(self) -> None:
        self._density: OrderedDict[str, float] = OrderedDict()

    def saw(self, topic: str, *, offsets: int, size_bytes: int) -> None:
        """Note what an answer had: the offsets from where it was asked to where it ends, at least one."""
        assert offsets > 0, "it brought something"
        self._density[topic] = size_bytes / offsets
        self._density.move_to_end(topic)
        if len(self._density) > TOPICS_MAX:
            self._density.popitem(last=False)

    def wanted_bytes(self, topic: str, *, offsets: int, bytes_max: int) -> int:
        """Return what to ask for, so that so many offsets come and little more; `bytes_max` where nothing is known.

        A guess: who gets less asks again, and by then it is known better.
        """
        density = self._density.get(topic)
        return bytes_max if density is None else min(bytes_max, int(offsets * density * SPREAD) + BYTES_MIN)

"""Java's `String.hashCode`, by which Kafka says where what is known by a name lies."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import mul

__all__ = ["coordinating_partition", "java_hash"]


_MASK = (1 << 32) - 1
_RUN = 256
_POWERS = [pow(31, place, 1 << 32) for place in reversed(range(_RUN))]


def java_hash(text: str) -> int:
    """Return `String.hashCode`, as an unsigned number of 32 bits."""
    units: Sequence[int] = text.encode() if text.isascii() else array("H", text.encode("utf-16", "surrogatepass"))[1:]
    hashed = 0
    for at in range(0, len(units), _RUN):  # runs keep the numbers small, and are summed in C
        run = units[at : at + _RUN]
        powers = _POWERS if len(run) == _RUN else _POWERS[-len(run) :]
        hashed = (hashed * pow(31, len(run), 1 << 32) + sum(map(mul, run, powers))) & _MASK
    return hashed


def coordinating_partition(key: str, count: int) -> int:
    """Return the partition that coordinates a key: the absolute value of its hash, modulo the count."""
    hashed = java_hash(key)
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed
    return hashed % count if hashed != 1 << 31 else 0  # whose absolute value Java cannot hold

"""Grouping keys by which Spark's shuffle puts task i into partition i mod n, whatever n is.

Spark places a grouping key by Murmur3 of its value (seed 42), modulo the number of shuffle partitions. Small integers fall
where they like: of four tasks, three may meet in one partition. The hash of a 32-bit integer can be turned round, so a
task's key is the integer whose hash is the task's number; it stays the same when the number of partitions changes.
"""

from __future__ import annotations

__all__ = ["group_of", "task_of"]

_MASK = 0xFFFFFFFF
_SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_M5, _N = 5, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_LENGTH = 4


def _left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def task_of(group: int) -> int:
    """Return the task of a grouping key: Spark's `hash` of it (org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt)."""
    mixed = (_left((group & _MASK) * _C1 & _MASK, 15) * _C2) & _MASK
    state = (_left(_SEED ^ mixed, 13) * _M5 + _N) & _MASK ^ _LENGTH
    state = (state ^ state >> 16) * _F1 & _MASK
    state = (state ^ state >> 13) * _F2 & _MASK
    return state ^ state >> 16


def group_of(task: int) -> int:
    """Return the grouping key of a task, a signed 32-bit integer: `task_of` backwards, step by step."""
    state = task ^ task >> 16
    state = state * _inverse(_F2) & _MASK
    state ^= state >> 13 ^ state >> 26
    state = state * _inverse(_F1) & _MASK
    state = (state ^ state >> 16) ^ _LENGTH
    mixed = _left((state - _N) * _inverse(_M5) & _MASK, 32 - 13) ^ _SEED
    mixed = _left(mixed * _inverse(_C2) & _MASK, 32 - 15) * _inverse(_C1) & _MASK
    return mixed - (1 << 32) if mixed >> 31 else mixed

"""Java's `String.hashCode`, by which Kafka says where what is known by a name lies."""

from __future__ import annotations

__all__ = ["coordinating_partition", "java_hash"]


def java_hash(text: str) -> int:
    """Return `String.hashCode`, as an unsigned number of 32 bits."""
    hashed = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        hashed = (hashed * 31 + (encoded[at] << 8) + encoded[at + 1]) & 0xFFFFFFFF
    return hashed


def coordinating_partition(key: str, count: int) -> int:
    """Return the partition that coordinates a key: the absolute value of its hash, modulo the count."""
    hashed = java_hash(key)
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed
    return hashed % count if hashed != 1 << 31 else 0  # whose absolute value Java cannot hold

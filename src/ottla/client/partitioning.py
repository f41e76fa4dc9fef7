"""Which partition a record with a key goes to, as Kafka's default partitioner says it."""

from __future__ import annotations

__all__ = ["partition_of"]


def partition_of(key: bytes | None, partitions: int) -> int:
    """Return the partition of a key among so many: murmur2, as every Kafka client computes it; None counts as empty."""
    return (_murmur2(key or b"") & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    found = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        found = (found * m & mask) ^ k
    if length > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * m & mask
    found = (found ^ (found >> 13)) * m & mask
    return found ^ (found >> 15)

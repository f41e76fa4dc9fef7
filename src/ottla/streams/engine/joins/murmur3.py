"""Murmur3, 128 bits, as Kafka Streams computes it (x64 variant, seed 104729): the hash of a foreign-key join's left rows."""

from __future__ import annotations

from struct import Struct

__all__ = ["hash128"]

_MASK = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_SEED = 104729
_PAIR = Struct("<QQ")
_RESULT = Struct(">QQ")


def hash128(data: bytes) -> bytes:
    """Return the hash as Kafka writes it: two 64-bit numbers, big endian."""
    h1 = h2 = _SEED
    whole = len(data) & ~15
    for k1, k2 in _PAIR.iter_unpack(data[:whole]):
        h1 ^= _mixed_first(k1)
        h1 = (h1 << 27 | h1 >> 37) & _MASK
        h1 = ((h1 + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed_second(k2)
        h2 = (h2 << 31 | h2 >> 33) & _MASK
        h2 = ((h2 + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    if len(tail) > 8:
        h2 ^= _mixed_second(int.from_bytes(tail[8:], "little"))
    if tail:
        h1 ^= _mixed_first(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finished(h1), _finished(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return _RESULT.pack(h1, h2)


def _mixed_first(k: int) -> int:
    k = k * _C1 & _MASK
    return (k << 31 | k >> 33) * _C2 & _MASK


def _mixed_second(k: int) -> int:
    k = k * _C2 & _MASK
    return ((k << 33 | k >> 31) & _MASK) * _C1 & _MASK


def _finished(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33

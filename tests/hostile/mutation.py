"""Damage to well-formed frames, of the seed's choice."""

from __future__ import annotations

import struct
from random import Random

__all__ = ["mutate"]

LENGTHS = (2**31 - 1, -1, -2, 1 << 24, 0, 255)
"""What is written where a length may be."""


def mutate(rng: Random, data: bytes) -> bytes:
    """Damage a frame; its length prefix is put right most of the time, so that the damage reaches the decoder."""
    out = bytearray(data)
    for _ in range(1 + rng.randrange(3)):
        at = rng.randrange(4, len(out)) if len(out) > 5 else 4
        match rng.randrange(6):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                out[at : at + 4] = struct.pack(">i", rng.choice(LENGTHS))
            case 2:
                del out[at : at + 1 + rng.randrange(8)]
            case 3:
                out[at:at] = rng.randbytes(1 + rng.randrange(16))
            case 4:
                out[at:] = b""
            case _:
                out[at : at + 5] = b"\xff\xff\xff\xff" + bytes([rng.randrange(256)])
    if rng.random() < 0.95:
        out[:4] = struct.pack(">i", len(out) - 4)
    return bytes(out)

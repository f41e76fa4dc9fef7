"""What the producers of a world write: a style, and the values and batches that are drawn in it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypedDict, Unpack

from ottla.base import Millis
from ottla.wire import Codec, Header, Record, build_batch
from tests.sim.hostile import headers_of, hostile_value

__all__ = ["ProducerIdentity", "Style", "batch_of", "values_of"]

HOSTILE_BYTES_MAX = 60
"""Of the plain part of a value that has a hostile end."""


@dataclass
class Style:
    """How clients of a world write."""

    records_max: int = 4
    """Records of one batch."""
    thinking_s: float = 0.15
    """The longest pause of an idempotent producer between two answers."""
    is_hostile: bool = False
    """True where values carry bytes that no text has."""
    has_headers: bool = False
    """True where records have headers, whose names need be no text either."""
    sizes: tuple[int, ...] = (0, 10, 100, 400)
    """How long values of one batch may be at most, in bytes."""
    segment_bytes: int = 6000
    """Of topics that an administrator creates."""
    slices: tuple[int, ...] = (1 << 20,)
    """How many bytes a reader of committed records asks for at a time."""
    session_bytes: int = 3000
    """How many bytes of a partition a reader in sessions asks for at a time."""
    codecs: tuple[Codec, ...] = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD)
    in_flight_max: int = 4
    """Batches of a producer that are not answered yet; of an idempotent one no more than clients allow."""
    sends_together: bool = False
    """True where what a producer sends at a time is one write, so that a broker reads it at once."""

    def draw_slice(self, rng: Random) -> int:
        """Draw for one reader; where there is no choice, nothing is drawn."""
        return self.slices[0] if len(self.slices) == 1 else rng.choice(self.slices)


def values_of(rng: Random, style: Style, name: str, number: int) -> list[bytes]:
    """Make up the values of one batch; each names its producer and its place."""
    size = rng.choice(style.sizes)
    if style.is_hostile:
        size = min(size, HOSTILE_BYTES_MAX)
    values = [
        b"%s:%d.%d %s" % (name.encode(), number, index, b"x" * rng.randrange(size + 1))
        for index in range(1 + rng.randrange(style.records_max))
    ]
    return [hostile_value(rng, each) for each in values] if style.is_hostile else values


class ProducerIdentity(TypedDict, total=False):
    """Who has written a batch, and which of that one's it is."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


def batch_of(
    rng: Random, style: Style, now_ms: int, values: list[bytes], **identity: Unpack[ProducerIdentity]
) -> bytearray:
    """Build a batch as a client does."""
    headers = headers_of if style.has_headers else _no_headers
    records = [
        Record(timestamp=Millis(now_ms + index), value=value, headers=headers(value))
        for index, value in enumerate(values)
    ]
    return build_batch(records, codec=rng.choice(style.codecs), **identity)


def _no_headers(value: bytes) -> tuple[Header, ...]:
    return ()

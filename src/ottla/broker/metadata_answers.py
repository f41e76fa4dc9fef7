"""Metadata answers as bytes, kept while the image is the same: many clients ask the same, and large clusters answer long."""

from __future__ import annotations

from collections.abc import Hashable
from struct import Struct

from ottla.broker.requests.answers import Encoded
from ottla.metadata import Image

__all__ = ["MetadataAnswers"]

BYTES_MAX = 8 << 20
"""Bytes kept: some fifty whole answers of a thousand partitions; beyond that all are forgotten."""

HEADER_BYTES = 8
pack_header = Struct(">ii").pack
"""Length and correlation id, the only bytes that differ from one client to the next."""


class MetadataAnswers:
    """Answers to what was asked since the image last changed."""

    def __init__(self) -> None:
        self._image: Image | None = None
        self._bodies: dict[Hashable, bytes] = {}
        self._size = 0

    def find(self, image: Image, asked: Hashable, correlation_id: int) -> Encoded | None:
        """Return the answer that was kept for this question about this very image."""
        if image is not self._image:
            return None
        body = self._bodies.get(asked)
        return None if body is None else _encoded(body, correlation_id)

    def keep(self, image: Image, asked: Hashable, frame: bytes, correlation_id: int) -> Encoded:
        """Keep an answer, given with its length and header, and return it."""
        body = frame[HEADER_BYTES:]
        if image is not self._image or self._size + len(body) > BYTES_MAX:
            self._image, self._bodies, self._size = image, {}, 0
        self._bodies[asked] = body
        self._size += len(body)
        return _encoded(body, correlation_id)


def _encoded(body: bytes, correlation_id: int) -> Encoded:
    return Encoded((pack_header(HEADER_BYTES - 4 + len(body), correlation_id), body))

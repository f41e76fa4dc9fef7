"""State in blocks: a store's keys spread by hash over blobs, loaded when touched and written when changed.

A store begins as one block and grows by extendible hashing: a block that holds too many keys is split by the next bit of
its keys' CRC-32, so that a small store costs one blob per batch and a large one a few hundred. Where entries have times,
the directory knows each block's earliest, so that nothing is loaded only to find that nothing has expired.

Blobs: `<store>/` the directory, `<store>/<depth>.<bits>` a block. A blob is a format byte and a value of `marshal`
(version 2: bytes, integers, tuples and dictionaries only, whose encoding has not changed since Python 2.5). Measured for 512
entries of 10-byte keys, 8-byte values and timestamps: 160 ns an entry to load and 80 to write; length-prefixed fields in
Python 440 and 195.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from ottla.streams.engine.interface import StateBackend
from ottla.streams.engine.resident import ResidentState

__all__ = ["NEVER", "Block", "Blocks"]

_FORMAT = b"\x01"
_DEPTH_MAX = 24
NEVER = 1 << 62
"""Later than every timestamp: the earliest time of a block without entries."""


def _encode(value: Any) -> bytes:
    return _FORMAT + marshal.dumps(value, 2)


def _decode(blob: bytes, name: str) -> Any:
    if blob[:1] != _FORMAT:
        raise ValueError(
            f"state blob {name!r} has format {blob[:1]!r}, expected {_FORMAT!r}: written by another version"
        )
    return marshal.loads(memoryview(blob)[1:])


class Block:
    """Some keys of a store; `entries` is None while it lies in the backend."""

    __slots__ = ("bits", "depth", "dirty", "earliest", "entries", "name")

    def __init__(self, store: str, depth: int, bits: int, earliest: int) -> None:
        self.name = f"{store}/{depth}.{bits:x}"
        self.depth = depth
        self.bits = bits
        self.earliest = earliest
        self.entries: dict[bytes, Any] | None = None
        self.dirty = False


class Blocks:
    """One store's blocks. Keys are bytes; what an entry holds is the store's business, as long as marshal can write it."""

    def __init__(self, backend: StateBackend, store: str, limit: int) -> None:
        self._backend = backend
        self._resident = backend if isinstance(backend, ResidentState) else None
        self._store = store
        self._limit = limit
        found = backend.get(f"{store}/")
        rows = _decode(found, store) if found is not None else [(0, 0, NEVER)]
        self._all = [Block(store, depth, bits, earliest) for depth, bits, earliest in rows]
        self._changed = found is None
        if found is None:
            self._all[0].entries = {}
        self._mask = 0
        self._directory: list[Block] = []
        self._index()
        if self._resident is not None:
            self._resident.keep(self)

    @property
    def store(self) -> str:
        """Whose blocks these are."""
        return self._store

    @property
    def loaded(self) -> int:
        """How many entries are in memory, decoded."""
        return sum(len(each.entries) for each in self._all if each.entries is not None)

    def saved(self) -> Iterator[tuple[str, bytes]]:
        """Yield the blobs of everything: what `write` would have written of all blocks."""
        yield f"{self._store}/", _encode([(block.depth, block.bits, block.earliest) for block in self._all])
        for block in self._all:
            if block.entries:
                yield block.name, _encode(block.entries)

    def _index(self) -> None:
        depth = max(block.depth for block in self._all)
        self._mask = (1 << depth) - 1
        slots: list[Any] = [None] * (1 << depth)
        for block in self._all:
            for slot in range(block.bits, 1 << depth, 1 << block.depth):
                slots[slot] = block
        self._directory = slots

    def block(self, key: bytes) -> Block:
        """Return the block that a key belongs to, loaded or not."""
        return self._directory[crc32(key) & self._mask]

    def entries(self, key: bytes) -> dict[bytes, Any]:
        """Return the entries among which a key is, if it is anywhere."""
        block = self._directory[crc32(key) & self._mask]
        found = block.entries
        return found if found is not None else self.load(block)

    def load(self, block: Block) -> dict[bytes, Any]:
        """Return a block's entries, from the backend where they are not there yet."""
        if block.entries is None:
            if self._resident is None:
                blob = self._backend.get(block.name)
            else:  # nobody writes it any more, so it must not be let go either
                blob, block.dirty = self._resident.take(block.name), True
            block.entries = {} if blob is None else _decode(blob, block.name)
        return block.entries

    def changing(self, key: bytes) -> dict[bytes, Any]:
        """Return the entries among which a key is, to change them: the block is written at the end of the batch."""
        block = self._directory[crc32(key) & self._mask]
        block.dirty = True
        return block.entries if block.entries is not None else self.load(block)

    def note_time(self, key: bytes, time: int) -> None:
        """Say that a key has an entry of this time now."""
        block = self._directory[crc32(key) & self._mask]
        if time < block.earliest:
            block.earliest = time
            self._changed = True

    def set_earliest(self, block: Block, time: int) -> None:
        """Set what `earliest` of a loaded block has become after entries were removed."""
        if time != block.earliest:
            block.earliest = time
            self._changed = True

    def __iter__(self) -> Iterator[Block]:
        """Return every block, loaded or not."""
        return iter(tuple(self._all))

    def items(self) -> Iterator[tuple[bytes, Any]]:
        """Return every entry; loads all blocks."""
        for block in tuple(self._all):
            yield from tuple(self.load(block).items())

    def write(self) -> None:
        """Write what changed to the backend, splitting blocks that have grown too large.

        What stays resident is split, and written nowhere: its blocks stay changed, so that none is let go.
        """
        count = len(self._all)
        self._all = [written for block in self._all for written in self._write_or_split(block)]
        if len(self._all) != count:
            self._index()
            self._changed = True
        if self._changed and self._resident is None:
            rows = [(block.depth, block.bits, block.earliest) for block in self._all]
            self._backend.put(f"{self._store}/", _encode(rows))
            self._changed = False

    def _write_or_split(self, block: Block) -> list[Block]:
        """Write a block if it changed, or the blocks that it falls into; return those."""
        if not block.dirty:
            return [block]
        entries = self.load(block)
        if len(entries) > self._limit and block.depth < _DEPTH_MAX:
            if self._resident is None:
                self._backend.put(block.name, None)
            return [written for half in self._split(block, entries) for written in self._write_or_split(half)]
        if self._resident is None:
            block.dirty = False
            self._backend.put(block.name, _encode(entries) if entries else None)
        return [block]

    def _split(self, block: Block, entries: dict[bytes, Any]) -> tuple[Block, Block]:
        """Return a block's two halves; both keep its earliest time, which stays a lower bound."""
        bit = 1 << block.depth
        low = Block(self._store, block.depth + 1, block.bits, block.earliest)
        high = Block(self._store, block.depth + 1, block.bits | bit, block.earliest)
        low_entries: dict[bytes, Any] = {}
        high_entries: dict[bytes, Any] = {}
        for key, entry in entries.items():
            (high_entries if crc32(key) & bit else low_entries)[key] = entry
        low.entries, high.entries = low_entries, high_entries
        low.dirty = high.dirty = True
        return low, high

    def forget(self, keep: int) -> None:
        """Let clean blocks go until no more than `keep` entries are in memory."""
        total = sum(len(block.entries) for block in self._all if block.entries is not None)
        for block in self._all:
            if total <= keep:
                return
            if block.entries is not None and not block.dirty:
                total -= len(block.entries)
                block.entries = None

"""Blocks of columns: many records of a source at once, where every step behind it allows that; else record by record.

A block goes through the steps as columns and leaves as columns. Nothing changes before every step of it has been computed:
whatever goes wrong until then, the block goes the way of records, which says what is wrong and skips what is to be skipped.
So both ways have the same results, byte by byte.

numpy and PyArrow are imported here, and this package only by executors that are given blocks.
"""

from ottla.streams.engine.columnar.entry import block_entry, block_flush

__all__ = ["block_entry", "block_flush"]

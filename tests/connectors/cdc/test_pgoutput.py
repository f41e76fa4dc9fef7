"""The decoder of pgoutput: hostile bytes are refused in one way, and nothing is read beyond them."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import DataError
from ottla.connectors.cdc import pgoutput
from ottla.connectors.cdc.positions import Position, SeenTransactions

RELATION = b"R" + struct.pack(">I", 7) + b"public\0t\0d" + struct.pack(">H", 1) + b"\1id\0" + struct.pack(">Ii", 23, -1)
INSERT = b"I" + struct.pack(">I", 7) + b"N" + struct.pack(">H", 3) + b"t" + struct.pack(">i", 2) + b"42" + b"nu"
UPDATE = b"U" + struct.pack(">I", 7) + b"K" + INSERT[6:] + b"N" + INSERT[6:]
MESSAGES = (
    RELATION,
    INSERT,
    UPDATE,
    b"D" + UPDATE[1:5] + b"O" + INSERT[6:],
    b"B" + struct.pack(">QqI", 5, 6, 7),
    b"C" + struct.pack(">BQQq", 0, 5, 6, 7),
    b"T" + struct.pack(">IBI", 1, 0, 7),
    b"M" + struct.pack(">BQ", 1, 9) + b"p\0" + struct.pack(">I", 2) + b"hi",
    b"O" + struct.pack(">Q", 9) + b"origin\0",
)


def test_messages_are_read() -> None:
    assert pgoutput.decode(INSERT) == pgoutput.Change("I", 7, None, False, [b"42", None, pgoutput.UNCHANGED])
    relation = pgoutput.decode(RELATION)
    assert isinstance(relation, pgoutput.RelationMessage) and relation.columns[0].is_key
    update = pgoutput.decode(UPDATE)
    assert isinstance(update, pgoutput.Change) and update.old_is_key and update.old == update.new
    assert all(pgoutput.decode(each) is not None for each in MESSAGES)


@given(st.sampled_from(MESSAGES), st.integers(0, 60))
def test_a_message_that_is_cut_off_is_refused(message: bytes, size: int) -> None:
    if size < len(message):
        with pytest.raises(DataError, match="no message of pgoutput"):
            pgoutput.decode(message[:size])


@given(st.sampled_from(MESSAGES), st.integers(0, 60), st.integers(0, 255))
def test_a_wrong_byte_is_read_or_refused(message: bytes, place: int, byte: int) -> None:
    changed = bytearray(message)
    changed[place % len(message)] = byte
    with suppress(DataError):
        pgoutput.decode(bytes(changed))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(DataError):
        pgoutput.decode(data)


def test_a_snapshot_knows_what_it_has_seen_beyond_32_bits_too() -> None:
    high = 1 << 32
    seen = SeenTransactions(f"{high + 3}:{high + 9}:{high + 4},{high + 6}", 100)
    assert [each for each in range(12) if not seen.has(each)] == [4, 6, 9, 10, 11]
    assert seen.has(0xFFFFFFF0), "of the numbers before the overflow"
    around = SeenTransactions(f"{high - 2}:{high + 1}:{high - 1}", 100)
    assert around.has(0xFFFFFFFE) and not around.has(0xFFFFFFFF) and around.has(0) and not around.has(1)


def test_positions_survive_as_offsets_and_those_of_debezium_are_taken() -> None:
    position = Position(50, 3, SeenTransactions("3:9:4", 100))
    assert Position.of(position.offset(txId=7)) == position
    assert position.after_commit(60).seen is not None and position.after_commit(100).seen is None
    assert Position.of({"lsn_proc": 70, "lsn_commit": 60, "lsn": 70, "txId": 5, "ts_usec": 1}) == Position(60)

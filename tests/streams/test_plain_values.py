"""Plain values as bytes: what was written is read, and what anybody else has written is a value or an error."""

from __future__ import annotations

import base64
import contextlib
import marshal
import random
import sys
import zlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import plain_bytes, plain_value
from ottla.spark.continuous.work import Note, note_of, words_of
from ottla.sql.lowering.serdes import StateSerde
from ottla.streams import SerializationError

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(SIMPLE, inner) | st.frozensets(SIMPLE),
)
CODE = compile("1", "", "eval")


@given(VALUES)
def test_what_was_written_by_any_version_is_read_as_it_was(value: object) -> None:
    """Changelogs of earlier versions hold what `marshal` itself wrote."""
    assert plain_value(marshal.dumps(value, 2)) == value
    assert plain_value(plain_bytes(value)) == value


@pytest.mark.parametrize("begin", [b"{", b"<\x00\x10\0\0"], ids=["dictionary", "set"])
def test_keys_that_were_chosen_to_have_one_hash_are_refused(begin: bytes) -> None:
    keys = [plain_bytes(number * sys.hash_info.modulus) for number in range(1, 4097)]
    data = b"".join(each + b"N" for each in keys) + b"0" if begin == b"{" else b"".join(keys)
    with pytest.raises(ValueError, match="one hash"):
        plain_value(begin + data)
    many = {number: str(number) for number in range(-2000, 2000)}
    assert plain_value(plain_bytes(many)) == many


@given(VALUES, st.integers(0, 1 << 32), st.binary(max_size=6))
def test_bytes_that_were_changed_are_a_value_or_an_error(value: object, seed: int, more: bytes) -> None:
    rng = random.Random(seed)
    data = bytearray(plain_bytes(value))
    at = rng.randrange(len(data))
    data[at : at + rng.randrange(3)] = more
    with contextlib.suppress(ValueError):
        plain_value(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        marshal.dumps(CODE, 2),
        marshal.dumps((CODE,), 2),
        marshal.dumps(["a"] * 3),  # with references, of later versions
        b"[\xff\xff\xff\x7f",
        b"(\xff\xff\xff\xff",
        b"s\xff\xff\xff\x7f",
        b"l\xff\xff\xff\x7f\1\0",
        b"[\1\0\0\0" * 100_000 + b"N",
        b"{[\0\0\0\0N0",
        b"R\0\0\0\0",
        b"y" + bytes(16),
        b"",
        b"NN",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_code_lengths_that_are_only_said_and_depths_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no plain value"):
        plain_value(data)
    for first in (b"\0", b"\1"):
        with pytest.raises(SerializationError):
            StateSerde().deserialize(first + data)


@pytest.mark.parametrize("text", ["x", ""])
def test_a_decimal_that_is_none_is_an_error_of_the_state(text: str) -> None:
    for held in (frozenset([text]), frozenset(), frozenset(["1", "2"])):
        with pytest.raises(SerializationError):
            StateSerde().deserialize(b"\1" + plain_bytes([held]))


def test_states_are_read_as_they_were_written() -> None:
    serde = StateSerde()
    for state in ((1, 2.5, "x"), [Decimal("1.50"), None], {"a": (1 << 70, b"\0")}):
        assert serde.deserialize(serde.serialize(state)) == state


def test_a_tasks_memory_that_somebody_else_committed_is_not_believed() -> None:
    """It stands beside the offsets of the group, where whoever may commit writes it."""
    first = words_of(Note(plain_bytes((5, {"n": {"due": 7}})))).split()[0]

    def packed(data: bytes) -> str:
        return f"{first} {base64.b64encode(zlib.compress(data)).decode()}"

    memory = plain_bytes((5, {"n": {"due": 7}}))
    assert note_of(packed(memory)) == Note(memory)
    hostile = (marshal.dumps(CODE, 2), plain_bytes(5), plain_bytes((1, [])), plain_bytes((1, {"n": {"due": "x"}})))
    for data in (*hostile, b"\0" * (64 << 20)):
        assert note_of(packed(data)) == Note()


def test_a_note_beside_an_offset_says_of_which_topic_it_is() -> None:
    memory, topic_id = plain_bytes((5, {"n": {"due": 7}})), bytes(range(16)).hex()
    for note in (Note(memory, topic_id), Note(None, topic_id), Note(memory), Note()):
        assert note_of(words_of(note)) == note


def test_what_a_task_remembers_is_found_by_a_reader_that_knows_no_topic_ids() -> None:
    memory = plain_bytes((5, {"n": {"due": 7}}))
    _, _, packed = words_of(Note(memory, bytes(16).hex())).partition(" ")
    assert zlib.decompressobj().decompress(base64.b64decode(packed, validate=True)) == memory

"""The bytes that name a schema are Confluent's, and whatever else they are is said."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.serdes import SchemaId, SerdeError, split_header, split_prefix

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


def test_an_id_is_a_zero_and_four_bytes() -> None:
    assert SchemaId(258).prefix() == bytes.fromhex("00 00000102")
    assert split_prefix(bytes.fromhex("00 00000102 ff")) == (SchemaId(258), b"\xff")


def test_a_guid_is_a_one_and_sixteen_bytes() -> None:
    assert SchemaId(guid=GUID).header() == b"\x01" + GUID.bytes
    assert split_header(b"\x01" + GUID.bytes) == SchemaId(guid=GUID)


def test_the_first_message_is_a_single_zero_and_others_are_counted() -> None:
    assert SchemaId(1, indexes=(0,)).prefix()[5:] == b"\x00"
    assert SchemaId(1, indexes=(1, 0)).prefix()[5:] == bytes.fromhex("04 02 00")


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_a_path_comes_back_as_it_was(number: int, path: list[int]) -> None:
    found = SchemaId(number, indexes=tuple(path))
    assert split_prefix(found.prefix() + b"rest", has_indexes=True) == (found, b"rest")


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_name_a_schema_or_are_refused(data: bytes, has_indexes: bool) -> None:
    try:
        split_prefix(data, has_indexes=has_indexes)
    except SerdeError as error:
        assert not error.retriable


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"{}", b"\x01abc", b"\x02\x00\x00\x00\x01"])
def test_bytes_without_a_schema_are_refused(data: bytes) -> None:
    with pytest.raises(SerdeError):
        split_prefix(data)

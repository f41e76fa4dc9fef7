"""Header keys that are no UTF-8, which brokers take, are read as Java reads them wherever records are copied."""

from __future__ import annotations

import pytest

from ottla.base import Offset
from ottla.mirror.source_task import _rows
from ottla.spark.continuous.columns import records_of
from ottla.wire import ColumnDecoder, Columns
from tests.broker.test_failures import with_header_key

BAD_KEYS = [b"\x80", b"\xff\xfe", b"\xed\xa0"]


def columns_of(key: bytes) -> Columns:
    [columns] = ColumnDecoder(with_headers=True).decode(with_header_key(key), start=Offset(0)).columns
    return columns


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_mirror_copies_a_record_whose_header_key_is_no_text(key: bytes) -> None:
    [(_, _, _, value, headers)] = _rows(columns_of(key))
    assert value == b"v"
    assert [(each.key.strip("\ufffd"), each.value) for each in headers] == [("", b"h")]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_streams_read_a_record_whose_header_key_is_no_text(key: bytes) -> None:
    [record] = records_of(columns_of(key), "t", 0)
    assert record.value == b"v"
    assert [(name.strip("\ufffd"), value) for name, value in record.headers] == [("", b"h")]

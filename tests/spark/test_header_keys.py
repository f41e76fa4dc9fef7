"""A header's key that is not UTF-8: its bad bytes are replaced, as in Kafka, and the batch is read."""

from __future__ import annotations

import struct

import pytest

from ottla.base import Offset
from ottla.spark.source.columns import SCHEMA, ColumnBuilder
from ottla.wire import ColumnDecoder, Record, build_batch, crc32c

CRC_AT, CRC_FROM = 17, 21


def batch_with_header_keys(*keys: bytes) -> bytes:
    """Build a batch with a record for each header key, whatever bytes that is."""
    stand_ins = [f"{number:02}".ljust(len(key), "-") for number, key in enumerate(keys)]
    records = [
        Record(offset=number, timestamp=1000, key=None, value=b"v", headers=((stand_in, b"value"),))
        for number, stand_in in enumerate(stand_ins)
    ]
    batch = bytes(build_batch(records))
    for stand_in, key in zip(stand_ins, keys, strict=True):
        assert batch.count(stand_in.encode()) == 1
        batch = batch.replace(stand_in.encode(), key)
    return batch[:CRC_AT] + struct.pack(">I", crc32c(batch[CRC_FROM:])) + batch[CRC_FROM:]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"good-\xc3\xbc", "good-ü"),
        (b"bad-\xff\xfe", "bad-\ufffd\ufffd"),
        (b"cut-\xe2\x82", "cut-\ufffd"),
        (b"surrogate-\xed\xa0\x80", "surrogate-\ufffd"),
        (b"long-\xc0\x80", "long-\ufffd\ufffd"),
    ],
)
def test_a_header_key_that_is_not_utf_8_is_read_with_its_bad_bytes_replaced(key: bytes, shown: str) -> None:
    decoder = ColumnDecoder(with_headers=True)
    [columns] = decoder.decode(batch_with_header_keys(b"first-one", key), start=Offset(0)).columns
    [batch] = ColumnBuilder(SCHEMA, "t", 0).batches(columns)
    headers = batch.column(SCHEMA.names.index("headers")).to_pylist()
    assert headers == [[{"key": "first-one", "value": b"value"}], [{"key": shown, "value": b"value"}]]

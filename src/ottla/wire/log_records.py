"""Records in internal logs: KRaft's metadata records, and the coordinators' keys and values.

A metadata record is framed by three unsigned varints: frame version 1, API key, version. A coordinator's key and value
begin with an int16; in a key it names the record's type, in a value the version of its content.
"""

from __future__ import annotations

from importlib import import_module
from struct import Struct

from ottla.base import WireError
from ottla.wire.codec import decode, encode, encode_into
from ottla.wire.message import Message
from ottla.wire.record_table import (
    GROUP_KEYS,
    GROUP_VALUES,
    METADATA_RECORDS,
    SHARE_KEYS,
    SHARE_VALUES,
    TRANSACTION_KEYS,
    TRANSACTION_VALUES,
)
from ottla.wire.varint import read_uvarint, uvarint

__all__ = [
    "COORDINATOR_TOPICS",
    "decode_coordinator_key",
    "decode_coordinator_value",
    "decode_metadata_record",
    "encode_coordinator_key",
    "encode_coordinator_record",
    "encode_coordinator_value",
    "encode_metadata_record",
]

Buffer = bytes | bytearray | memoryview
FRAME_VERSION = 1
_SHORT = Struct(">h")

COORDINATOR_TOPICS: dict[str, tuple[dict[int, tuple[str, str]], dict[int, tuple[str, str]]]] = {
    "__consumer_offsets": (GROUP_KEYS, GROUP_VALUES),
    "__transaction_state": (TRANSACTION_KEYS, TRANSACTION_VALUES),
    "__share_group_state": (SHARE_KEYS, SHARE_VALUES),
}
"""Internal topic -> its tables of keys and of values."""

# OffsetCommitKey (1) took over from LegacyOffsetCommitKey (0): one form, one kind of value.
_TYPES_OF_ONE_VALUE = {("__consumer_offsets", 0): 1}


def _class(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"ottla.wire.messages.{module}"), name)
    return found


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Return a KRaft metadata record as the value of a log record."""
    assert record.API_KEY is not None
    out = bytearray(uvarint(FRAME_VERSION) + uvarint(record.API_KEY) + uvarint(version))
    encode_into(out, record, version)
    return bytes(out)


def decode_metadata_record(value: Buffer) -> tuple[Message, int]:
    """Return (record, its version); raises WireError for what is no metadata record that this version knows."""
    view = memoryview(value)
    try:
        frame, position = read_uvarint(view, 0)
        key, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError as error:
        raise WireError("a metadata record is shorter than its frame") from error
    if frame != FRAME_VERSION:
        raise WireError(f"a metadata record has frame version {frame}; {FRAME_VERSION} is known")
    if key not in METADATA_RECORDS:
        raise WireError(f"metadata record {key} is not known")
    cls = _class(*METADATA_RECORDS[key])
    _check_version(cls, version)
    record, end = decode(cls, view, version, position)
    if end != len(view):
        raise WireError(f"{cls.__name__} is followed by {len(view) - end} bytes")
    return record, version


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise WireError(f"{cls.__name__} version {version} is not known; {first} to {last} are")


def encode_coordinator_key(key: Message) -> bytes:
    """Return a coordinator's key behind its type."""
    assert key.API_KEY is not None
    return _SHORT.pack(key.API_KEY) + encode(key, 0)


def encode_coordinator_value(value: Message, version: int) -> bytes:
    """Return a coordinator's value behind its version."""
    return _SHORT.pack(version) + encode(value, version)


def encode_coordinator_record(key: Message, value: Message | None, version: int) -> tuple[bytes, bytes | None]:
    """Return a coordinator's (key, value) bytes; without a value it is a tombstone."""
    return encode_coordinator_key(key), None if value is None else encode_coordinator_value(value, version)


def decode_coordinator_key(topic: str, data: Buffer) -> Message | None:
    """Return the key of a record of an internal topic; None for a type that is not known, WireError when malformed."""
    view = memoryview(data)
    kind = _leading_short(view)
    found = COORDINATOR_TOPICS[topic][0].get(kind)
    return None if found is None else decode(_class(*found), view, 0, 2)[0]


def decode_coordinator_value(topic: str, key: Message, data: Buffer) -> tuple[Message, int] | None:
    """Return (value, its version) of a record with that key; None for a type that is not known."""
    assert key.API_KEY is not None
    kind = _TYPES_OF_ONE_VALUE.get((topic, key.API_KEY), key.API_KEY)
    found = COORDINATOR_TOPICS[topic][1].get(kind)
    if found is None:
        return None
    view = memoryview(data)
    version = _leading_short(view)
    cls = _class(*found)
    _check_version(cls, version)
    return decode(cls, view, version, 2)[0], version


def _leading_short(view: memoryview) -> int:
    if len(view) < 2:
        raise WireError("a coordinator's record is shorter than its type")
    (found,) = _SHORT.unpack_from(view)
    return int(found)

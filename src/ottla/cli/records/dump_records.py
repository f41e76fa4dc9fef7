"""Batches and records as `dump-log` prints them, with the decoders of internal topics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, ErrorCode, KafkaError
from ottla.cli.options import UsageError

if TYPE_CHECKING:
    from ottla.wire import BatchHeader, Message, Record

__all__ = ["Decoder", "batch_line", "record_line"]

TOPICS = {
    "offsets": OFFSETS_TOPIC,
    "transaction-log": TRANSACTIONS_TOPIC,
    "share-group-state": SHARE_STATE_TOPIC,
}
CONTROL_RECORDS = {
    2: ("LeaderChange: ", "leader_change_message", "LeaderChangeMessage"),
    3: ("SnapshotHeader ", "snapshot_header_record", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter ", "snapshot_footer_record", "SnapshotFooterRecord"),
    5: ("KRaftVersion ", "k_raft_version_record", "KRaftVersionRecord"),
    6: ("KRaftVoters ", "voters_record", "VotersRecord"),
}
"""Control record types of the metadata log: what Kafka prints before their JSON, module and class."""
HIDDEN = "[hidden]"
DELETED = "<DELETE>"
"""What is printed for a tombstone of an internal topic."""
Plain = Callable[[bytes | None], str | None]
Row = tuple[str, dict[str, Any]]


def compact(value: Any) -> str:
    """Return JSON without spaces, as Kafka's tools print it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Decoder:
    """Turns keys and values into text: as UTF-8, or as the JSON of an internal topic's records."""

    def __init__(self, kind: str | None, key_class: str | None = None, value_class: str | None = None) -> None:
        """Take a kind of TOPICS, `cluster-metadata`, or None for plain records, whose decoders may be named.

        Raises UsageError for a decoder that is not one of Kafka's own.
        """
        self._kind = kind
        self._key, self._value = _plain(key_class), _plain(value_class)

    def decode(self, record: Record) -> tuple[Any, Any]:
        """Return (key, value), each a JSON value, text, or None where the record has none.

        Raises KafkaError for a record without a key where only keys say what a record is.
        """
        from ottla.base import WireError

        try:
            if self._kind == "cluster-metadata":
                return _text(record.key), _metadata(record.value)
            if self._kind is not None:
                return _coordinator(TOPICS[self._kind], record)
        except WireError as error:
            said = f"Error at offset {record.offset}, skipping. {error}"
            return (None, said) if self._kind == "cluster-metadata" else (said, None)
        return self._key(record.key), self._value(record.value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _sized(size: int) -> Plain:
    def read(data: bytes | None) -> str | None:
        if data is None:
            return None
        if len(data) != size:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a number of {size} bytes is expected, not {len(data)} bytes")
        return str(int.from_bytes(data, "big", signed=True))

    return read


PLAIN = {"StringDecoder": _text, "DefaultDecoder": _text, "IntegerDecoder": _sized(4), "LongDecoder": _sized(8)}
"""Kafka's own decoders of keys and values; Java prints an array's address for the default one, here it is text too."""


def _plain(name: str | None) -> Plain:
    if name is None:
        return _text
    found = PLAIN.get(name.rpartition(".")[2])
    if found is None:
        raise UsageError(f"{name} is not built in; Kafka's {', '.join(PLAIN)} are")
    return found


def _metadata(value: bytes | None) -> Any:
    from ottla.wire import decode_metadata_record, json_form

    if value is None:
        return None
    record, version = decode_metadata_record(value)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(record).__name__).upper()
    return {"type": name, "version": version, "data": json_form(record, version) | _hidden(record)}


def _hidden(record: Message) -> dict[str, str]:
    """Return what is shown in place of a record's secrets; Kafka's tool shows them."""
    from ottla.config import is_sensitive
    from ottla.metadata import ResourceType
    from ottla.wire.messages.config_record import ConfigRecord
    from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord

    if isinstance(record, UserScramCredentialRecord):
        return dict.fromkeys(("salt", "storedKey", "serverKey"), HIDDEN)
    if isinstance(record, ConfigRecord) and record.resource_type == ResourceType.BROKER and record.value is not None:
        return {"value": HIDDEN} if is_sensitive(record.name) else {}
    return {}


def _coordinator(topic: str, record: Record) -> tuple[Any, Any]:
    from ottla.wire import decode_coordinator_key, decode_coordinator_value, json_form

    if record.key is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Failed to decode message at offset {record.offset} using the specified decoder "
            "(message had a missing key)",
        )
    key = decode_coordinator_key(topic, record.key)
    if key is None:
        kind = int.from_bytes(record.key[:2], "big")
        return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
    shown = {"type": str(key.API_KEY), "data": json_form(key, 0)}
    if record.value is None:
        return shown, DELETED
    found = decode_coordinator_value(topic, key, record.value)
    if found is None:
        return f"Unknown record type {key.API_KEY} at offset {record.offset}, skipping.", None
    value, version = found
    data = json_form(value, version)
    _open_members(value, data)
    return shown, {"version": str(version), "data": data}


def _open_members(value: Message, data: dict[str, Any]) -> None:
    """Show what a consumer group's members subscribed to and were assigned, instead of its bytes."""
    if getattr(value, "protocol_type", None) != "consumer":
        return
    from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
    from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

    classes = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}
    for member, shown in zip(value.members, data["members"], strict=True):  # type: ignore[attr-defined]
        for name, cls in classes.items():
            shown[name] = _protocol_form(cls, getattr(member, name)) or shown[name]


def _protocol_form(cls: type[Message], data: bytes) -> dict[str, Any] | None:
    from ottla.base import WireError
    from ottla.wire import decode, json_form

    version = min(int.from_bytes(data[:2], "big"), cls.VERSIONS[1])
    try:
        return json_form(decode(cls, data, version, 2)[0], version) if len(data) >= 2 else None
    except WireError:
        return None


def batch_line(header: BatchHeader, data: bytes, position: int) -> Row:
    """Return how a batch is printed."""
    from ottla.wire import Attributes, crc_is_valid

    has_horizon = bool(header.attributes & Attributes.DELETE_HORIZON)
    horizon = f"OptionalLong[{header.base_timestamp}]" if has_horizon else "OptionalLong.empty"
    value: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": bool(header.attributes & Attributes.TRANSACTIONAL),
        "isControl": header.is_control,
        "deleteHorizonMs": horizon,
        "position": position,
        time_type(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": header.codec.name.lower(),
        "crc": header.crc,
        "isvalid": crc_is_valid(data, 0, header),
    }
    text = " ".join(f"{name}: {_java(each)}" for name, each in value.items())
    return text, {**value, "deleteHorizonMs": header.base_timestamp if has_horizon else None}


def _java(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def time_type(header: BatchHeader) -> str:
    """Return the name of what a batch's timestamps are."""
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def record_line(header: BatchHeader, record: Record, args: Any) -> Row:
    """Return how a record is printed; a control record is nothing but metadata, so without that its line is empty."""
    if args.skip_record_metadata and header.is_control:
        return "", {"offset": record.offset}
    delta = record.offset - header.base_offset  # not its place in the batch, of which compaction may have taken some
    sequence = (header.base_sequence + delta) & 0x7FFFFFFF if header.base_sequence >= 0 else -1
    value: dict[str, Any] = {
        "offset": record.offset,
        time_type(header): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
    }
    text = " ".join(f"{name}: {each}" for name, each in value.items())
    value["headerKeys"] = [name for name, _ in record.headers]
    text = "|" if args.skip_record_metadata else f"| {text} headerKeys: [{','.join(value['headerKeys'])}]"
    if header.is_control:
        more, shown = _control(record)
        return f"{text} {more}", {**value, **shown}
    if args.print_data_log:
        key, payload = args.decoder.decode(record)
        value |= {"key": key, "payload": payload}
        for name, each in (("key", key), ("payload", payload)):
            if each is not None:
                text += f" {name}: {each if isinstance(each, str) else compact(each)}"
    return text, value


def _control(record: Record) -> Row:
    """Return what a control record says."""
    from importlib import import_module

    from ottla.wire import decode, json_form

    kind = int.from_bytes((record.key or b"")[2:4], "big")
    body = record.value or b""
    if kind in (0, 1):
        epoch = int.from_bytes(body[2:6], "big", signed=True)
        marker = "COMMIT" if kind else "ABORT"
        return f"endTxnMarker: {marker} coordinatorEpoch: {epoch}", {"endTxnMarker": marker, "coordinatorEpoch": epoch}
    if kind not in CONTROL_RECORDS:
        return f"controlType: {kind}", {"controlType": kind}
    prefix, module, name = CONTROL_RECORDS[kind]
    cls = getattr(import_module(f"ottla.wire.messages.{module}"), name)
    version = min(int.from_bytes(body[:2], "big"), cls.VERSIONS[1])
    shown = json_form(decode(cls, body, version)[0], version)
    return prefix + compact(shown), {name: shown}

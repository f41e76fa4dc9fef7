"""Keys and values by a schema registry, in the commands that write and print records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError
from ottla.cli.options import UsageError, key_values, warn

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.cli.options import Options
    from ottla.cli.records.formatters import Formatter
    from ottla.cli.records.line_reader import Line
    from ottla.cli.records.record_reader import ConsumedRecord
    from ottla.serdes import Deserializer, SerdeError, SerdeSettings

__all__ = ["decoded", "encoded", "reading_options", "take_properties", "writing_options"]

FORMATS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
PARTS = ("key", "value")
Headers = list[tuple[str, bytes | None]]


def reading_options(parser: Options) -> None:
    """Add the options of a command that prints records."""
    parser.add_argument(
        "--schema-registry", metavar="URL", help="decode keys and values that name a schema, by this registry"
    )
    _property_option(parser)


def writing_options(parser: Options) -> None:
    """Add the options of a command that writes records."""
    parser.add_argument("--schema-registry", metavar="URL", help="the registry for --key-format and --value-format")
    _property_option(parser)
    for part in PARTS:
        named = ", ".join(FORMATS)
        parser.add_argument(
            f"--{part}-format", choices=tuple(FORMATS), help=f"{part}s are JSON, and written as: {named}"
        )
        parser.add_argument(
            f"--{part}-schema-file", metavar="FILE", help="the schema; without it the subject's latest is used"
        )
        parser.add_argument(f"--{part}-message", metavar="NAME", help="the Protobuf message, where it is not the first")


def _property_option(parser: Options) -> None:
    parser.add_argument(
        "--registry-property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the registry's client, such as basic.auth.user.info; repeatable",
    )


def _properties(args: Namespace) -> dict[str, str]:
    return key_values(args.registry_property) | {"schema.registry.url": args.schema_registry}


CONFLUENTS = ("schema.registry.url", "key.schema", "key.schema.file", "value.schema", "value.schema.file")
"""What Confluent's console tools take by `--property`, beside the registry client's own settings."""


def take_properties(args: Namespace, given: Mapping[str, str]) -> None:
    """Take what Confluent's console tools are told by `--property` as if the options had said it."""
    if "schema.registry.url" in given:
        args.schema_registry = given["schema.registry.url"]
    if args.schema_registry is None:
        return
    from ottla.serdes import KNOWN_KEYS

    own = {key for key in given if key in KNOWN_KEYS or key.startswith("schema.registry.ssl.")} - {*CONFLUENTS}
    args.registry_property = [*(f"{key}={given[key]}" for key in sorted(own)), *args.registry_property]
    for part in PARTS:
        text, path = given.get(f"{part}.schema"), given.get(f"{part}.schema.file")
        if text is None and path is None:
            continue
        setattr(args, f"{part}_format", getattr(args, f"{part}_format") or args.value_format)
        setattr(args, f"{part}_schema_file", path)
        setattr(args, f"{part}_schema_text", text)


# -- printing


def decoded(render: Formatter, args: Namespace) -> Formatter:
    """Return what decodes a record's key and value before it is written; without a registry, what writes it as it is.

    What names no schema that the registry knows, or does not fit it, is written as it is.
    """
    if args.schema_registry is None:
        if args.registry_property:
            raise UsageError("--registry-property goes with --schema-registry")
        return render
    from ottla.serdes import Deserializer, serde_settings

    properties = _properties(args)
    readers = {part: Deserializer(_told(serde_settings(properties, is_key=part == "key"))) for part in PARTS}
    told: set[str] = set()

    def render_decoded(record: ConsumedRecord) -> bytes:
        key = _text(readers["key"], record.key, record, told)
        value = _text(readers["value"], record.value, record, told)
        return render(replace(record, key=key, value=value))

    return render_decoded


def _text(reader: Deserializer, data: bytes | None, record: ConsumedRecord, told: set[str]) -> bytes | None:
    from ottla.serdes import HEADERS, SerdeError

    header = HEADERS[reader.settings.is_key]
    if data is None or not (data[:1] in (b"\x00", b"\x01") or any(name == header for name, _ in record.headers)):
        return data
    try:
        found = reader.deserialize(data, list(record.headers))
        return None if found is None else found.json().encode()
    except SerdeError as error:
        if error.retriable:
            raise _refused(error) from error
        if str(error) not in told and len(told) < _TOLD_MAX:
            told.add(str(error))
            warn(f"{record.topic}-{record.partition} at offset {record.offset} is printed as it is: {error}")
        return data


_TOLD_MAX = 10
"""How many different reasons for printing bytes as they are may be told."""


# -- writing


def encoded(records: Iterator[Line], args: Namespace) -> Iterator[Line]:
    """Return the records with their keys and values encoded as the options say; raises UsageError, KafkaError."""
    formats = {part: getattr(args, f"{part}_format") for part in PARTS}
    for part in PARTS:
        extra = [name for name in ("schema_file", "message") if getattr(args, f"{part}_{name}") is not None]
        if extra and formats[part] is None:
            raise UsageError(f"--{part}-{extra[0].replace('_', '-')} goes with --{part}-format")
    if not any(formats.values()):
        if args.schema_registry is not None:
            raise UsageError("--schema-registry goes with --key-format or --value-format")
        return records
    if args.schema_registry is None:
        raise UsageError("--key-format and --value-format need --schema-registry")
    writers = {part: _writer(part, args) for part in PARTS if formats[part] is not None}
    return _each(records, writers, args.topic)


Encode = Callable[[str, bytes, Headers], bytes | None]


def _each(records: Iterable[Line], writers: Mapping[str, Encode], topic: str | None) -> Iterator[Line]:
    from ottla.serdes import SerdeError

    for number, record in enumerate(records, 1):
        headers = [*record.headers]
        fields = {"key": record.key, "value": record.value}
        where = topic or record.topic or ""
        try:
            for part, encode in writers.items():
                data = fields[part]
                fields[part] = None if data is None else encode(where, data, headers)
        except SerdeError as error:
            raise _refused(error, f"record {number}: ") from error
        yield replace(record, key=fields["key"], value=fields["value"], headers=headers)


def _writer(part: str, args: Namespace) -> Encode:
    """Return what encodes keys or values; the schema is settled before the first record is read."""
    from ottla.schemas import SchemaType
    from ottla.serdes import SchemaText, SerdeError, Serializer, serde_settings

    properties = _properties(args)
    path = getattr(args, f"{part}_schema_file")
    inline = getattr(args, f"{part}_schema_text", None)
    if path is None and inline is None and "use.schema.id" not in properties:
        properties = {"use.latest.version": "true", "auto.register.schemas": "false"} | properties
    serializer = Serializer(_told(serde_settings(properties, is_key=part == "key")))
    kind = SchemaType(FORMATS[getattr(args, f"{part}_format")])
    text = inline or (None if path is None else _file(path))
    given = None if text is None else SchemaText(kind, text)
    message = getattr(args, f"{part}_message")

    def encode(topic: str, data: bytes, headers: Headers) -> bytes | None:
        known = serializer.known(topic, given, message)
        if known.schema.schema_type is not kind:
            raise SerdeError(f"The registry's schema is of type {known.schema.schema_type}, not {kind}")
        codec = serializer.codec(known.schema)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise SerdeError(f"The {part} is no text: {error}") from error
        value = codec.from_json(text, codec.path_to(message))
        if value is None and kind is not SchemaType.AVRO:
            return None
        return serializer.serialize(topic, value, given, message=message, headers=headers)

    return encode


def _file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the schema file {path} cannot be read: {error}") from error


def _told(settings: SerdeSettings) -> SerdeSettings:
    for each in settings.warnings:
        warn(each)
    return settings


def _refused(error: SerdeError, before: str = "") -> KafkaError:
    code = ErrorCode.NETWORK_EXCEPTION if error.retriable else ErrorCode.INVALID_RECORD
    return KafkaError(code, f"{before}{error}")

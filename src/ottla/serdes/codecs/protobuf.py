"""Protobuf by its descriptors: the schema's text becomes message classes, without generated code."""

from __future__ import annotations

import json
from typing import Any, Protocol, cast

from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ottla.schemas import ParsedSchema
from ottla.serdes.codecs.fields import MessageFields
from ottla.serdes.errors import SerdeError

__all__ = ["ProtobufCodec"]

FIRST = (0,)
_ALIKE_MAX = 100
"""Classes of messages that a schema knows to be its own, or not."""


class _Compiled(Protocol):
    """What a parsed Protobuf schema has beside what every schema has: descriptors."""

    file: Any
    imported: tuple[Any, ...]


class ProtobufCodec:
    """Values are messages, or dictionaries as Protobuf's JSON has them; decoded ones are messages of this schema."""

    def __init__(self, schema: ParsedSchema) -> None:
        compiled = cast(_Compiled, schema)
        self._pool = DescriptorPool()
        self._alike: dict[tuple[Any, tuple[int, ...] | None], bool] = {}
        waiting = {each.name: each for each in compiled.imported}
        try:
            for each in compiled.imported:
                self._add(each, waiting)
            self.file = self._pool.AddSerializedFile(compiled.file.SerializeToString())
            if self.file is None:
                self.file = self._pool.FindFileByName(compiled.file.name)
        except (TypeError, KeyError, DecodeError) as error:
            raise SerdeError(f"The Protobuf schema cannot be used: {error}") from error

    def _add(self, file: Any, waiting: dict[str, Any]) -> None:
        """Add a file behind those that it imports."""
        if waiting.pop(file.name, None) is None:
            return
        for name in file.dependency:
            if name in waiting:
                self._add(waiting[name], waiting)
        self._pool.AddSerializedFile(file.SerializeToString())

    def descriptor(self, indexes: tuple[int, ...] | None = None) -> Any:
        """Return the descriptor of a message's type; raises SerdeError for a path that leads to none."""
        found: Any = None
        for index in indexes or FIRST:
            types = self._top() if found is None else found.nested_types
            if not 0 <= index < len(types):
                raise SerdeError(f"The Protobuf schema has no message at {list(indexes or FIRST)}")
            found = types[index]
        return found

    def _top(self) -> list[Any]:
        return list(self.file.message_types_by_name.values())

    def encode(self, value: Any, indexes: tuple[int, ...] | None = None) -> bytes:
        """See `Codec`."""
        try:
            if not (isinstance(value, Message) and self._is_alike(value.DESCRIPTOR, indexes)):
                value = self.message(value, indexes)
            return cast(bytes, value.SerializeToString(deterministic=True))
        except (EncodeError, ValueError) as error:
            raise SerdeError(f"The message cannot be encoded: {error}") from error

    def _is_alike(self, given: Any, indexes: tuple[int, ...] | None) -> bool:
        """Return whether messages of another class, as of generated code, are this schema's: from the very same file."""
        known = self._alike.get((given, indexes))
        if known is None:
            wanted = self.descriptor(indexes)
            same_file = given.file.serialized_pb == self.file.serialized_pb
            known = given is wanted or (given.full_name == wanted.full_name and same_file)
            if len(self._alike) < _ALIKE_MAX:
                self._alike[given, indexes] = known
        return known

    def message(self, value: Any, indexes: tuple[int, ...] | None = None) -> Message:
        """Return a value as a message of this schema."""
        descriptor = self.descriptor(indexes)
        made: Message = GetMessageClass(descriptor)()
        try:
            if isinstance(value, Message):
                if value.DESCRIPTOR.full_name != descriptor.full_name:
                    named = value.DESCRIPTOR.full_name
                    raise SerdeError(f"The value is a {named}, the schema's message a {descriptor.full_name}")
                if value.DESCRIPTOR is descriptor:
                    return value
                made.ParseFromString(value.SerializeToString())
                return made
            if isinstance(value, MessageFields):
                return cast(Message, GetMessageClass(descriptor)(**value))
            json_format.ParseDict(value, made, max_recursion_depth=100)
        except (
            json_format.ParseError,
            EncodeError,
            DecodeError,
            TypeError,
            AttributeError,
            ValueError,
            KeyError,
        ) as error:
            raise SerdeError(f"The value does not fit the message {descriptor.full_name}: {error}") from error
        return made

    def decode(self, data: bytes, indexes: tuple[int, ...] | None = None) -> Message:
        """See `Codec`."""
        descriptor = self.descriptor(indexes)
        made: Message = GetMessageClass(descriptor)()
        try:
            made.ParseFromString(bytes(data))
        except (DecodeError, ValueError) as error:
            raise SerdeError(f"The bytes are no message {descriptor.full_name}: {error}") from error
        return made

    def to_json(self, value: Any) -> str:
        """See `Codec`: Protobuf's JSON with the fields' own names, those with default values too."""
        return json.dumps(self.to_dict(value), ensure_ascii=False, separators=(",", ":"))

    def to_dict(self, value: Message) -> dict[str, Any]:
        """Return a message as Protobuf's JSON has it."""
        try:
            found: dict[str, Any] = json_format.MessageToDict(
                value,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
        except (json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise SerdeError(f"The message cannot be told in JSON: {error}") from error
        return found

    def from_json(self, text: str, indexes: tuple[int, ...] | None = None) -> Message:
        """See `Codec`."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SerdeError(f"The text is no JSON: {error}") from error
        return self.message(value, indexes)

    def path_to(self, name: str | None) -> tuple[int, ...]:
        """See `Codec`."""
        if not name:
            return FIRST
        package = f"{self.file.package}." if self.file.package else ""
        steps: list[int] = []
        types = self._top()
        for step in name.removeprefix(package).split("."):
            at = next((index for index, each in enumerate(types) if each.name == step), None)
            if at is None:
                raise SerdeError(f"The Protobuf schema has no message {name}")
            steps.append(at)
            types = list(types[at].nested_types)
        return tuple(steps)

    def name(self, indexes: tuple[int, ...] | None = None) -> str | None:
        """See `Codec`."""
        return str(self.descriptor(indexes).full_name)

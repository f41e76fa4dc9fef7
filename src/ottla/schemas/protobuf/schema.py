"""A Protobuf schema with what it imports."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ottla.schemas.interface import InvalidSchemaError, Limits, Resolve, SchemaReference, SchemaType
from ottla.schemas.protobuf.compiler import check_import_name, compiler
from ottla.schemas.protobuf.printing import PLAIN, Style, file_text
from ottla.schemas.protobuf.well_known import IMPLICIT_FILES, is_implicit
from ottla.schemas.references import gather

__all__ = ["ProtobufSchema", "parse_protobuf"]

_MAIN = "default"
_DESCRIPTOR = "google/protobuf/descriptor.proto"
_EXPLICIT_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_STAND_IN = "deprecated_legacy_json_field_conflicts"
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}")


@dataclass(frozen=True, eq=False)
class ProtobufSchema:
    """A Protobuf file; equal are those whose canonical texts are."""

    file: Any
    """Its FileDescriptorProto."""
    imported: tuple[Any, ...]
    """Those of all that it imports, and of what those do."""
    references: tuple[SchemaReference, ...] = ()
    style: Style = PLAIN
    schema_type = SchemaType.PROTOBUF

    @property
    def name(self) -> str | None:
        """Return the full name of its first message, or of its first enum."""
        first = next(iter(self.file.message_type), None) or next(iter(self.file.enum_type), None)
        if first is None:
            return None
        return f"{self.file.package}.{first.name}" if self.file.package else str(first.name)

    def canonical(self) -> str:
        """Return the text that its descriptor stands for: without comments, names as short as they can be."""
        return file_text(self.file, self.imported, self.style)

    def normalized(self) -> ProtobufSchema:
        """Return it with full names, and imports, options, fields and what is reserved in order."""
        ordered = sorted(set(self.references), key=lambda each: (each.subject, each.version, each.name))
        return replace(self, references=tuple(ordered), style=replace(self.style, full_names=True))

    def formatted(self, form: str) -> str:
        """Return its FileDescriptorProto in base64 (`serialized`), the text without extensions, or the canonical one."""
        match form.lower():
            case "serialized":
                return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()
            case "ignore_extensions":
                return file_text(self.file, self.imported, replace(self.style, extensions=False))
        return self.canonical()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProtobufSchema):
            return NotImplemented
        return self.references == other.references and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())


def parse_protobuf(
    text: str, references: Sequence[SchemaReference], resolve: Resolve, *, limits: Limits
) -> ProtobufSchema:
    """Return the schema of a text, or of a FileDescriptorProto in base64; imports are references or everybody's."""
    files: dict[str, str] = dict(IMPLICIT_FILES)
    for reference, each in gather(references, resolve, limits):
        check_import_name(reference.name)
        if reference.name not in files and not is_implicit(reference.name):
            files[reference.name] = _as_text(each.text, files, limits)
    main = _MAIN
    while main in files:
        main += "_"
    file, imported = _compiled(main, {**files, main: _as_text(text, files, limits)}, limits)
    schema = ProtobufSchema(file, imported, tuple(references))
    schema.canonical()  # what has no text is no schema here
    return schema


def _as_text(text: str, files: Mapping[str, str], limits: Limits) -> str:
    """Return a text as it is, or the text that a descriptor in base64 stands for."""
    if _EXPLICIT_ENTRY.search(text):
        return _with_maps(text, files, limits)
    if not _BASE64.fullmatch(text.strip()):
        return text
    try:
        data = base64.b64decode(text)
        file = FileDescriptorProto.FromString(data)
    except (binascii.Error, DecodeError):
        raise InvalidSchemaError("The text is neither Protobuf's language nor a file's descriptor in base64") from None
    file.name = _MAIN
    for name in file.dependency:
        check_import_name(name)
    imports = "".join(f'import "{name}";\n' for name in file.dependency)
    imported: tuple[Any, ...] = ()
    if imports:
        _, imported = _compiled(_MAIN, {**files, _MAIN: f'syntax = "proto3";\n{imports}'}, limits)
    return file_text(_with_options(file, imported), imported)


def _with_maps(text: str, files: Mapping[str, str], limits: Limits) -> str:
    """Return a text with `map<…>` where it has a map's entry as a message, which the compiler takes from nobody.

    Confluent's serializer for Java registers maps so. The option is compiled as another one that has no effect here, and
    is itself again in the descriptor, of which the text is then made.
    """
    if _STAND_IN in text:
        raise InvalidSchemaError(f"map_entry stands beside {_STAND_IN}, which is not taken here")
    marked = _EXPLICIT_ENTRY.sub(f"option {_STAND_IN} = true;", text)
    file, imported = _compiled(_MAIN, {**files, _MAIN: marked}, limits)
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        if message.options.HasField(_STAND_IN):
            message.options.ClearField(_STAND_IN)
            message.options.map_entry = True
    return file_text(file, imported)


def _compiled(main: str, files: Mapping[str, str], limits: Limits) -> tuple[Any, tuple[Any, ...]]:
    """Return the descriptor of a file and those of all that it imports."""
    found = list(FileDescriptorSet.FromString(compiler.compiled(main, files, limits)).file)
    count = sum(len(each.message_type) + len(each.enum_type) + len(each.service) for each in found)
    if count > limits.names_max:
        raise InvalidSchemaError(f"There are more than {limits.names_max} types")
    file = next(each for each in found if each.name == main)
    imported = tuple(each for each in found if each is not file)
    file.name = _MAIN
    return _with_options(file, imported), imported


def _with_options(file: FileDescriptorProto, imported: Sequence[Any]) -> Any:
    """Return a descriptor that knows the options which it and its imports define."""
    if all(each.name != _DESCRIPTOR for each in imported):
        return file
    pool = DescriptorPool()
    try:
        for each in (*imported, file):
            pool.Add(each)
        known = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
        return known.FromString(file.SerializeToString())
    except (TypeError, KeyError, DecodeError) as error:
        raise InvalidSchemaError(f"Invalid Protobuf schema: {error}") from None

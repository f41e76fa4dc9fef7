"""Options of Protobuf's descriptors as text."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.text_encoding import CEscape

from ottla.schemas.protobuf.names import Names

__all__ = ["option_texts", "quoted"]

_MAP_ENTRY = "map_entry"


def quoted(text: str) -> str:
    """Return text between quotes, escaped as Protobuf's compiler reads it."""
    return f'"{CEscape(text, as_utf8=True)}"'


def option_texts(options: Any, names: Names, scope: str, *, extensions: bool) -> list[str]:
    """Return `name = value` for each option that is set, and for each value of one that repeats."""
    found = []
    for descriptor, value in options.ListFields():
        if descriptor.name == _MAP_ENTRY and not descriptor.is_extension:
            continue
        if descriptor.is_extension and not extensions:
            continue
        name = f"({names.extension_said(descriptor.full_name, scope)})" if descriptor.is_extension else descriptor.name
        values = value if _repeats(descriptor) else [value]
        found += [f"{name} = {_value(descriptor, each)}" for each in values]
    return found


def _repeats(descriptor: Any) -> bool:
    return bool(descriptor.is_repeated)


def _value(descriptor: Any, value: Any) -> str:
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        text = text_format.MessageToString(value, as_one_line=True, as_utf8=True)
        return f"{{ {text} }}" if text else "{}"
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = descriptor.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return f'"{CEscape(value, as_utf8=isinstance(value, str))}"'
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)

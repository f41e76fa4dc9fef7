"""Messages as JSON values, in the form of Kafka's tools: camel-case names, ids and bytes in base64."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ottla.base import Uuid, uuid_text
from ottla.wire.message import Field, Message

__all__ = ["json_form"]


def json_form(message: Message, version: int) -> dict[str, Any]:
    """Return a message's fields of one version; a tagged field that has its default is left out."""
    defaults = type(message)()
    found: dict[str, Any] = {}
    for field in message.FIELDS:
        if field.versions is None or not field.versions[0] <= version <= field.versions[1]:
            continue
        value = getattr(message, field.name)
        tagged = field.tagged is not None and field.tagged[0] <= version <= field.tagged[1]
        absent = field.kind == "struct" and value is None  # to Kafka a tagged struct's default is an empty one
        if absent or not (tagged and _same(value, getattr(defaults, field.name))):
            found[field.json_name] = _value(field, value, version)
    return found


def _same(value: Any, default: Any) -> bool:
    if isinstance(default, tuple) and value is not None:
        return len(value) == len(default)
    return bool(value == default)


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.kind.startswith("[]"):
        element = field._replace(kind=field.kind[2:])
        return [_value(element, each, version) for each in value]
    if field.kind == "struct":
        return json_form(value, version)
    if field.kind == "uuid":
        return uuid_text(Uuid(value))
    if field.kind in ("bytes", "records"):
        return b64encode(value).decode()
    return value

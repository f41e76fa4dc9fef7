"""A Protobuf message's fields, for who makes messages of many."""

from __future__ import annotations

from typing import Any

__all__ = ["MessageFields"]


class MessageFields(dict[str, Any]):
    """The fields of a Protobuf message as Python's own values: bytes are bytes, messages and maps dictionaries.

    It is encoded sooner than a dictionary of Protobuf's JSON. A field that is not there is not set.
    """

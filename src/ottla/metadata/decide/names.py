"""Which names a topic may have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError

__all__ = ["colliding", "collision_key", "validate_topic_name"]

TOPIC_NAME_LENGTH_MAX = 249
"""With `-` and a partition's index behind it, the name of a folder stays within 255 bytes."""

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for a name that no topic may have."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    elif _ALLOWED.fullmatch(name) is None:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Return what two names share that metric names cannot tell apart: there, a dot becomes an underscore."""
    return name.replace(".", "_")


def colliding(name: str, names: Iterable[str]) -> str | None:
    """Return the first of these names, in sorted order, that differs from this one only in dots and underscores."""
    if "." not in name and "_" not in name:
        return None
    key = collision_key(name)
    return min((each for each in names if each != name and collision_key(each) == key), default=None)

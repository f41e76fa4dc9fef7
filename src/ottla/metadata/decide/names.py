"""Which names a topic may have."""

from __future__ import annotations

import re

from ottla.base import ErrorCode, KafkaError

__all__ = ["collision_key", "may_collide", "validate_topic_name"]

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


def may_collide(name: str) -> bool:
    """Return whether another name can differ from this one in dots and underscores only."""
    return "." in name or "_" in name

"""What StandardAuthorizer is told: keys that are its own, so that Kafka's tables of keys do not have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base import ConfigError

__all__ = ["AUTHORIZER_KEYS", "Authorization"]

SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
AUTHORIZER_KEYS = frozenset({SUPER_USERS, ALLOW_EVERYONE})
"""Keys that are the authorizer's."""
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Authorization:
    """The authorizer's keys, read."""

    super_users: str
    """Principals, divided by `;`."""
    allows_everyone_by_default: bool
    """Whether what no entry is about is allowed to everyone."""

    @classmethod
    def of(cls, static: Mapping[str, str]) -> Authorization:
        """Read them; raises ConfigError for what is neither true nor false."""
        text = static.get(ALLOW_EVERYONE, "false")
        default = _TRUTHS.get(text.strip().lower())
        if default is None:
            raise ConfigError(ALLOW_EVERYONE, text, "must be true or false")
        return cls(static.get(SUPER_USERS, ""), default)

"""HTTP's basic authentication (RFC 7617): names and their passwords, for every service here that asks for logins."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base import ConfigError
from ottla.config import parse_properties

__all__ = ["BasicLogins", "logins_of_file"]

NOBODY = "x" * 32
"""What the password of an unknown name is compared with, so that asking takes the same time."""


@dataclass(frozen=True, slots=True)
class BasicLogins:
    """Names and their passwords."""

    passwords: Mapping[str, str] = field(repr=False)

    def admit(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` header has a name of these and its password."""
        kind, _, given = (authorization or "").strip().partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
        except ValueError:
            return False
        wanted = self.passwords.get(name)
        is_right = hmac.compare_digest((NOBODY if wanted is None else wanted).encode(), password.encode())
        return is_right and wanted is not None and bool(colon)


def logins_of_file(key: str, place: str) -> BasicLogins:
    """Return the logins of a file that a setting names; raises ConfigError, which repeats nothing of the file."""
    try:
        text = Path(place).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(key, place, "a file that can be read") from error
    try:
        passwords = parse_properties(text)
    except ConfigError:
        passwords = {}  # the error would show what stands there
    if not passwords:
        raise ConfigError(key, place, "a file of lines like name=password, which is not empty")
    return BasicLogins(passwords)

"""HTTP's basic authentication (RFC 7617): names and their passwords, for every service here that asks for logins."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BasicLogins"]

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

"""What members of the group say of themselves, and what its leader tells them: Confluent's JSON of the protocol `sr`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from ottla.client import JoinedMember

__all__ = ["PROTOCOL", "PROTOCOL_TYPE", "Assignment", "Identity", "assign", "read_assignment"]

PROTOCOL_TYPE, PROTOCOL = "sr", "v0"
VERSION = 1
NO_ERROR, DUPLICATE_URLS = 0, 1
_HOST = re.compile(r"[A-Za-z0-9_.\-]{1,253}")
SHOWN_MAX = 500


@dataclass(frozen=True, slots=True)
class Identity:
    """Where an instance answers, and whether it may be the primary."""

    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The address of its interface."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{shown}:{self.port}"

    def json(self) -> dict[str, Any]:
        """Return it as members send it."""
        return {
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "version": VERSION,
        }

    def encoded(self) -> bytes:
        """Return its bytes."""
        return json.dumps(self.json(), separators=(",", ":")).encode()

    @classmethod
    def of(cls, found: object) -> Identity:
        """Read one; raises ValueError."""
        if not isinstance(found, dict) or not isinstance(found.get("host"), str):
            raise ValueError(f"{found!r} names no instance"[:SHOWN_MAX])
        eligible = found.get("master_eligibility", found.get("leader_eligibility", True))
        port, scheme = int(found["port"]), str(found.get("scheme") or "http")
        if not _is_host(found["host"]) or not 0 < port < 65536 or scheme not in ("http", "https"):
            raise ValueError(f"{found!r} names no address of an instance"[:SHOWN_MAX])
        return cls(found["host"], port, bool(eligible), scheme)


def _is_host(text: str) -> bool:
    """Return whether this is a name or an address, and no login, path or port with it."""
    try:
        return _HOST.fullmatch(text) is not None or ":" in str(ip_address(text))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who the primary is; nobody where no member may be."""

    member_id: str = ""
    primary: Identity | None = None
    error: int = NO_ERROR

    def encoded(self) -> bytes:
        """Return its bytes."""
        found: dict[str, Any] = {"error": self.error}
        if self.primary is not None:
            found |= {"master": self.member_id, "master_identity": self.primary.json()}
        return json.dumps({**found, "version": VERSION}, separators=(",", ":")).encode()


def read_assignment(data: bytes) -> Assignment:
    """Read an assignment; raises ValueError."""
    found = json.loads(data or b"{}")
    if not isinstance(found, dict):
        raise ValueError("the assignment is no object")
    identity = found.get("master_identity") or found.get("leader_identity")
    primary = None if identity is None else Identity.of(identity)
    return Assignment(str(found.get("master") or found.get("leader") or ""), primary, int(found.get("error") or 0))


def assign(members: Sequence[JoinedMember], last: str = "") -> Assignment:
    """Return who is to be the primary: whoever was, or the first by address of those that may be."""
    found: dict[str, Identity] = {}
    for each in members:
        try:
            found[each.member_id] = Identity.of(json.loads(each.metadata))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    urls = [each.url for each in found.values()]
    if len(set(urls)) < len(urls):
        return Assignment(error=DUPLICATE_URLS)
    eligible = {member: each for member, each in found.items() if each.is_eligible}
    if not eligible:
        return Assignment()
    chosen = last if last in eligible else min(eligible, key=lambda member: eligible[member].url)
    return Assignment(chosen, eligible[chosen])

"""Texts as java.net.URI takes them apart (RFC 2396 with what Java adds to it)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from ottla.sql.errors import EvaluationError

_UNRESERVED = r"A-Za-z0-9_.!~*'()\-"
_OTHER = r"[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x21-\x7e]"
"""Characters beyond ASCII, but for spaces and controls."""


def _chars(more: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[{_UNRESERVED}{more}]|%[0-9A-Fa-f]{{2}}|{_OTHER})*")


_URIC = _chars(r";/?:@&=+$,\[\]")
_PATH = _chars(r":@&=+$,;/")
_REGISTRY = _chars(r"$,;:@&=+")
_USER = _chars(r";:&=+$,")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?")
_NUMBERS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_BRACKETS = re.compile(r"\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.\-]+)?\]")
_PARTS = re.compile(r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?", re.DOTALL)
PORT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of a URI, those that may hold escapes without them; None for what is not there."""

    scheme: str | None
    host: str | None
    port: int | None
    path: str | None
    query: str | None
    fragment: str | None


def uri_of(text: str) -> Uri:
    """Take a URI apart; raises EvaluationError for a text that is none."""
    scheme, rest = _scheme(text)
    if scheme is not None and not rest.startswith("/"):
        opaque, _, fragment = rest.partition("#")
        if not opaque:
            raise _refused(text)
        _check(_URIC, opaque, text)
        _check(_URIC, fragment, text)
        return Uri(scheme, None, None, None, None, _decoded(fragment) if "#" in rest else None)
    authority = None
    if rest.startswith("//"):
        end = next((at for at, each in enumerate(rest[2:], 2) if each in "/?#"), len(rest))
        authority, rest = rest[2:end], rest[end:]
        if not authority and not rest:
            raise _refused(text)
    found = _PARTS.fullmatch(rest)
    assert found is not None, rest
    _check(_PATH, found["path"], text)
    for part in (found["query"], found["fragment"]):
        _check(_URIC, part or "", text)
    host, port = _server(authority, text) if authority else (None, None)
    return Uri(scheme, host, port, _decoded(found["path"]), _decoded(found["query"]), _decoded(found["fragment"]))


def _refused(text: str) -> EvaluationError:
    return EvaluationError(f"URL input has invalid syntax: {text}")


def _scheme(text: str) -> tuple[str | None, str]:
    end = next((at for at, each in enumerate(text) if each in "/?#:"), None)
    if end is None or text[end] != ":":
        return None, text
    if not _SCHEME.fullmatch(text[:end]):
        raise _refused(text)
    return text[:end], text[end + 1 :]


def _check(allowed: re.Pattern[str], part: str, text: str) -> None:
    if not allowed.fullmatch(part):
        raise _refused(text)


def _server(authority: str, text: str) -> tuple[str | None, int | None]:
    """Host and port; neither for an authority that is a name of a registry."""
    user, at, server = authority.rpartition("@")
    if not at or _USER.fullmatch(user):
        bracket = server.rfind("]")
        colon = server.rfind(":") if server.rfind(":") > bracket else -1
        host, port = (server, "") if colon < 0 else (server[:colon], server[colon + 1 :])
        if _is_host(host) and (not port or (port.isascii() and port.isdigit() and int(port) <= PORT_MAX)):
            return host, int(port) if port else None
    _check(_REGISTRY, authority, text)
    return None, None


def _is_host(host: str) -> bool:
    if _NUMBERS.fullmatch(host):
        return all(int(each) < 256 for each in host.split("."))
    return _NAME.fullmatch(host) is not None or _BRACKETS.fullmatch(host) is not None


def _decoded(part: str | None) -> str | None:
    return None if part is None else unquote(part, errors="replace") if "%" in part else part

"""Functions of URLs. A part that a URL does not have is null; what is no URL is an error."""

from __future__ import annotations

import re
from urllib.parse import quote_plus, unquote_plus

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_uri import uri_of
from ottla.sql.functions.registry import scalar

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@scalar("URL_EXTRACT_PROTOCOL", "STRING -> STRING")
def url_protocol(url: str) -> str | None:
    """The protocol of a URL."""
    return uri_of(url).scheme


@scalar("URL_EXTRACT_HOST", "STRING -> STRING")
def url_host(url: str) -> str | None:
    """The host of a URL."""
    return uri_of(url).host


@scalar("URL_EXTRACT_PORT", "STRING -> INTEGER")
def url_port(url: str) -> int | None:
    """The port of a URL."""
    return uri_of(url).port


@scalar("URL_EXTRACT_PATH", "STRING -> STRING")
def url_path(url: str) -> str | None:
    """The path of a URL."""
    return uri_of(url).path


@scalar("URL_EXTRACT_QUERY", "STRING -> STRING")
def url_query(url: str) -> str | None:
    """The query of a URL."""
    return uri_of(url).query


@scalar("URL_EXTRACT_FRAGMENT", "STRING -> STRING")
def url_fragment(url: str) -> str | None:
    """The fragment of a URL."""
    return uri_of(url).fragment


@scalar("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def url_parameter(url: str, name: str) -> str | None:
    """The value of a parameter of a URL's query; empty for one that has none."""
    pairs = (each.partition("=") for each in (uri_of(url).query or "").split("&") if each)
    return next((value for key, _, value in pairs if key == name), None)


@scalar("URL_ENCODE_PARAM", "STRING -> STRING")
def url_encode(text: str) -> str:
    """A text as it may stand in a URL's query."""
    return quote_plus(text, safe="*-._", errors="replace").replace("~", "%7E")


@scalar("URL_DECODE_PARAM", "STRING -> STRING")
def url_decode(text: str) -> str:
    """What a text of a URL's query says."""
    if _BROKEN_ESCAPE.search(text):
        raise EvaluationError(f"URLDecoder: Illegal hex characters in escape (%) pattern: {text}")
    return unquote_plus(text)

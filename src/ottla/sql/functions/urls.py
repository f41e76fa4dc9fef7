"""Functions of URLs. A part that a URL does not have is null; what is no URL is an error."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, quote_plus, unquote_plus, urlsplit

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.registry import scalar


def _split(url: str) -> SplitResult:
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError as error:
        raise EvaluationError(f"URL input has invalid syntax: {url} ({error})") from None
    if any(each in url for each in ' "<>\\^`{|}'):
        raise EvaluationError(f"URL input has invalid syntax: {url}")
    return found


@scalar("URL_EXTRACT_PROTOCOL", "STRING -> STRING")
def url_protocol(url: str) -> str | None:
    """The protocol of a URL."""
    return _split(url).scheme or None


@scalar("URL_EXTRACT_HOST", "STRING -> STRING")
def url_host(url: str) -> str | None:
    """The host of a URL."""
    host = _split(url).netloc.rpartition("@")[2]
    return host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdecimal() else host or None


@scalar("URL_EXTRACT_PORT", "STRING -> INTEGER")
def url_port(url: str) -> int | None:
    """The port of a URL."""
    return _split(url).port


@scalar("URL_EXTRACT_PATH", "STRING -> STRING")
def url_path(url: str) -> str:
    """The path of a URL."""
    return _split(url).path


@scalar("URL_EXTRACT_QUERY", "STRING -> STRING")
def url_query(url: str) -> str | None:
    """The query of a URL."""
    return unquote_plus(_split(url).query) or None


@scalar("URL_EXTRACT_FRAGMENT", "STRING -> STRING")
def url_fragment(url: str) -> str | None:
    """The fragment of a URL."""
    return unquote_plus(_split(url).fragment) or None


@scalar("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def url_parameter(url: str, name: str) -> str | None:
    """The value of a parameter of a URL's query."""
    pairs = parse_qsl(_split(url).query, keep_blank_values=True)
    return next((value for key, value in pairs if key == name), None)


@scalar("URL_ENCODE_PARAM", "STRING -> STRING")
def url_encode(text: str) -> str:
    """A text as it may stand in a URL's query."""
    return quote_plus(text, safe="*-._").replace("~", "%7E")


@scalar("URL_DECODE_PARAM", "STRING -> STRING")
def url_decode(text: str) -> str:
    """What a text of a URL's query says."""
    return unquote_plus(text)

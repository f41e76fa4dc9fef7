"""Lines of text → keys, values and headers, by the rules of Kafka's LineMessageReader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError

__all__ = ["Line", "LineReader", "LineRules"]

Headers = list[tuple[str, bytes | None]]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


@dataclass(frozen=True, slots=True)
class Line:
    """What one line stands for."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    topic: str | None = None
    """None means the command's own topic."""
    partition: int = -1
    """-1 leaves the choice to the producer."""
    timestamp: int = 0
    """In ms since 1970; 0 means now."""


@dataclass(frozen=True, slots=True)
class LineRules:
    """How a line is cut; the defaults are Kafka's."""

    parse_key: bool = False
    parse_headers: bool = False
    ignore_error: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LineRules:
        """Read `--reader-property` values; raises KafkaError for separators that cannot be told apart."""

        def flag(name: str) -> bool:
            return properties.get(name, "false").strip().lower() == "true"

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        rules = cls(
            parse_key=flag("parse.key"),
            parse_headers=flag("parse.headers"),
            ignore_error=flag("ignore.error"),
            key_separator=text("key.separator", "\t"),
            headers_delimiter=text("headers.delimiter", "\t"),
            headers_separator=text("headers.separator", ","),
            headers_key_separator=text("headers.key.separator", ":"),
            null_marker=properties["null.marker"].encode() if "null.marker" in properties else None,
        )
        rules.check()
        return rules

    def check(self) -> None:
        """Raise KafkaError where two separators are equal."""
        pairs = [
            ("headers.delimiter", self.headers_delimiter, "headers.separator", self.headers_separator),
            ("headers.delimiter", self.headers_delimiter, "headers.key.separator", self.headers_key_separator),
            ("headers.separator", self.headers_separator, "headers.key.separator", self.headers_key_separator),
            ("null.marker", self.null_marker, "key.separator", self.key_separator),
            ("null.marker", self.null_marker, "headers.separator", self.headers_separator),
            ("null.marker", self.null_marker, "headers.delimiter", self.headers_delimiter),
            ("null.marker", self.null_marker, "headers.key.separator", self.headers_key_separator),
        ]
        for name, value, other_name, other in pairs:
            if value == other:
                raise _refused(f"{name} and {other_name} may not be equal")


class LineReader:
    """Cuts lines and counts them, so that an error says where."""

    def __init__(self, rules: LineRules) -> None:
        self._rules = rules
        self._number = 0

    def read(self, lines: Iterable[bytes]) -> Iterator[Line]:
        """Yield what the lines stand for; raises KafkaError at the first that lacks a separator."""
        for line in lines:
            self._number += 1
            yield self.cut(line.rstrip(b"\n").removesuffix(b"\r"))

    def cut(self, line: bytes) -> Line:
        """Return one line's key, value and headers."""
        rules = self._rules
        headers, rest = None, line
        if rules.parse_headers:
            headers, rest = self._take(line, rest, rules.headers_delimiter, "headers delimiter")
        key = None
        if rules.parse_key:
            key, rest = self._take(line, rest, rules.key_separator, "key separator")
        return Line(
            key=None if key == rules.null_marker else key,
            value=None if rest == rules.null_marker else rest,
            headers=[] if headers is None or headers == rules.null_marker else self._headers(headers),
        )

    def _take(self, line: bytes, rest: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        taken, found, after = _cut(rest, separator)
        if found:
            return taken, after
        if self._rules.ignore_error:
            return None, rest
        shown = line.decode(errors="replace")
        raise _refused(f"No {name} found on line number {self._number}: '{shown}'")

    def _headers(self, text: bytes) -> Headers:
        separator = self._rules.headers_separator
        if separator:
            return [self._header(pair) for pair in text.split(separator)]
        characters = text.decode(errors="surrogateescape") or [""]
        return [self._header(each.encode(errors="surrogateescape")) for each in characters]

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        rules = self._rules
        key, found, value = _cut(pair, rules.headers_key_separator)
        if not found and not rules.ignore_error:
            shown = pair.decode(errors="replace")
            raise _refused(f"No header key separator found in pair '{shown}' on line number {self._number}")
        if rules.null_marker is not None and key == rules.null_marker:
            marker = rules.null_marker.decode(errors="replace")
            raise _refused(f"Header keys should not be equal to the null marker '{marker}' as they can't be null")
        no_value = not found or value == rules.null_marker
        return key.decode(errors="replace"), None if no_value else value


def _cut(text: bytes, separator: bytes) -> tuple[bytes, bool, bytes]:
    """Return what is before a separator, whether it is there, and what is behind it; an empty one is at the beginning."""
    if not separator:
        return b"", True, text
    before, found, after = text.partition(separator)
    return before, bool(found), after

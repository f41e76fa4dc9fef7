"""Wildcards of whole texts, as in LIKE: one sign for any characters and one for a single character."""

from __future__ import annotations

from ottla.java.regex.errors import PatternError
from ottla.java.regex.patterns import JavaPattern, compile_java

__all__ = ["Wildcards"]

_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_TERMINATORS = "\n\r\u0085\u2028\u2029"


class Wildcards:
    """A pattern of LIKE. `in_line`: its wildcards stand for characters of one line only, as Java's dot does."""

    def __init__(self, pattern: str, escape: str | None = None, *, in_line: bool = False) -> None:
        """Raises PatternError where the last character escapes nothing, and for a pattern that is too long."""
        parts: list[str] = []
        escaped = False
        pieces: list[list[str]] = [[]]
        has_single = False
        for each in pattern:
            if escaped or each not in ("%", "_", escape):
                parts.append(f"\\{each}" if each in _SPECIAL else each)
                pieces[-1].append(each)
                escaped = False
            elif each == escape:
                escaped = True
            elif each == "%":
                parts.append(".*")
                pieces.append([])
            else:
                parts.append(".")
                has_single = True
        if escaped:
            raise PatternError("The pattern must not end with the escape character")
        self._pieces = None if has_single else ["".join(each) for each in pieces]
        """What stands between signs for any characters; None where there are signs for a single one."""
        self._in_line = in_line
        self._pattern: JavaPattern = compile_java(("" if in_line else "(?s)") + "".join(parts))

    @property
    def pattern(self) -> str:
        """Return it as a regular expression of Java's."""
        return self._pattern.pattern

    def matches(self, text: str) -> bool:
        """Return whether a whole text matches, in time linear in it; raises PatternCostError."""
        pieces = self._pieces
        if pieces is None or (self._in_line and any(each in text for each in _TERMINATORS)):
            return self._pattern.fullmatch(text) is not None
        if len(pieces) == 1:
            return text == pieces[0]
        first, *inner, last = pieces
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for each in inner:
            at = text.find(each, at, end)
            if at < 0:
                return False
            at += len(each)
        return True

"""Replacements as `Matcher.replaceAll` reads them: `$1`, `${name}`, and backslashes before what is literal."""

from __future__ import annotations

from ottla.java.regex.errors import PatternError
from ottla.java.regex.patterns import Found, JavaPattern

__all__ = ["Replacement"]

_DIGITS = "0123456789"


class Replacement:
    """What is written in the place of a match."""

    def __init__(self, text: str, pattern: JavaPattern) -> None:
        """Raises PatternError for a reference to a group that the pattern has not."""
        self._parts: list[str | int] = []
        self._pattern = pattern
        at = 0
        while at < len(text):
            each = text[at]
            at += 1
            if each == "\\":
                if at == len(text):
                    raise PatternError("character to be escaped is missing")
                self._parts.append(text[at])
                at += 1
            elif each == "$":
                at = self._reference(text, at)
            else:
                self._parts.append(each)

    def __call__(self, found: Found) -> str:
        return "".join(each if isinstance(each, str) else found[each] or "" for each in self._parts)

    def _reference(self, text: str, at: int) -> int:
        """Take a reference behind its `$`, and return where it ends."""
        pattern = self._pattern
        if at == len(text):
            raise PatternError("Illegal group reference: group index is missing")
        if text[at] == "{":
            end = text.find("}", at)
            name = text[at + 1 : end] if end > 0 else ""
            if not name or not name.isidentifier():
                raise PatternError("named capturing group is missing trailing '}' or a name")
            if name not in pattern.groupindex:
                raise PatternError(f"No group with name {{{name}}}")
            self._parts.append(pattern.groupindex[name])
            return end + 1
        if text[at] not in _DIGITS:
            raise PatternError("Illegal group reference")
        number, end = int(text[at]), at + 1
        if number > pattern.groups:
            raise PatternError(f"No group {number}")
        while end < len(text) and text[end] in _DIGITS and number * 10 + int(text[end]) <= pattern.groups:
            number, end = number * 10 + int(text[end]), end + 1
        self._parts.append(number)
        return end

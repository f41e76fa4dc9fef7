"""Java's regular expressions and replacements in Python's, for what configurations hold of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.connect.errors import IllegalArgumentError

__all__ = ["compile_java", "replacement_of"]

_CLASSES = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Lower": "a-z",
    "Upper": "A-Z",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "XDigit": "0-9a-fA-F",
    "Blank": r" \t",
    "L": "a-zA-ZÀ-ÖØ-öø-ÿ",
    "Lu": "A-ZÀ-ÖØ-Þ",
    "Ll": "a-zß-öø-ÿ",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "a-zA-ZÀ-ÖØ-öø-ÿ",
    "IsDigit": "0-9",
}
_TOKEN = re.compile(r"\\Q(.*?)(?:\\E|$)|\\([pP])\{(\w+)\}|\\(.)|(\(\?<)(?![=!])|(\[)|(\])|.", re.DOTALL)


def compile_java(pattern: str) -> re.Pattern[str]:
    """Return Java's pattern as Python's; raises re.error for what is no pattern or has no counterpart."""
    written: list[str] = []
    depth = 0
    for found in _TOKEN.finditer(pattern):
        if found[1] is not None:
            written.append(re.escape(found[1]))
        elif found[2]:
            written.append(_class_of(found[2], found[3], inside=depth > 0))
        elif found[4]:
            written.append({"h": r"[ \t]", "z": r"\Z", "Z": r"(?=\n?\Z)"}.get(found[4], found[0]))
        elif found[5]:
            written.append("(?P<")
        else:
            depth += bool(found[6]) - bool(found[7] and depth)
            if depth > 1 or (depth and pattern.startswith("&&", found.start())):
                raise re.error("character classes within classes have no counterpart here", pattern, found.start())
            written.append(found[0])
    return re.compile("".join(written), re.ASCII)


def _class_of(letter: str, name: str, *, inside: bool) -> str:
    members = _CLASSES.get(name)
    if members is None or (inside and letter == "P"):
        raise re.error(f"Unknown character property name {{{name}}}")
    return members if inside else f"[{'^' if letter == 'P' else ''}{members}]"


def replacement_of(replacement: str, groups: int) -> Callable[[re.Match[str]], str]:
    """Return what makes Java's replacement text of a match: `$1`, `${name}` and backslashes before what is literal."""
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\":
            if at + 1 == len(replacement):
                raise IllegalArgumentError("character to be escaped is missing")
            parts.append(replacement[at + 1])
            at += 2
        elif character == "$":
            part, at = _reference(replacement, at + 1, groups)
            parts.append(part)
        else:
            parts.append(character)
            at += 1
    named = {index: part[1:] for index, part in enumerate(parts) if isinstance(part, str) and part[:1] == "\0"}

    def make(found: re.Match[str]) -> str:
        written = ""
        for index, part in enumerate(parts):
            if isinstance(part, int):
                written += found[part] or ""
            else:
                written += (found[named[index]] or "") if index in named else part
        return written

    return make


def _reference(replacement: str, at: int, groups: int) -> tuple[str | int, int]:
    """Read a reference behind its `$`: a group's number, or a null character and its name."""
    named = re.compile(r"\{([a-zA-Z]\w*)\}").match(replacement, at)
    if named:
        return "\0" + named[1], named.end()
    if at == len(replacement):
        raise IllegalArgumentError("Illegal group reference: group index is missing")
    if not replacement[at].isdigit():
        raise IllegalArgumentError("Illegal group reference")
    number, end = int(replacement[at]), at + 1
    if number > groups:
        raise IllegalArgumentError(f"No group {number}")
    while end < len(replacement) and replacement[end].isdigit() and number * 10 + int(replacement[end]) <= groups:
        number, end = number * 10 + int(replacement[end]), end + 1
    return number, end

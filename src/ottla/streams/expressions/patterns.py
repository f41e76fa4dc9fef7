"""Patterns of LIKE and of Java's regular expressions, as far as Spark's say the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ottla.java import JavaPattern, PatternError, Wildcards, compile_java
from ottla.streams.expressions.kinds import Refused

__all__ = ["java_pattern", "java_split", "like_pattern"]

_TOKEN = re.compile(
    r"\\(?P<escape>.)|\[(?P<class>\^?(?:\\[dws.\-\]\[/]|[A-Za-z0-9_ ,;:=@#%/!<>.+*?$(){}|-])+)\]"
    r"|(?P<many>[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<or>\|)|(?P<dot>\.)|(?P<start>\^)"
    r"|(?P<plain>[A-Za-z0-9 _,;:=@#%&'\"<>~`!/-])"
)


def like_pattern(text: str) -> Callable[[str], bool]:
    """Return what says whether a text is like a pattern without escapes."""
    if "\\" in text:
        raise Refused(f"like with an escape ({text!r}) is not known here")
    try:
        return Wildcards(text).matches
    except PatternError as problem:
        raise Refused(f"like {text!r} is not known here ({problem})") from None


def java_pattern(text: str) -> Callable[[str], bool]:
    """Return what says whether a text has a match of a regular expression of Java's; raises Refused for what is not known.

    Known are plain characters, classes of them, `.`, `^`, groups, alternatives and greedy repetitions.
    """
    return _Finding(_known(text))


def java_split(text: str) -> Callable[[str], list[str]]:
    """Return what splits a text at the matches of a regular expression, as Java's `String.split` with a limit of -1.

    Raises Refused for what `java_pattern` refuses, and for what matches nothing at all: Java looks for that between the
    halves of a character, too.
    """
    pattern = _known(text)
    if pattern.search("") is not None:
        raise Refused(f"split by the regular expression {text!r}, which matches an empty text, is not known here")
    return _Splitting(pattern)


def _known(text: str) -> JavaPattern:
    """Return a regular expression that is known; raises Refused for others."""
    at, repeatable = 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found.lastgroup == "many" and not repeatable):
            raise Refused(f"the regular expression {text!r} is not known here (at {at})")
        _check(found)
        repeatable = found.lastgroup not in ("many", "open", "or", "start")
        at = found.end()
    try:
        return compile_java(text)
    except PatternError as problem:
        raise Refused(f"the regular expression {text!r} is not known here ({problem})") from None


@dataclass(frozen=True, slots=True)
class _Finding:
    pattern: JavaPattern

    def __call__(self, text: str) -> bool:
        return self.pattern.search(text) is not None


@dataclass(frozen=True, slots=True)
class _Splitting:
    pattern: JavaPattern

    def __call__(self, text: str) -> list[str]:
        parts, at = [], 0
        for found in self.pattern.finditer(text):
            parts.append(text[at : found.start()])
            at = found.end()
        parts.append(text[at:])
        return parts


def _check(found: re.Match[str]) -> None:
    kind, said = found.lastgroup, found.group()
    if kind == "escape":
        sign = found["escape"]
        if sign not in "dwsDWS" and (sign.isalnum() or ord(sign) > 126):
            raise Refused(f"\\{sign} in a regular expression is not known here")
    if kind == "class" and ("--" in said or re.search(r"&&|\|\||~~", said)):
        raise Refused(f"the class {said} in a regular expression is not known here")

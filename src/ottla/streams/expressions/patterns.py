"""Patterns of LIKE and of Java's regular expressions, as far as Spark's say the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ottla.java import JavaPattern, PatternError, Replacement, Wildcards, compile_java
from ottla.streams.expressions.kinds import Refused

__all__ = [
    "java_count",
    "java_extract",
    "java_extract_all",
    "java_pattern",
    "java_replace",
    "java_split",
    "like_pattern",
]

_EMPTY_PLACES = re.compile(r"\\[bB]")
"""What may match a place between two characters, and no empty text."""


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

    Known is what RE2 runs: all but looking around, references back, possessive repetitions and atomic groups.
    """
    return _Finding(_known(text))


def java_split(text: str, limit: int = -1) -> Callable[[str], list[str]]:
    """Return what splits a text at the matches of a regular expression, as Java's `String.split` with a limit (-1: none).

    Raises Refused for what `java_pattern` refuses, and for what matches nothing at all: Java looks for that between the
    halves of a character, too.
    """
    return _Splitting(_not_empty("split", text), limit)


def java_replace(text: str, new: str) -> Callable[[str], str]:
    """Return what puts a replacement, with `$1` and the like, in the place of each match, as `Matcher.replaceAll` does."""
    pattern = _not_empty("regexp_replace", text)
    try:
        return _Replacing(pattern, Replacement(new, pattern))
    except PatternError as problem:
        raise Refused(f"the replacement {new!r} is not known here ({problem})") from None


def java_extract(text: str, group: int) -> Callable[[str], str]:
    """Return what finds a group of the first match: empty where there is none."""
    return _Extracting(_with_group(_known(text), group), group)


def java_extract_all(text: str, group: int) -> Callable[[str], list[str]]:
    """Return what finds a group of all matches."""
    return _ExtractingAll(_with_group(_not_empty("regexp_extract_all", text), group), group)


def java_count(text: str) -> Callable[[str], int]:
    """Return what counts matches."""
    return _Counting(_not_empty("regexp_count", text))


def _with_group(pattern: JavaPattern, group: int) -> JavaPattern:
    if not 0 <= group <= pattern.groups:
        raise Refused(f"group {group} of {pattern.pattern!r}, which has {pattern.groups}, is not known here")
    return pattern


def _known(text: str) -> JavaPattern:
    """Return a regular expression that is known; raises Refused for others."""
    try:
        pattern = compile_java(text)
    except PatternError as problem:
        raise Refused(f"the regular expression {text!r} is not known here ({problem})") from None
    if pattern.not_linear is not None:  # it may be given up for its time, which Spark does not
        raise Refused(f"the regular expression {text!r} is not known here ({pattern.not_linear})")
    return pattern


def _not_empty(name: str, text: str) -> JavaPattern:
    """Return a known expression that matches no empty text: Java finds one between the halves of a character, too."""
    pattern = _known(text)
    if pattern.search("") is not None or _EMPTY_PLACES.search(text):
        raise Refused(f"{name} by the regular expression {text!r}, which matches an empty text, is not known here")
    return pattern


@dataclass(frozen=True, slots=True)
class _Finding:
    pattern: JavaPattern

    def __call__(self, text: str) -> bool:
        return self.pattern.search(text) is not None


@dataclass(frozen=True, slots=True)
class _Splitting:
    pattern: JavaPattern
    limit: int

    def __call__(self, text: str) -> list[str]:
        parts, at = list[str](), 0
        for found in self.pattern.finditer(text):
            if len(parts) == self.limit - 1:
                break
            parts.append(text[at : found.start()])
            at = found.end()
        parts.append(text[at:])
        return parts


@dataclass(frozen=True, slots=True)
class _Replacing:
    pattern: JavaPattern
    new: Replacement

    def __call__(self, text: str) -> str:
        return self.pattern.sub(self.new, text)


@dataclass(frozen=True, slots=True)
class _Extracting:
    pattern: JavaPattern
    group: int

    def __call__(self, text: str) -> str:
        found = self.pattern.search(text)
        return "" if found is None else found[self.group] or ""


@dataclass(frozen=True, slots=True)
class _ExtractingAll:
    pattern: JavaPattern
    group: int

    def __call__(self, text: str) -> list[str]:
        return [found[self.group] or "" for found in self.pattern.finditer(text)]


@dataclass(frozen=True, slots=True)
class _Counting:
    pattern: JavaPattern

    def __call__(self, text: str) -> int:
        return sum(1 for _ in self.pattern.finditer(text))

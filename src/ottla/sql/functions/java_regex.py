"""Regular expressions of java.util.regex as ksqlDB's functions use them (`ottla.java` runs them)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ottla.java import Found, JavaPattern, PatternError, Replacement, compile_java
from ottla.sql.errors import EvaluationError
from ottla.sql.functions.registry import check_size

PATTERN_MAX = 4096
KEPT_LETTERS_MAX = 1000
"""Of a replacement that is kept for the next row; a row's own text may be a longer one."""


def java_pattern(pattern: str) -> JavaPattern:
    """A pattern of java.util.regex; raises EvaluationError for what is none."""
    if len(pattern) > PATTERN_MAX:
        raise EvaluationError(f"a pattern has at most {PATTERN_MAX} characters")
    try:
        return compile_java(pattern)
    except PatternError as error:
        raise EvaluationError(f"Invalid regular expression pattern: {pattern} ({error})") from None


def _replacement(new: str, pattern: str) -> Replacement:
    """A replacement; raises EvaluationError for one that names no group."""
    try:
        return Replacement(new, compile_java(pattern))
    except PatternError as error:
        raise EvaluationError(str(error)) from None


_kept = lru_cache(256)(_replacement)


def found_in(pattern: str, text: str) -> Found | None:
    """The first match in a text; raises EvaluationError."""
    known = java_pattern(pattern)
    try:
        return known.search(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def matches(known: JavaPattern, text: str) -> list[Found]:
    """Every match as `Matcher.find` finds them: behind an empty one a character is left out; raises EvaluationError."""
    try:
        return list(known.finditer(text))
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def replaced_all(pattern: str, text: str, new: str) -> str:
    """The text with every part that matches replaced, as `Matcher.replaceAll` does; raises EvaluationError."""
    known = java_pattern(pattern)
    try:
        return known.sub(_counting(new, pattern), text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _counting(new: str, pattern: str) -> Callable[[Found], str]:
    """A replacement that raises EvaluationError where all of them together are too long."""
    total = 0

    known: Replacement | None = None

    def replaced(found: Found) -> str:
        nonlocal total, known
        known = known or (_kept if len(new) <= KEPT_LETTERS_MAX else _replacement)(new, pattern)
        made = known(found)
        total += len(made)
        check_size("REGEXP_REPLACE", total)
        return made

    return replaced


def split(pattern: str, text: str) -> list[str]:
    """The parts of a text between what matches; those at the end that are empty are left out where a match may be empty."""
    known = java_pattern(pattern)
    if not _may_be_empty(known):
        return _between(known, text)
    found = _between(known, text, skip_first_empty=True)
    while len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _may_be_empty(known: JavaPattern) -> bool:
    try:
        return known.fullmatch("") is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _between(known: JavaPattern, text: str, *, skip_first_empty: bool = False) -> list[str]:
    found, at = [], 0
    for each in matches(known, text):
        if skip_first_empty and each.end() == 0:
            continue
        found.append(text[at : each.start()])
        at = each.end()
    return [*found, text[at:]]

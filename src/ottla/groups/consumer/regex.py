"""Subscriptions by regular expression (KIP-848): RE2's syntax, whole names, resolved on the broker.

RE2 itself does it (`google-re2`), because clients send an expression in its syntax and because its time is linear in the
name, whatever the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.base import ErrorCode, KafkaError
from ottla.java import PatternError, compile_re2

__all__ = ["REFRESH_MS_MIN", "ResolvedRegex", "check_regex", "resolve"]

REFRESH_MS_MIN = 10_000
"""Expressions of a group are looked up again in a changed cluster at most this often."""
LENGTH_MAX = 32_768
"""Characters of an expression: a list of a thousand topics fits."""


class ResolvedRegex(NamedTuple):
    """The topics that an expression stood for, in which version of the cluster's metadata, and when."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = -1


def check_regex(pattern: str) -> None:
    """Raise KafkaError INVALID_REGULAR_EXPRESSION for what RE2 does not accept, naming the expression and the reason."""
    if len(pattern) > LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has {len(pattern)} characters; {LENGTH_MAX} are the most",
        )
    try:
        compile_re2(pattern)
    except PatternError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {pattern!r} is not a regular expression of RE2: {error}",
        ) from error


def resolve(
    pattern: str, names: Iterable[str], may_describe: Callable[[str], bool], *, version: int, now_ms: int
) -> ResolvedRegex:
    """Return the topics whose whole name matches and of which the asker may know."""
    try:
        matches = compile_re2(pattern).matches
    except PatternError:  # what an older broker accepted and this one does not stands for no topic
        return ResolvedRegex(frozenset(), version, now_ms)
    found = frozenset(name for name in names if matches(name) and may_describe(name))
    return ResolvedRegex(found, version, now_ms)

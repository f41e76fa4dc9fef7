"""Patterns in RE2's own syntax, which the protocol has (KIP-848, KIP-1152): bounded as Java's are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from ottla.java.regex.errors import PatternError
from ottla.java.regex.patterns import MEMORY_MAX, PATTERN_CHARS_MAX

__all__ = ["Re2Pattern", "compile_re2"]

_KEPT = 256


class Re2Pattern:
    """A pattern of RE2's for whole names."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARS_MAX:
            raise PatternError(f"A pattern has at most {PATTERN_CHARS_MAX} characters, and this one has {len(pattern)}")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY_MAX
        try:
            self._compiled: Any = re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
        except re2.error as error:
            reason = error.args[0] if error.args else b"it is not valid"
            words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(words) from error

    def matches(self, name: str) -> bool:
        """Return whether a whole name matches."""
        return self._compiled.fullmatch(name.encode("utf-8", "surrogatepass")) is not None


@lru_cache(_KEPT)
def compile_re2(pattern: str) -> Re2Pattern:
    """Return a pattern; raises PatternError for what is none of RE2's."""
    return Re2Pattern(pattern)

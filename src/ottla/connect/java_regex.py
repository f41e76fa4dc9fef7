"""Java's regular expressions and replacements, which configurations hold (`ottla.java` runs them)."""

from __future__ import annotations

from ottla.connect.errors import IllegalArgumentError
from ottla.java import JavaPattern, PatternError, Replacement, compile_java

__all__ = ["JavaPattern", "PatternError", "compile_java", "replacement_of"]


def replacement_of(replacement: str, pattern: JavaPattern) -> Replacement:
    """Return what makes Java's replacement text of a match; raises IllegalArgumentError for a group that there is not."""
    try:
        return Replacement(replacement, pattern)
    except PatternError as error:
        raise IllegalArgumentError(str(error)) from error

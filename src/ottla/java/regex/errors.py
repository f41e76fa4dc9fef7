"""What is wrong with a pattern."""

from __future__ import annotations

import re

from ottla.base import OttlaError

__all__ = ["PatternCostError", "PatternError"]


class PatternError(OttlaError, re.error):
    """A text that is no pattern, or one that cannot be run here; the message says where and why.

    It is a `re.error` too, which connectors know as what `compile_java` raises.
    """


class PatternCostError(PatternError):
    """A match would take, or has taken, more time than one may take."""

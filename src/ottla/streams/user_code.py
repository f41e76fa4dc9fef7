"""Where in a user's own code an error came from: what a person looks for in a trace that is mostly ours and Spark's."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

__all__ = ["raised_in"]

OURS = frozenset({"ottla", "pyspark", "pyspark_ottla", "py4j", "pyarrow", "numpy", "pandas"})
"""Packages that call a user's functions."""
INSTALLED = ("site-packages", "dist-packages")


def raised_in(error: BaseException) -> str | None:
    """Return `in FUNCTION at FILE:LINE` for the innermost line of the user's own; None where no such line was running.

    A function that calls a library's is named, not the library's: unless the program itself is installed as one.
    """
    frames = [each for each in traceback.walk_tb(error.__traceback__) if _package(each[0]) not in OURS]
    own = [each for each in frames if _is_own(each[0])]
    if not frames:
        return None
    frame, line = own[-1] if own else frames[0]
    name = frame.f_code.co_name
    return f"in {'a lambda' if name == '<lambda>' else name} at {frame.f_code.co_filename}:{line}"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_own(frame: FrameType) -> bool:
    if _package(frame) in sys.stdlib_module_names and _package(frame) != "__main__":
        return False
    return not any(each in frame.f_code.co_filename for each in INSTALLED)

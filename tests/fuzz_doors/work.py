"""Work as a number: bytecode instructions of Python, never time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["TooMuchWork", "work_of"]


class TooMuchWork(BaseException):
    """A call has done more than it may; no `except Exception` holds it up."""


def work_of(call: Callable[[], object], most: int) -> int:
    """Return how many instructions a call takes; raises TooMuchWork behind `most`, and what the call raises."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
            if count > most:
                raise TooMuchWork(f"more than {most} instructions")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count

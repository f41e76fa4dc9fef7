"""The 64-bit integer of compiled modules: machine arithmetic where mypyc compiles, plain `int` where nothing does.

Not compiled itself, so that what runs is the second branch, without `mypy_extensions`; mypyc reads the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64
else:
    i64 = int

__all__ = ["i64"]

"""Imports Arrow and makes an array, which brings in Pandas where it is installed: a third of a second, at the first one.

For processes that are forked later (`fork_server`): paid for there, each of them would pay it again. Connect's tasks do
without Pandas (`arrow_alone`).
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["FIRST"]

FIRST = pa.array([b""])

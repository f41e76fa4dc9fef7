"""What a column of a format's values is, and what makes its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

__all__ = ["Shape"]


class Shape:
    """A column's type, and what makes its value of a codec's value; raises SerdeError for one that does not fit."""

    def __init__(self, column: pa.DataType, value: Callable[[Any], Any]) -> None:
        self.column, self.value = column, value

"""Why a batch failed: kept here, and told to the JVM in few words.

Spark searches what a batch's function has raised by an expression that recurses. On a whole stack trace, as a failed job's
error has one inside, it overflowed its stack (seen on loaded machines), and the query neither ran nor was told to have
ended: the application looked as if it was running, and nothing came any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BatchErrors"]

LETTERS_MAX = 300
Write = Callable[["DataFrame", int], None]


class BatchErrors:
    """What a start of a query failed with."""

    def __init__(self) -> None:
        self.text: str | None = None
        """The last error as Python tells it, with all that it quotes; None while there is none."""

    def kept(self, write: Write) -> Write:
        """Return a batch's function that raises RuntimeError with a line where the given one fails, and keeps the rest."""

        def guarded(batch: DataFrame, batch_id: int) -> None:
            try:
                write(batch, batch_id)
            except BaseException as error:  # the batch's thread is Spark's, which is told one line
                words = f"{type(error).__name__}: {error}"
                self.text = f"Traceback (most recent call last):\n{words}"
                line = words.strip().splitlines()[0][:LETTERS_MAX]
                raise RuntimeError(f"batch {batch_id} failed: {line}") from None

        return guarded

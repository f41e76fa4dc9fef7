"""The examining process: reads questions from standard input, writes answers to standard output, and ends with the input."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from ottla.registry.examining.questions import answer
from ottla.schemas import InvalidSchemaError

__all__ = ["main"]

MEMORY_BYTES_MAX = 4 << 30
"""Of addresses, of which a small part is memory; beyond it a schema is refused."""


def main() -> None:
    """Answer until there are no more questions."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(size := questions.read(4)) == 4:
        body = questions.read(int.from_bytes(size))
        found = json.dumps(_answered(body)).encode()
        answers.write(len(found).to_bytes(4) + found)
        answers.flush()


def _answered(body: bytes) -> dict[str, Any]:
    try:
        return {"answer": answer(json.loads(body))}
    except InvalidSchemaError as error:
        return {"invalid": str(error)}
    except (RecursionError, MemoryError) as error:
        return {"invalid": f"The schema takes too much to be examined ({type(error).__name__})"}
    except Exception as error:  # our own mistake: it is said where the log is, and costs this answer only
        return {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()

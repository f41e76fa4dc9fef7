"""Why somebody could not be reached, in words: what the system says, without numbers of errors and without wrappings."""

from __future__ import annotations

__all__ = ["why_unreached"]

WRAPPINGS_MAX = 5
"""How many errors may lie in one another."""
REFUSED = "the connection is refused, so nothing listens there"


def why_unreached(error: object) -> str:
    """Return a failure's reason as a clause: no `[Errno 111]`, and what `urllib` and `aiohttp` have wrapped.

    The address stands beside it, where the sentence is made: libraries repeat it, leave it out, or show a secret path.
    """
    for _ in range(WRAPPINGS_MAX):
        inner = getattr(error, "os_error", None) or getattr(error, "reason", None)
        if not isinstance(inner, OSError):
            break
        error = inner
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    if isinstance(error, TimeoutError):
        said = str(error)
        return said if said and "Errno" not in said and said != "timed out" else "no answer came in time"
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        said = error.strerror
        return said if error.filename is None else f"{said}: {error.filename}"
    if isinstance(getattr(error, "code", None), int):  # an answer, which `urllib` raises: its text has the status
        return str(error)
    return str(getattr(error, "reason", None) or error) or type(error).__name__

"""Who of this machine may read the files that are made here: their user alone, unless `OTTLA_UMASK` says who else."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import OttlaError

__all__ = ["UMASK", "UMASK_DEFAULT", "parse_umask"]

UMASK: Final = "OTTLA_UMASK"
UMASK_DEFAULT: Final = 0o077


def parse_umask(text: str) -> int | None:
    """Return the umask that `OTTLA_UMASK` chooses, None where it is empty; raises OttlaError for what is no umask."""
    if not text:
        return None
    try:
        mask = int(text, 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= 0o777:
        raise OttlaError(f"{UMASK}={text}: three octal digits, such as 027 for a group that may read")
    return mask

"""Which secrets of executors a connector may name: those that the worker's operator allows, and no others.

What a worker's config providers do not resolve of a query sink's client overrides is looked up on executors. Whoever may
configure connectors also chooses the broker that such a client logs in to, and could have any file or variable of an
executor told to a broker of his own (as with CVE-2024-31141).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config import placeholders
from ottla.connect import ConnectError
from ottla.java import PatternError, compile_java

__all__ = ["ALLOWED", "refuse_placeholders"]

ALLOWED = "ottla.executor.secrets.allowed"
_OVERRIDE = re.compile(r"(producer|consumer|admin)\.override\.")


def refuse_placeholders(config: Mapping[str, str | None], worker: Mapping[str, str]) -> None:
    """Raise ConnectError for a connector whose overrides name what the worker's property does not allow, or go up a path."""
    patterns = [each.strip() for each in worker.get(ALLOWED, "").split(",") if each.strip()]
    for key, value in sorted(config.items()):
        if value is None or not _OVERRIDE.match(key):
            continue
        for found in sorted(placeholders({key: value})):
            named = ":".join(each for each in found if each)
            is_plain = ".." not in re.split(r"[:/]", named)
            if not is_plain or not any(_matches(pattern, named) for pattern in patterns):
                raise ConnectError(
                    f"{key} names {found}, which executors would look up: the worker's property {ALLOWED} has to allow "
                    f"{named} (regular expressions, with commas between)"
                )


def _matches(pattern: str, named: str) -> bool:
    try:
        return compile_java(pattern).fullmatch(named) is not None
    except PatternError as error:
        raise ConnectError(f"{ALLOWED}: {pattern} is no regular expression: {error}") from error

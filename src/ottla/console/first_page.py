"""The page itself, with the answers to what it would ask first, so that it shows something without another call. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

__all__ = ["FirstPage"]

PLACE = b'<script type="application/json" id="given">{}</script>'
"""Where answers stand in the page, by the address that they are the answers of; browsers run nothing of this type."""


class FirstPage:
    """The built page."""

    def __init__(self, index: bytes) -> None:
        assert index.count(PLACE) == 1, "web/index.html has one place for what is given"
        self._before, self._after = index.split(PLACE)

    def with_answers(self, given: Mapping[str, object]) -> bytes:
        """Return the page with answers; whatever texts they hold, none of them ends where they stand."""
        text = json.dumps(given, separators=(",", ":")).replace("<", "\\u003c")
        return b"".join([self._before, PLACE.replace(b"{}", text.encode()), self._after])

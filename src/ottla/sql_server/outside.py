"""Connect's workers and the schema registry, asked by their REST interfaces."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from ottla.base import OttlaError
from ottla.config import hidden_text
from ottla.http import Asker, AskError, WebAnswer

__all__ = ["Outside", "OutsideError", "named"]

SECONDS_MAX = 30.0
WORDS_MAX = 10_000


class OutsideError(OttlaError):
    """Another service refused, or does not answer; `status` is its HTTP status, 0 where there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Outside:
    """Asks the services at two addresses."""

    def __init__(self, connect_url: str, registry_url: str, *, seconds_max: float = SECONDS_MAX) -> None:
        self._connect, self._registry = connect_url, registry_url.split(",")[0].strip().rstrip("/")
        self._asker = Asker(seconds_max)

    async def close(self) -> None:
        """Close what is open."""
        await self._asker.close()

    @property
    def has_registry(self) -> bool:
        """Whether a registry is configured."""
        return bool(self._registry)

    async def connect(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Connect; raises OutsideError."""
        return await self._ask(
            f"Connect at {hidden_text(self._connect)} (ksql.connect.url)", method, self._connect + path, body
        )

    async def registry(self, path: str) -> Any:
        """Ask the registry; raises OutsideError."""
        return await self._ask(
            f"the schema registry at {hidden_text(self._registry)}", "GET", self._registry + path, None
        )

    async def _ask(self, who: str, method: str, url: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = await self._asker.ask(method, url, data=data, headers={"Content-Type": "application/json"})
            if answer.status >= 300:
                raise OutsideError(answer.status, _refusal(answer, who))
            return answer.json()
        except AskError as error:
            raise OutsideError(0, f"{who} cannot be asked: {error}") from error


def _refusal(answer: WebAnswer, who: str) -> str:
    try:
        found = answer.json()
    except AskError:
        found = None
    words = found.get("message") if isinstance(found, dict) else None
    return str(words or f"{who} answers {answer.status}")[:WORDS_MAX]


def named(name: str) -> str:
    """A name in a path."""
    return quote(name, safe="", errors="replace")

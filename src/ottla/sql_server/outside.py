"""Connect's workers and the schema registry, asked by their REST interfaces."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import aiohttp

from ottla.base import OttlaError

__all__ = ["Outside", "OutsideError", "named"]

SECONDS_MAX = 30.0


class OutsideError(OttlaError):
    """Another service refused, or does not answer; `status` is its HTTP status, 0 where there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Outside:
    """Asks the services at two addresses."""

    def __init__(self, connect_url: str, registry_url: str) -> None:
        self._connect, self._registry = connect_url, registry_url.split(",")[0].strip().rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()

    @property
    def has_registry(self) -> bool:
        """Whether a registry is configured."""
        return bool(self._registry)

    async def connect(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Connect; raises OutsideError."""
        return await self._ask(f"Connect at {self._connect} (ksql.connect.url)", method, self._connect + path, body)

    async def registry(self, path: str) -> Any:
        """Ask the registry; raises OutsideError."""
        return await self._ask(f"the schema registry at {self._registry}", "GET", self._registry + path, None)

    async def _ask(self, who: str, method: str, url: str, body: Any) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_MAX))
        try:
            async with self._session.request(method, url, json=body) as answer:
                found = await answer.json(content_type=None) if answer.status != 204 else None
                if answer.status >= 400:
                    words = found.get("message") if isinstance(found, dict) else None
                    raise OutsideError(answer.status, str(words or f"{who} answers {answer.status}"))
                return found
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise OutsideError(0, f"{who} cannot be asked: {error or type(error).__name__}") from error


def named(name: str) -> str:
    """A name in a path."""
    return quote(name, safe="")

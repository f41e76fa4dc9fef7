"""A WebSocket (RFC 6455) of texts: what comes in has a bound, and who does not answer pings is gone."""

from __future__ import annotations

from typing import Self

from aiohttp import WSMsgType, web

__all__ = ["Socket"]

MESSAGE_BYTES_MAX = 64 * 1024
HEARTBEAT_SECONDS = 20.0


class Socket:
    """One open socket; for one reader and any number of writers on the loop."""

    def __init__(self, response: web.WebSocketResponse) -> None:
        self.response = response
        """aiohttp's own, which its server wants to see returned."""

    @classmethod
    async def opened(cls, request: web.Request) -> Self:
        """Answer a request with a socket; raises an error of HTTP where it did not ask for one."""
        response = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=MESSAGE_BYTES_MAX)
        await response.prepare(request)
        return cls(response)

    async def receive(self) -> str | None:
        """Return the next text; None where the socket is closed, or says something else than a text."""
        message = await self.response.receive()
        return str(message.data) if message.type is WSMsgType.TEXT else None

    async def send(self, text: str) -> bool:
        """Send a text, and wait while the other side does not read; False where the socket is closed."""
        if self.response.closed:
            return False
        try:
            await self.response.send_str(text)
        except (ConnectionError, RuntimeError):  # closed meanwhile: aiohttp says so in either way
            return False
        return True

    async def close(self) -> None:
        """Close it, if it is open."""
        if not self.response.closed:
            await self.response.close()

"""The table of Kafka's APIs: keys, stable versions, which versions are flexible, and their message classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from ottla.wire.api_table import API_ROWS
from ottla.wire.message import Message

__all__ = ["APIS", "ApiSpec"]

API_VERSIONS = 18


@dataclass(frozen=True)
class ApiSpec:
    """One API. Only stable versions count; `flexible_from` is the first request version with tagged fields (KIP-482)."""

    key: int
    name: str
    module: str
    min_version: int
    max_version: int
    flexible_from: int
    response_flexible_from: int
    listeners: tuple[str, ...]

    @cached_property
    def request(self) -> type[Message]:
        """The class of its requests; importing it is left until it is asked for."""
        return self._class("Request")

    @cached_property
    def response(self) -> type[Message]:
        """The class of its responses."""
        return self._class("Response")

    def _class(self, side: str) -> type[Message]:
        found: type[Message] = getattr(import_module(f"ottla.wire.messages.{self.module}"), self.name + side)
        return found

    def request_header_version(self, version: int) -> int:
        """Return 2 where requests of this version carry tagged fields in their header, else 1."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 where responses carry tagged fields in their header, else 0; ApiVersions never does (KIP-511)."""
        return 1 if version >= self.response_flexible_from and self.key != API_VERSIONS else 0


APIS: Mapping[int, ApiSpec] = {row[0]: ApiSpec(*row) for row in API_ROWS}
"""Every API of Kafka 4.3 that has a stable version, by key."""

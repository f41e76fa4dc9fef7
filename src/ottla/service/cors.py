"""Answers to other sites' pages that an operator allows (`access.control.allow.…`), as Jetty gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.http import Request
from ottla.service.guards import words_of

__all__ = ["NO_CORS", "Cors"]

METHODS = ("GET", "POST", "HEAD")
"""What another origin may do where `access.control.allow.methods` is empty, as in Jetty."""


@dataclass(frozen=True, slots=True)
class Cors:
    """Which origins may read answers, and what they may ask."""

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = METHODS

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Cors:
        """Return what a service's properties allow."""
        methods = words_of(properties.get("access.control.allow.methods", ""))
        return cls(words_of(properties.get("access.control.allow.origin", "")), methods or METHODS)

    def headers(self, request: Request) -> dict[str, str]:
        """Return what a browser is told beside an answer, whatever that is."""
        origin = request.headers.get("Origin")
        if not self.origins:
            return {}
        if origin is None or not ("*" in self.origins or origin in self.origins):
            return {"Vary": "Origin"}
        found = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            found["Access-Control-Allow-Methods"] = ",".join(self.methods)
            found["Access-Control-Allow-Headers"] = "Content-Type"
            found["Access-Control-Max-Age"] = "60"
        return found


NO_CORS = Cors()
"""No other origin may ask."""

"""Every API that this broker serves: one module of `broker/api` each, found by its `HANDLER`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ottla.broker import api
from ottla.broker.requests.handler import Handler

__all__ = ["all_handlers"]


def all_handlers() -> tuple[Handler[Any], ...]:
    """Return the handlers by API key; a module of `broker/api` without one is a mistake of ours."""
    names = sorted(found.name for found in iter_modules(api.__path__))
    handlers: list[Handler[Any]] = [import_module(f"{api.__name__}.{name}").HANDLER for name in names]
    handlers.sort(key=lambda each: each.api_key)
    keys = [each.api_key for each in handlers]
    assert len(set(keys)) == len(keys), "two handlers serve one API"
    return tuple(handlers)

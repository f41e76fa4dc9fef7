"""A worker's config providers, which are those of `ottla.config`, with Connect's own kind of error."""

from __future__ import annotations

from collections.abc import Mapping

from ottla import config
from ottla.config import Placeholder, ProviderError
from ottla.connect.errors import ConnectError

__all__ = ["Providers", "providers_of"]


class Providers:
    """A worker's providers by name; none by default."""

    def __init__(self, named: config.Providers | None = None) -> None:
        self._named = named or config.Providers({})

    def lookup(self, placeholder: Placeholder) -> str | None:
        """Return a placeholder's value; None where its provider is not configured, so that it stays as it is."""
        try:
            return self._named.lookup(placeholder)
        except ProviderError as error:
            raise ConnectError(str(error)) from error


def providers_of(worker: Mapping[str, str]) -> Providers:
    """Return the providers of a worker's `config.providers`; raises ConfigError for one that is not known."""
    return Providers(config.providers_of(worker))

"""The server's schema registry: a value that travels with plans to hosts, and asks from wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.schemas import ParsedSchema
from ottla.serdes import KnownSchema, Registry, SchemaText, serde_settings

__all__ = ["ServerRegistry", "registry_of"]

PREFIX = "ksql.schema.registry."


@dataclass(slots=True)
class ServerRegistry:
    """A `SchemaRegistry` of SQL's; its client is made when it is first asked."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    _asked: Registry | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[ServerRegistry], tuple[tuple[tuple[str, str], ...]]]:
        return type(self), (self.properties,)

    @property
    def _registry(self) -> Registry:
        if self._asked is None:
            self._asked = Registry(serde_settings(dict(self.properties), is_key=False))
        return self._asked

    def register(self, subject: str, schema: SchemaText) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.register(subject, schema)

    def latest(self, subject: str) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.latest(subject)

    def by_id(self, number: int) -> SchemaText:
        """See `SchemaRegistry`."""
        return self._registry.by_id(number)

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """See `SchemaRegistry`."""
        return self._registry.parsed(schema)


def registry_of(properties: Mapping[str, str]) -> ServerRegistry | None:
    """Return the registry that `ksql.schema.registry.url` names, with what else is said of it; None without one."""
    if not properties.get(f"{PREFIX}url"):
        return None
    found = {
        f"schema.registry.{name.removeprefix(PREFIX)}": value
        for name, value in properties.items()
        if name.startswith(PREFIX) and value
    }
    return ServerRegistry(tuple(sorted(found.items())))

"""psycopg's loaders of times, and beside them what they refuse: infinities, years beyond `datetime`'s, and 24:00."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import DataError, pq
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from ottla.connectors.jdbc.far_values import date_of_text, local_of_text, moment_of_text, time_of_text

__all__ = ["register_far"]

_READERS: dict[int, Callable[[str], Any]] = {
    1082: date_of_text,
    1083: time_of_text,
    1114: local_of_text,
    1184: moment_of_text,
}


def register_far(connection: Any) -> None:
    """Have a connection read every time that PostgreSQL has."""
    for oid, reader in _READERS.items():
        plain = connection.adapters.get_loader(oid, pq.Format.TEXT)
        connection.adapters.register_loader(oid, _loader(plain, reader))


def _loader(plain: Any, reader: Callable[[str], Any]) -> type[Loader]:
    class FarLoader(Loader):
        """Asks psycopg's own loader first, which is quick and knows other date styles."""

        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._plain = plain(oid, context)

        def load(self, data: Buffer) -> Any:
            try:
                return self._plain.load(data)
            except DataError:
                try:
                    return reader(bytes(data).decode())
                except ValueError:
                    pass
                raise

    return FarLoader

"""The databases of the machine: two of each kind, which stay for all histories, and how a test reaches them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from tests.connectors.jdbc.machine.columns import Typed, canonical
from tools import mariadb, postgres

__all__ = ["KINDS", "Place", "places"]

KINDS = ("postgresql", "mariadb", "sqlite")
CLOCK = "+03:00"
"""The zone of MariaDB's server, which is nobody else's."""


@dataclass
class Place:
    """A database: how connectors reach it, and a way of the machine's own."""

    kind: str
    engine: sa.Engine
    props: Mapping[str, str]

    def run(self, sql: str, *values: Mapping[str, Any]) -> None:
        """Execute a statement in a transaction of its own."""
        with self.engine.begin() as connection:
            connection.execute(sa.text(sql), list(values) or None)

    def changed(self, *statements: str) -> bool:
        """Execute statements, and return whether the database took them."""
        try:
            with self.engine.begin() as connection:
                for each in statements:
                    connection.execute(sa.text(each))
        except sa.exc.DBAPIError:
            return False
        return True

    def types(self, table: str = "t") -> dict[str, str]:
        """Return the types of a table's columns, in the server's words; nothing where there is no table."""
        with self.engine.begin() as connection:
            if self.kind == "sqlite":
                rows = connection.execute(sa.text(f"PRAGMA table_info({table})")).all()
                return {row[1]: f"sqlite {row[2]}" for row in rows}
            own = "current_schema()" if self.kind == "postgresql" else "DATABASE()"
            sql = (
                "SELECT column_name, data_type FROM information_schema.columns "
                f"WHERE table_schema = {own} AND table_name = :table ORDER BY ordinal_position"
            )
            return {row[0]: f"{self.kind} {row[1]}" for row in connection.execute(sa.text(sql), {"table": table})}

    def rows(self, zone: ZoneInfo, table: str = "t") -> list[dict[str, Typed | None]]:
        """Return a table's rows, each value with its kind."""
        types = self.types(table)
        exact = [f"`{name}` + 0e0" if type_ == "mariadb float" else self.quoted(name) for name, type_ in types.items()]
        with self.engine.begin() as connection:
            found = connection.execute(sa.text(f"SELECT {', '.join(exact)} FROM {table} ORDER BY id")).all()
        return [
            {name: canonical(value, type_, zone) for (name, type_), value in zip(types.items(), row, strict=True)}
            for row in found
        ]

    def quoted(self, name: str) -> str:
        """Return a column's name as statements have it."""
        return f"`{name}`" if self.kind == "mariadb" else f'"{name}"'

    def clear(self) -> None:
        """Drop what a history has made."""
        for each in sa.inspect(self.engine).get_table_names():
            self.run(f"DROP TABLE {self.quoted(each)}")


@contextmanager
def places(folder: Path, kinds: tuple[str, ...] = KINDS) -> Iterator[dict[str, tuple[Place, Place]]]:
    """Start the servers; yields for each kind a source's and a sink's database. Raises RuntimeError where one cannot run."""
    with ExitStack() as stack:
        found: dict[str, tuple[Place, Place]] = {}
        if "postgresql" in kinds:
            server = stack.enter_context(postgres.private_cluster())
            found["postgresql"] = (_postgres(server, "source_side"), _postgres(server, "sink_side"))
        if "mariadb" in kinds:
            other = stack.enter_context(mariadb.private_server((f"--default-time-zone={CLOCK}",)))
            found["mariadb"] = (_mariadb(other, "source_side"), _mariadb(other, "sink_side"))
        if "sqlite" in kinds:
            found["sqlite"] = (_sqlite(folder / "source.db"), _sqlite(folder / "sink.db"))
        yield found
        for pair in found.values():
            for each in pair:
                each.engine.dispose()


def _postgres(server: postgres.PostgresServer, name: str) -> Place:
    engine = sa.create_engine(server.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    props = {"connection.url": server.jdbc_url(name), "connection.user": postgres.USER}
    made = sa.create_engine(server.url_of(name))
    return Place("postgresql", made, {**props, "connection.password": postgres.PASSWORD})


def _mariadb(server: mariadb.MariaDbServer, name: str) -> Place:
    engine = sa.create_engine(server.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"))
    props = {"connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/{name}", "connection.user": mariadb.USER}
    made = sa.create_engine(engine.url.set(database=name))

    def in_utc(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("SET time_zone = '+00:00'")
        cursor.close()

    sa.event.listen(made, "connect", in_utc)
    return Place("mariadb", made, {**props, "connection.password": mariadb.PASSWORD})


def _sqlite(path: Path) -> Place:
    return Place(
        "sqlite",
        sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool),
        {"connection.url": f"jdbc:sqlite:{path}"},
    )

"""Databases for the JDBC connectors: a private PostgreSQL for the session, and SQLite's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.connectors.jdbc import worker
from tools import mariadb as mariadb_tool
from tools.mariadb import MariaDbServer, private_server
from tools.postgres import PASSWORD, USER, PostgresServer, missing, private_cluster


@dataclass
class TestDatabase:
    """An empty database: how connectors reach it, and a direct way for the test."""

    __test__ = False

    kind: str
    engine: sa.Engine
    props: Mapping[str, str]

    def run(self, sql: str, **values: Any) -> Any:
        """Execute a statement in a transaction of its own; returns rows where there are any."""
        with self.engine.begin() as connection:
            result = connection.execute(sa.text(sql), values)
            return [tuple(row) for row in result] if result.returns_rows else None

    @property
    def has_schemas(self) -> bool:
        return self.kind == "postgresql"

    @property
    def number(self) -> str:
        """The type of a number that the database counts up by itself."""
        return {"postgresql": "SERIAL", "sqlite": "INTEGER", "mariadb": "INT AUTO_INCREMENT"}[self.kind]

    def full_name(self, table: str) -> str:
        """Return a table's name as offsets have it."""
        return f"public.{table}" if self.has_schemas else table


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with private_cluster() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    props = {
        "connection.url": postgres_server.jdbc_url("postgres"),
        "connection.user": USER,
        "connection.password": PASSWORD,
        "connection.backoff.ms": "100",
    }
    engine = sa.create_engine(postgres_server.url, poolclass=sa.NullPool)
    database = TestDatabase("postgresql", engine, props)
    yield database
    worker.stop_all()
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
    for (name,) in database.run(schemas):
        database.run(f'DROP SCHEMA "{name}" CASCADE')
    database.run("CREATE SCHEMA public")
    engine.dispose()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """A server whose clock is not in UTC, as most people's are not."""
    reason = mariadb_tool.missing()
    if reason is not None:
        pytest.skip(reason)
    with private_server(("--default-time-zone=+03:00",)) as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariaDbServer) -> Iterator[TestDatabase]:
    props = {
        "connection.url": f"jdbc:mariadb://127.0.0.1:{mariadb_server.port}/test",
        "connection.user": mariadb_tool.USER,
        "connection.password": mariadb_tool.PASSWORD,
        "connection.backoff.ms": "100",
    }
    engine = sa.create_engine(mariadb_server.url, poolclass=sa.NullPool)
    database = TestDatabase("mariadb", engine, props)
    yield database
    worker.stop_all()
    for (name,) in database.run("SHOW TABLES"):
        database.run(f"DROP TABLE `{name}`")
    engine.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[TestDatabase]:
    path = tmp_path / "database.db"
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    yield TestDatabase("sqlite", engine, {"connection.url": f"jdbc:sqlite:{path}"})
    engine.dispose()


@pytest.fixture(autouse=True)
def stopped_tasks() -> Iterator[None]:
    """Stop what a test has begun."""
    yield
    worker.stop_all()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> TestDatabase:
    found: TestDatabase = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def each_database(request: pytest.FixtureRequest) -> TestDatabase:
    found: TestDatabase = request.getfixturevalue(request.param)
    return found

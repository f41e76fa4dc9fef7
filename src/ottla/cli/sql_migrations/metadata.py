"""What has been applied, as a stream of events and a table of the latest of each version, on the server."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass, replace
from typing import Any

from ottla.cli.sql_migrations.project import MigrationError, Project
from ottla.cli.sql_shell.client import SqlClient

__all__ = ["CURRENT", "ERROR", "MIGRATED", "NONE", "NOTHING", "PENDING", "RUNNING", "Applied", "Metadata"]

CURRENT = "CURRENT"
"""The key of the row that tells the latest version."""
PENDING, RUNNING, MIGRATED, ERROR = "PENDING", "RUNNING", "MIGRATED", "ERROR"
NONE = "<none>"
"""Before the first version."""
NOTHING = "N/A"
WAIT_SECONDS, LOOK_SECONDS = 60.0, 0.05
"""How long what was written may take until the table tells it, and how often it is looked at."""
COLUMNS = ("version", "name", "state", "checksum", "started_on", "completed_on", "previous", "error_reason")


@dataclass(frozen=True, slots=True)
class Applied:
    """A version as the table tells it; times are milliseconds since 1970 as digits, or `N/A`."""

    version: str
    name: str
    state: str
    checksum: str
    started_on: str
    completed_on: str = NOTHING
    previous: str = NONE
    error_reason: str = NOTHING

    def ended(self, state: str, now_ms: int, reason: str = NOTHING) -> Applied:
        """Return this version when it has ended."""
        return replace(self, state=state, completed_on=str(now_ms), error_reason=reason)


class Metadata:
    """Reads and writes the stream and the table of a project; `client` asks without properties or variables."""

    def __init__(self, client: SqlClient, project: Project) -> None:
        self._client, self._project = client, project

    # -- being there

    def initialize(self) -> list[str]:
        """Make the stream and the table where they are missing; returns lines. Raises ServerError, MigrationError."""
        project = self._project
        streams, tables = self._names("STREAMS"), self._names("TABLES")
        for name, others in ((project.stream, tables), (project.table, streams)):
            if name in others:
                raise MigrationError(f"{name} exists, and is something else; name another in the config file")
        if project.stream in streams and project.table in tables:
            return ["Migrations metadata is initialized already"]
        service = self._client.info()["ksqlServiceId"]
        said = []
        if project.stream not in streams:
            said.append(f"Creating stream: {project.stream}")
            self._client.execute(self._stream_text(project.stream_topic or f"{service}ksql_{project.stream}"))
        if project.table not in tables:
            said.append(f"Creating table: {project.table}")
            self._client.properties["auto.offset.reset"] = "earliest"  # what the stream has already counts
            self._client.execute(self._table_text(project.table_topic or f"{service}ksql_{project.table}"))
        return [*said, "Migrations metadata initialized successfully"]

    def _stream_text(self, topic: str) -> str:
        from ottla.sql.tree.expression_text import string_text

        columns = ", ".join(["version_key STRING KEY", *(f"{each} STRING" for each in COLUMNS)])
        return (
            f"CREATE STREAM {self._project.stream} ({columns}) WITH (KAFKA_TOPIC={string_text(topic)}, "
            f"VALUE_FORMAT='JSON', PARTITIONS=1, REPLICAS={self._project.replicas});"
        )

    def _table_text(self, topic: str) -> str:
        from ottla.sql.tree.expression_text import string_text

        columns = ", ".join(["version_key", *(f"LATEST_BY_OFFSET({each}) AS {each}" for each in COLUMNS)])
        return (
            f"CREATE TABLE {self._project.table} WITH (KAFKA_TOPIC={string_text(topic)}) AS "
            f"SELECT {columns} FROM {self._project.stream} GROUP BY version_key;"
        )

    def check_initialized(self) -> None:
        """Raise MigrationError where the stream or the table is missing; ServerError where the server cannot tell."""
        project = self._project
        if project.stream not in self._names("STREAMS") or project.table not in self._names("TABLES"):
            raise MigrationError(
                "Migrations metadata is not initialized: run `ksql-migrations initialize-metadata` first"
            )

    def destroy(self) -> list[str]:
        """Drop the table, its query, the stream and their topics; returns lines. Raises ServerError."""
        project = self._project
        said = ["Cleaning migrations metadata stream and table from ksqlDB server"]
        if project.table in self._names("TABLES"):
            (told,) = self._client.execute(f"DESCRIBE {project.table};")
            for each in told["sourceDescription"]["writeQueries"]:
                said.append(f"Found 1 query writing to metadata table. Query ID: {each['id']}")
                said.append(f"Terminating query with ID: {each['id']}")
                self._client.execute(f"TERMINATE {each['id']};")
            said.append(f"Dropping migrations metadata table: {project.table}")
            self._client.execute(f"DROP TABLE {project.table} DELETE TOPIC;")
        if project.stream in self._names("STREAMS"):
            said.append(f"Dropping migrations metadata stream: {project.stream}")
            self._client.execute(f"DROP STREAM {project.stream} DELETE TOPIC;")
        return [*said, "Migrations metadata cleaned successfully"]

    def _names(self, kind: str) -> set[str]:
        (told,) = self._client.execute(f"LIST {kind};")
        return {each["name"] for each in told[kind.lower()]}

    # -- versions

    def versions(self) -> dict[str, Applied]:
        """Return every version by its number, the latest also by CURRENT. Raises ServerError."""
        columns = ", ".join(("version_key", *COLUMNS))
        rows = self._client.rows(f"SELECT {columns} FROM {self._project.table};")
        return {str(key): _applied(row) for key, *row in rows}

    def write(self, applied: Applied) -> None:
        """Tell a version's new state, and that it is the latest; returns when the table tells it.

        Raises ServerError, and MigrationError where the table does not follow.
        """
        from ottla.sql.tree.expression_text import string_text

        names = ", ".join(("version_key", *COLUMNS))
        values = ", ".join(map(string_text, astuple(applied)))
        self._client.execute(
            "".join(
                f"INSERT INTO {self._project.stream} ({names}) VALUES ({string_text(key)}, {values});"
                for key in (applied.version, CURRENT)
            )
        )
        until = time.monotonic() + WAIT_SECONDS
        while self._is_behind(applied):
            if time.monotonic() >= until:
                raise MigrationError(
                    f"Table {self._project.table} does not tell what was written to {self._project.stream} after "
                    f"{WAIT_SECONDS:g} s: see whether its query runs (SHOW QUERIES)"
                )
            time.sleep(LOOK_SECONDS)

    def _is_behind(self, applied: Applied) -> bool:
        wanted = dict.fromkeys((applied.version, CURRENT), (applied.state, applied.started_on, applied.completed_on))
        rows = self._client.rows(
            f"SELECT version_key, state, started_on, completed_on FROM {self._project.table} "
            f"WHERE version_key IN ('{applied.version}', '{CURRENT}');"
        )
        return {key: tuple(row) for key, *row in rows} != wanted


def _applied(row: list[Any]) -> Applied:
    return Applied(*("" if each is None else str(each) for each in row))

"""Faults that the connectors had, to be put back: each with a history that finds it.

`python -m tests.connectors.jdbc.machine.mutations` looks for such histories anew.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ottla.connectors.jdbc import column_types, dialects, sink_batches, sink_types
from ottla.connectors.jdbc.sink_tables import SinkTables
from ottla.connectors.jdbc.tables import TableName
from tests.connectors.jdbc.machine.histories import History
from tests.connectors.jdbc.machine.places import places

__all__ = ["MUTATIONS", "Mutation"]

SEEDS_MAX = 400
Put = tuple[Any, str, Any]
_NOW = dialects.Dialect.now


@dataclass(frozen=True)
class Mutation:
    """A fault, as what stands in whose place, and a seed whose history finds it."""

    name: str
    seed: int
    puts: Callable[[], list[Put]]

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the fault until the block ends."""
        with ExitStack() as stack:
            for owner, name, new in self.puts():
                stack.enter_context(patch.object(owner, name, new))
            yield


def _types_of_the_first_look() -> list[Put]:
    kinds = (dialects.Dialect, dialects.PostgresDialect, dialects.SqliteDialect, dialects.MysqlDialect)
    looks: list[Put] = [(each, "told", lambda *_: ()) for each in kinds]
    coercions = {"boolean_of": bool, "double_of": float, "_whole": lambda bits: int}
    return looks + [(column_types, name, new) for name, new in coercions.items()]


def _last_two_parts(text: str, dialect: Any) -> TableName:
    parts = text.split(".")
    return TableName(parts[-2] if len(parts) > 1 else None, parts[-1])


MUTATIONS = (
    Mutation("A source keeps a table's types from its first look, and coerces", 3, _types_of_the_first_look),
    Mutation("A sink keeps a table's types", 237, lambda: [(SinkTables, "altered", lambda *_: [])]),
    Mutation(
        "The first part of a table's name is left out",
        10,
        lambda: [(sink_batches, "parse_table_name", _last_two_parts)],
    ),
    Mutation(
        "An upsert on MariaDB changes another row through a second unique key",
        8,
        lambda: [(dialects.MysqlDialect, "unique_keys", lambda *_: frozenset({("id",)}))],
    ),
    Mutation("MariaDB's now is read in the wrong zone", 0, lambda: [(dialects.MysqlDialect, "now", _local_now)]),
    Mutation(
        "A change of a table commits in the middle of a delivery",
        38,
        lambda: [(sink_batches.Batches, "_change_tables", lambda *_: [])],
    ),
    Mutation("MariaDB's FLOAT has six digits", 44, lambda: [(dialects.MysqlDialect, "inexact", lambda *_: False)]),
    Mutation("A column rounds what it is given", 17, lambda: [(sink_types, "exact_check", lambda *_: None)]),
    Mutation(
        "MariaDB's TIMESTAMP is read as a local time",
        11,
        lambda: [(dialects.MysqlDialect, "is_zoned", lambda *_: False)],
    ),
    Mutation(
        "A server guesses at texts for its times",
        934091479336,
        lambda: [(sink_types, "guess_check", lambda *_, **__: None)],
    ),
)


def _local_now(dialect: Any, connection: Any) -> Any:
    """Return what a clock of the server's zone shows, as if it were one of the database's."""
    connection.exec_driver_sql("SET time_zone = '+03:00'")
    try:
        return _NOW(dialect, connection)
    finally:
        connection.exec_driver_sql("SET time_zone = '+00:00'")


def found_by(mutation: Mutation, seed: int, found: Any) -> str | None:
    """Return what a history says of a fault, None where it holds with it."""
    with mutation.made():
        try:
            History(seed, found).run()
        except Exception as error:  # a fault may end it in any way
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def main() -> int:
    """Print the first history that finds each fault; returns how many are found by none, at most 1."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ottla-jdbc-") as folder, places(Path(folder)) as found:
        for each in MUTATIONS:
            for seed in range(SEEDS_MAX):
                said = found_by(each, seed, found)
                if said is not None:
                    print(f"{each.name}: seed {seed}: {said}", flush=True)
                    break
            else:
                missed += 1
                print(f"{each.name}: MISSED by {SEEDS_MAX} histories", flush=True)
    print(f"{len(MUTATIONS) - missed} found, {missed} missed")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())

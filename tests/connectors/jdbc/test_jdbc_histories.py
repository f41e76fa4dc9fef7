"""Random histories of source, topic and sink over PostgreSQL, MariaDB and SQLite; a few here, more in `make fuzz-jdbc`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.connectors.jdbc.machine.histories import Count, History
from tests.connectors.jdbc.machine.mutations import MUTATIONS, Mutation, found_by
from tests.connectors.jdbc.machine.places import places
from tools import mariadb, postgres

HISTORIES = 24
Places = Mapping[str, Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    reason = postgres.missing() or mariadb.missing()
    if reason is not None:
        pytest.skip(reason)
    with places(tmp_path_factory.mktemp("sqlite")) as started:
        yield started


def test_a_sinks_table_is_what_its_source_told_after_any_history(found: Places) -> None:
    """A failure names its seed: `python -m tests.connectors.jdbc.machine --seed N`."""
    count = Count()
    for seed in range(HISTORIES):
        try:
            History(seed, found, count).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert count.rows > HISTORIES, "most of what was told is in the sinks' tables, and not among the dead letters"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_fault_that_is_put_back_is_found(found: Places, mutation: Mutation) -> None:
    History(mutation.seed, found).run()
    assert found_by(mutation, mutation.seed, found) is not None

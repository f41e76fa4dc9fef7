"""One fault of each quick kind: every record is where it has to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connect.chaos.rounds import running_rounds

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_every_record_arrives_whatever_is_killed(tmp_path: Path) -> None:
    with running_rounds(tmp_path, seed=8) as rounds:
        for kind in ("task", "database", "store", "broker", "worker"):
            rounds.round(kind)
        account = rounds.check()
    assert account.wrong == []
    assert account.records > 0

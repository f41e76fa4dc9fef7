"""Kills at every named place, of a worker, the broker and the driver: each result is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.streams.kills.rounds import PLACES, kills

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]


def test_every_result_is_there_once_whatever_is_killed(tmp_path: Path) -> None:
    with kills(tmp_path, seed=7) as rounds:
        for kind in ("worker", *PLACES, "broker"):
            rounds.kill(kind)
        assert rounds.check() > 0

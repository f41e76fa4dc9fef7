"""A few seconds of everything at once; `make soak SECONDS=` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.__main__ import soak


@pytest.mark.compat
@pytest.mark.slow  # `tests/chaos` has a load with faults in every run; a soak is for hours
@pytest.mark.timeout(300)
def test_every_record_is_accounted_for_after_everything_at_once(tmp_path: Path) -> None:
    against = {claim: problems for claim, problems in soak(tmp_path, seconds=5, seed=7) if problems}
    assert not against, against

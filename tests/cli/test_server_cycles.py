"""A server's objects that stay are not looked through for cycles again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server import running_server

SPY = """
import atexit, gc, pathlib
told = pathlib.Path(__file__).with_name("told")
atexit.register(lambda: told.write_text(f"{gc.get_freeze_count()} {gc.get_threshold()[0]}"))
"""


def test_what_a_server_has_opened_at_its_start_is_not_looked_through_for_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "spy"
    spy.mkdir()
    (spy / "sitecustomize.py").write_text(SPY)
    monkeypatch.setenv("PYTHONPATH", str(spy))
    with running_server(tmp_path):
        pass
    frozen, young = map(int, (spy / "told").read_text().split())
    assert frozen > 10_000 and young > 700

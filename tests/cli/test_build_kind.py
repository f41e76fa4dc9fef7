"""Whether the hot modules are compiled, and what is said where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli import build_kind
from ottla.cli.build_kind import why_pure
from tests.cli.conftest import Run


@pytest.fixture
def pure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for machine code of an interpreter that nobody has."""
    monkeypatch.delenv("OTTLA_PURE", raising=False)
    monkeypatch.setattr(build_kind, "EXTENSION_SUFFIXES", [".another-python.so"])


@pytest.fixture
def record(tmp_path: Path) -> str:
    path = tmp_path / "build_record.json"
    path.write_text(json.dumps({"build": "pure", "reason": "no C compiler was found"}))
    return str(path)


def test_machine_code_for_another_python_is_none(pure: None, run: Run) -> None:
    assert "(pure)" in run("--version").out


def test_a_wheel_says_why_it_is_pure(pure: None, record: str) -> None:
    said = why_pure(record=record) or ""
    assert "(no C compiler was found)" in said and "pip install" in said


def test_a_checkout_has_said_it_before(pure: None, tmp_path: Path) -> None:
    assert why_pure(record=str(tmp_path / "build_record.json")) is None


def test_pure_on_purpose_is_not_complained_about(pure: None, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_PURE", "1")
    assert why_pure(record=record) is None


def test_a_wheel_that_was_to_be_pure_has_nothing_to_tell(pure: None, record: str) -> None:
    Path(record).write_text(json.dumps({"build": "pure", "reason": ""}))
    assert why_pure(record=record) is None

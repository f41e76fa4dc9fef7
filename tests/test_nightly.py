"""`make nightly`: its steps, when one is due, and what the record keeps of a run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))  # which the scripts have as their own folder
nightly, proofs, gen_proofs = (import_module(each) for each in ("nightly", "proofs", "gen_proofs"))
TODAY = date(2026, 11, 29)
STEP = proofs.Step("fuzz", "it takes long", ("true",), ("src/ottla/log",))


def _ran(**changes: Any) -> Any:
    return replace(proofs.Ran(TODAY.isoformat(), "HEAD", 5, True, "3 passed"), **changes)


def test_an_unknown_step_is_refused_with_the_names_that_there_are() -> None:
    found = subprocess.run(
        [sys.executable, ROOT / "tools" / "nightly.py", "no-such-step"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    steps = "fuzz-doors fuzz-jdbc fuzz-capture fuzz-mirror fuzz-registry cost faults sim mutations chaos"
    assert f"slow compat wheels fuzz {steps}" in found.stderr


def test_a_family_names_all_its_steps_and_a_step_only_itself() -> None:
    every = proofs.steps()
    assert {each.name for each in nightly.chosen(every, "mutations")} == {
        "mutations/faults",
        "mutations/named",
        "mutations/sim",
        "mutations/mirror",
        "mutations/registry",
    }
    assert [each.name for each in nightly.chosen(every, "slow/log,sim")] == ["slow/log", "sim"]
    assert nightly.chosen(every, "") == every


def test_steps_have_names_of_their_own_and_prove_what_is_there() -> None:
    every = proofs.steps()
    assert len({each.name for each in every}) == len(every)
    for each in every:
        assert all((ROOT / path).exists() for path in each.proves), each


def test_every_slow_test_is_in_a_step() -> None:
    files = {path.parent for path in (ROOT / "tests").rglob("test_*.py") if "mark.slow" in path.read_text()}
    commands = " ".join(word for each in proofs.steps() for word in each.command) + " tests/packaging"
    tops = {folder.relative_to(ROOT / "tests").parts[0] for folder in files if folder != ROOT / "tests"}
    assert [each for each in sorted(tops) if f"tests/{each}" not in commands] == []


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (None, "never ran"),
        (_ran(), ""),
        (_ran(passed=False), "failed on 2026-11-29"),
        (_ran(day=(TODAY - timedelta(days=32)).isoformat()), "last ran 32 days ago"),
        (_ran(day=(TODAY - timedelta(days=31)).isoformat()), ""),
        (_ran(commit="0123456789"), "not in this clone's history"),
    ],
)
def test_a_step_is_due_that_never_ran_or_failed_or_is_old(ran: Any, why: str) -> None:
    found = nightly.why_due(STEP, ran, TODAY)
    assert found == why if not why else why in found


def test_a_step_is_due_when_what_it_proves_has_changed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "_changes_since", lambda commit, paths: 3)
    assert nightly.why_due(STEP, _ran(), TODAY).startswith("3 commits later")


def test_a_run_keeps_the_last_line_that_counts_and_the_result(capfd: pytest.CaptureFixture[str]) -> None:
    script = "echo one; echo '=== 7 passed in 1 s ==='; echo bye; exit 3"
    found = nightly.run(proofs.Step("x", "it is slow", ("sh", "-c", script), ()))
    assert (found.said, found.passed) == ("7 passed in 1 s", False)
    assert "bye" in capfd.readouterr().out


def test_the_record_is_read_as_it_was_written_and_shown_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "RECORD", tmp_path / "proofs.json")
    monkeypatch.setattr(gen_proofs, "PAGE", tmp_path / "proofs.md")
    proofs.write("sim", _ran(said="12 passed | 0 failed"))
    proofs.write("soak", _ran(passed=False, commit="abc+", seconds=1800))
    assert set(proofs.read()) == {"sim", "soak"}
    text = (tmp_path / "proofs.md").read_text()
    assert "| sim | 2026-11-29 | HEAD | 5 s | passed | 12 passed \\| 0 failed |" in text
    assert "| soak | 2026-11-29 | abc+ | 30 min | **failed** | 3 passed |" in text
    assert "| faults | never |" in text

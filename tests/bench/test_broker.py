"""The broker's benchmark runs: each case once, with next to no load, on Ottla alone; and its runs can be compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.__main__ import available_modes, make, run_cases
from bench.broker import IN_MEMORY, batch_cases, broker_cases
from bench.compaction import LOAD, compaction_cases
from bench.compare import changes, p_value
from bench.compare import main as compare
from bench.crowd import crowd_cases
from bench.page import page
from bench.rows import Case, Metric
from bench.runs import Run, Sample, facts, marked, rows_of
from bench.systems import System
from tests import peer

SCALE = 0.02
MODE = available_modes()[0]
CASES = [
    case
    for cases in (
        broker_cases(make, scale=SCALE),
        batch_cases(SCALE, IN_MEMORY),
        compaction_cases(make, scale=SCALE),
        crowd_cases(make, scale=SCALE),
    )
    for case in cases
]
RATE, CPU = Metric("rate", "MB/s", at_least=1.1), Metric("rate, broker CPU", "s/GB", at_most=0.5)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    found = make(MODE, tmp_path_factory.mktemp("bench") / "broker")
    found.start()
    yield found
    found.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)
def test_a_case_measures_all_its_figures(case: Case, system: System) -> None:
    if "-perf" in case.name and (reason := peer.missing()):
        pytest.skip(reason)
    found = case.run(system)
    assert found.keys() == {each.name for each in case.metrics}
    assert all(value >= 0 for value in found.values())
    assert found.get(LOAD, 1) > 0


def run_of(rates: list[float], theirs: list[float], shares: list[float] | None = None) -> Run:
    """A run of one case whose rounds are these."""
    found = Run(facts(family="broker", rounds=len(rates), kafka="4.3.0"), [RATE, CPU])
    for system, values in (("compiled", rates), ("kafka", theirs)):
        for at, value in enumerate(values):
            share = (shares or [0.4] * len(rates))[at] if system == "compiled" else 0.4
            figures = {RATE.name: value, CPU.name: 1.0}
            found.samples.append(Sample("rate", system, at, figures, 1 - share, share, load=0.5))
    return found


def test_a_run_is_read_as_it_was_kept_and_its_rows_are_medians_of_rounds(tmp_path: Path) -> None:
    run = run_of([200, 300, 220], [100, 100, 200])
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run
    rate, cpu = rows_of(run)
    assert (rate.ottla, rate.kafka, rate.ratio, rate.met, rate.rounds) == (220, 100, 2.0, True, 3)
    assert (cpu.ratio, cpu.met, cpu.system_share, cpu.load) == (1.0, False, 0.4, 0.5)


def test_a_round_that_failed_on_one_side_makes_no_ratio_with_another_rounds() -> None:
    run = run_of([200, 300, 400], [100, 100, 100])
    run.samples = [each for each in run.samples if (each.system, each.round) != ("kafka", 0)]
    assert rows_of(run)[0].ratio == 3.5


def test_a_round_whose_share_of_system_time_is_far_off_is_marked() -> None:
    run = run_of([1, 1, 1, 1, 1], [1] * 5, shares=[0.3, 0.31, 0.29, 0.62, 0.3])
    assert [(each.system, each.round) for each in marked(run.samples)] == [("compiled", 3)]
    assert [row.marked for row in rows_of(run)] == [1, 1]


def test_a_comparison_tells_a_change_from_the_noise() -> None:
    chance = random.Random(7)
    theirs = [100 + chance.random() for _ in range(5)]
    before = run_of([200 + chance.random() for _ in range(5)], theirs)
    quicker = run_of([260 + chance.random() for _ in range(5)], theirs)
    drifted = run_of([one.values[RATE.name] / 2 for one in before.samples[:5]], [each / 2 for each in theirs])
    assert [each.verdict for each in changes(before, quicker)] == ["better", ""]
    assert [each.verdict for each in changes(quicker, before)] == ["worse", ""]
    assert [each.verdict for each in changes(before, drifted)] == ["", ""]


def test_the_test_of_two_samples_is_exact_and_knows_ties() -> None:
    assert p_value([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert p_value([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert p_value([1, 1, 1], [1, 1, 1]) == 1
    assert p_value([], [1]) == 1
    assert p_value(range(30), range(100, 130)) < 0.001


def test_a_file_that_is_no_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.json").write_text("[]")
    assert compare([str(tmp_path / "rows.json"), str(tmp_path / "rows.json")]) == 2
    assert "rows.json is no run of the benchmark" in capsys.readouterr().err


def test_a_page_has_every_row_with_its_spread_and_names_what_no_run_has() -> None:
    run = run_of([200, 300, 250], [100, 100, 100], shares=[0.3, 0.3, 0.9])
    text = page([(run, "Beside nothing else.")])
    assert (
        "| rate | compiled | 250 MB/s | 100 MB/s | 2.5 (2 to 3) | >= 1.1 x Kafka | yes | 3 | 30% / 40% | 0.5 | 1 |"
        in text
    )
    assert "Beside nothing else." in text
    assert "which the benchmark measures too: " in text and "fetch 1 MiB, broker CPU" in text


def test_what_fails_on_a_broker_costs_its_round_alone(system: System, capsys: pytest.CaptureFixture[str]) -> None:
    def run(of: object) -> dict[str, float]:
        if not done:
            done.append(of)
            raise RuntimeError("it stumbled")
        return {RATE.name: 1.0}

    done: list[object] = []
    found = Run(facts())
    run_cases(found, [Case("rate", [RATE], run)], [system], rounds=2)
    assert [(each.round, dict(each.values)) for each in found.samples] == [(1, {RATE.name: 1.0})]
    assert f"failed on {MODE}: it stumbled" in capsys.readouterr().out

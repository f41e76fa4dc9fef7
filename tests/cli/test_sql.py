"""`ottla sql test` runs cases of files, one line each, and one case's fault costs that case alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.commands import sql
from ottla.cli.options import UsageError
from ottla.sql import testing

GOOD = """
CREATE STREAM S (K STRING KEY, V DECIMAL(4, 2)) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM R AS SELECT K, V * 2 AS W FROM S;
"""
INPUT = '{"inputs": [{"topic": "s", "key": "k", "value": {"V": 1.50}, "timestamp": 3}]}'


def case(folder: Path, name: str, statements: str, given: str | None = None) -> None:
    (folder / name).mkdir()
    (folder / name / "statements.sql").write_text(statements)
    if given is not None:
        (folder / name / "input.json").write_text(given)


def test_a_suite_has_a_line_for_each_case_in_the_order_of_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case(tmp_path, "a", GOOD, INPUT)
    case(tmp_path, "b", "CREATE STREM X;")
    case(tmp_path, "c", GOOD, "{")
    case(tmp_path, "d", GOOD + "DROP CONNECTOR C;")
    assert sql.main(["test", "--suite", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [(found["case"], found["status"]) for found in map(json.loads, lines)] == [
        *(("a", "done"), ("b", "refused"), ("c", "refused"), ("d", "unsupported")),
    ]
    assert '"W": 3.00}, "timestamp": 3' in lines[0], "a decimal keeps its scale"
    assert json.loads(lines[1])["category"] == "parse"


def test_a_case_that_does_not_end_costs_that_case_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_case(text: str, inputs: object, topics: object, engine: object) -> list[object]:
        while "SLOW" in text:
            pass
        return []

    monkeypatch.setattr(sql, "CASE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(testing, "run_case", run_case)
    case(tmp_path, "a", "SLOW")
    case(tmp_path, "b", GOOD, INPUT)
    sql.main(["test", "--suite", str(tmp_path)])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["message"] == "not done after 0.05 s" and second["status"] == "done"


def test_one_case_passes_or_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case(tmp_path, "a", GOOD, INPUT)
    files = [str(tmp_path / "a" / name) for name in ("statements.sql", "input.json", "output.json")]
    words = ["test", "-s", files[0], "-i", files[1], "-o", files[2]]
    Path(files[2]).write_text('{"outputs": [{"topic": "R", "key": "k", "value": {"W": 3.00}, "timestamp": 3}]}')
    assert sql.main(words) == 0 and "Test passed!" in capsys.readouterr().out
    Path(files[2]).write_text('{"outputs": [{"topic": "R", "key": "k", "value": {"W": 4}}]}')
    assert sql.main(words) == 1 and "expected the value" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["test"],
        ["test", "--suite", "/nowhere/at/all"],
        ["test", "--suite", "x", "-s", "y"],
        ["test", "--engine", "spark"],
    ],
)
def test_what_is_asked_wrong_is_said(words: list[str]) -> None:
    with pytest.raises(UsageError):
        sql.main(words)

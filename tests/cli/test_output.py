"""Forms of one answer: the same rows as columns, names, JSON and YAML, and colours only where somebody sees them."""

from __future__ import annotations

import json

import pytest
import yaml

from ottla.cli.output import Answer, is_colourful, paint, print_answer

ANSWER = Answer(
    rows=[
        {"topic": "a", "partition": 0, "isr": [1, 2], "internal": False},
        {"topic": "a", "partition": 10, "isr": [], "internal": True},
    ],
    columns={"TOPIC": "topic", "PARTITION": "partition"},
    wide={"ISR": "isr", "INTERNAL": "internal"},
)


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("table", "TOPIC  PARTITION\na              0\na             10\n"),
        ("wide", "TOPIC  PARTITION  ISR  INTERNAL\na              0  1,2  no\na             10  -    yes\n"),
        ("name", "a\n"),
    ],
)
def test_columns_and_names(capsys: pytest.CaptureFixture[str], form: str, printed: str) -> None:
    print_answer(form, ANSWER)
    assert capsys.readouterr().out == printed


def test_json_yaml_and_json_lines_hold_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer("json", ANSWER)
    assert json.loads(capsys.readouterr().out) == list(ANSWER.rows)
    print_answer("yaml", ANSWER)
    assert yaml.safe_load(capsys.readouterr().out) == list(ANSWER.rows)
    print_answer("jsonl", ANSWER)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == list(ANSWER.rows)


def test_text_that_looks_like_another_type_stays_text_in_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"a": "no", "b": "1", "c": "2026-01-01", "d": "ünï: #", "e": "", "f": None}
    print_answer("yaml", Answer([], {}, document=values))
    assert yaml.safe_load(capsys.readouterr().out) == values


def test_nothing_is_coloured_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_colourful()
    assert paint("text", "red") == "text"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("text", "red") == "\x1b[31mtext\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("text", "red") == "text"

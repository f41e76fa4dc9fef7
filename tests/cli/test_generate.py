"""`ottla generate`: what it prints is what monitoring tools read."""

from __future__ import annotations

import json

import pytest
import yaml

from ottla.cli.commands.generate import main
from ottla.cli.options import UsageError


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def test_a_dashboard_is_json_and_rules_and_jobs_are_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "grafana"))["panels"]
    groups = yaml.safe_load(printed(capsys, "prometheus-rules"))["groups"]
    names = [rule["alert"] for group in groups for rule in group["rules"]]
    assert len(names) == len(set(names)) > 10
    config = yaml.safe_load(printed(capsys, "prometheus-config", "--target", "a:1", "--target", "b:2"))
    assert config["scrape_configs"][0]["static_configs"][0]["targets"] == ["a:1", "b:2"]


@pytest.mark.parametrize("argv", [[], ["none"], ["grafana", "--target", "a:1"]])
def test_what_cannot_be_generated_is_said(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        main(argv)

"""What is asked of a broker, a registry and a SQL server costs as much as it is long, and others have their turn meanwhile.

A process of its own counts, once for all tests, since modules are rewritten as they are imported there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.requests.handlers import all_handlers
from ottla.wire import ApiKey
from tests.cost.texts import KINDS

ROOT = Path(__file__).parents[2]
APIS = [ApiKey(each.api_key).name for each in all_handlers()]

Wrong = dict[str, list[str]]
"""What costs too much, by kind."""


def measured(folder: Path, *options: str) -> Wrong:
    """Run the machine."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "tests.cost", "--report", str(report), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert report.exists(), f"{done.stdout}\n{done.stderr}"
    found: Wrong = {}
    for kind, text in json.loads(report.read_text()):
        found.setdefault(kind, []).append(text)
    return found


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    """What the newest version of each API was found to cost too much."""
    return measured(tmp_path_factory.mktemp("apis"), "--n", "32")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    """The same of the registry and of SQL."""
    return measured(tmp_path_factory.mktemp("texts"), "--texts")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("api", APIS)
def test_four_times_the_elements_cost_four_times_as_much_and_others_have_their_turn(api: str, apis: Wrong) -> None:
    assert not apis.get(api), "\n".join(apis[api])


@pytest.mark.parametrize("kind", KINDS)
def test_four_times_the_length_costs_four_times_as_much(kind: str, texts: Wrong) -> None:
    assert not texts.get(kind), "\n".join(texts[kind])


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_version_of_every_api_costs_as_much_as_what_is_asked(tmp_path: Path) -> None:
    wrong = measured(tmp_path, "--n", "128", "--all-versions")
    assert not wrong, "\n".join(text for kind in wrong.values() for text in kind)

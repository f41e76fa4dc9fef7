"""CONTRIBUTING.md's walks: what generators make is whole, what the page names is there, and what a commit message may be."""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from ottla import __version__

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
MADE_UP = re.compile(r"share_group_describe|broker_load|heartbeat")
"""What the walks take for an example."""


sys.path.append(str(ROOT / "tools"))  # which the scripts have as their own folder
NEW_API, NEW_COMMAND, NEW_FILES, COMMIT_MESSAGE = map(
    import_module, ("new_api", "new_command", "new_files", "commit_message")
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the files that generators change, and the folders that they write to."""
    for name in ("src/ottla/broker/api", "src/ottla/cli/commands", "tests/broker", "tests/cli"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("src/ottla/cli/main.py", "tests/broker/advertised.py"):
        shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def run_as_module(path: Path) -> dict[str, object]:
    found: dict[str, object] = {"__name__": path.stem}
    exec(compile(path.read_text(), path, "exec"), found)
    return found


def test_a_new_api_is_a_handler_of_all_of_kafkas_versions(checkout: Path) -> None:
    handler, test, advertised = NEW_API.made("ShareGroupDescribe", root=checkout)
    found = run_as_module(handler)["HANDLER"]
    assert (found.api_key, found.versions) == (77, (1, 1))  # type: ignore[attr-defined]
    assert "test_share_group_describe_is_answered" in run_as_module(test)
    before, after = ((root / "tests/broker/advertised.py").read_text() for root in (ROOT, checkout))
    assert advertised == checkout / "tests/broker/advertised.py"
    assert "ShareGroupDescribe" in before and "ShareGroupDescribe" not in after
    bounds = [int(re.findall(r"^MISSING_MAX = (\d+)", text, re.MULTILINE)[0]) for text in (before, after)]
    assert bounds[1] == bounds[0] - 1


@pytest.mark.parametrize("name", ["", "Nonsense", "describe_cluster"])
def test_an_api_that_kafka_does_not_have_is_refused(checkout: Path, name: str) -> None:
    with pytest.raises(NEW_FILES.NewFilesError, match=r"none of Kafka's APIs"):
        NEW_API.made(name, root=checkout)


def test_a_new_command_is_a_module_and_a_noun(checkout: Path) -> None:
    command, test, door = NEW_COMMAND.made("broker-load", "print how busy brokers are", root=checkout)
    assert callable(run_as_module(command)["main"])
    assert "test_broker_load_prints_text_and_json" in run_as_module(test)
    (nouns,) = (
        ast.literal_eval(each.value)
        for each in ast.parse(door.read_text()).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "NOUNS"
    )
    assert list(nouns.items())[-1] == ("broker-load", "print how busy brokers are")
    with pytest.raises(NEW_FILES.NewFilesError, match="is there already"):
        NEW_COMMAND.made("broker-load", "print how busy brokers are", root=checkout)


@pytest.mark.parametrize("noun", ["", "Share", "a b", "import", "-x"])
def test_what_is_no_noun_is_refused(checkout: Path, noun: str) -> None:
    with pytest.raises(NEW_FILES.NewFilesError, match="is no noun"):
        NEW_COMMAND.made(noun, "what it does", root=checkout)


def test_the_page_names_what_is_there() -> None:
    named = {each for each in re.findall(r"`([\w./-]+/[\w./-]*)`", PAGE) if not MADE_UP.search(each)}
    missing = {each for each in named if not (ROOT / each.rstrip("/")).exists() and not each.startswith(".venv")}
    assert not missing
    linked = {each.partition("#")[0] for each in re.findall(r"\]\(([^)]+)\)", PAGE)}
    assert not {each for each in linked if not (ROOT / each).exists()}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", PAGE, re.MULTILINE)) <= targets


@pytest.mark.parametrize(
    ("message", "mistake"),
    [
        ("Say why\n\nBecause.", None),
        ("# a comment\nSay why\n# another\n\nBecause.", None),
        ("x" * 72, None),
        ("x" * 73, "73 columns"),
        ("Say why\nBecause.", "empty line"),
    ],
)
def test_a_commit_message_has_a_short_subject_and_a_body_apart(message: str, mistake: str | None) -> None:
    found = COMMIT_MESSAGE.mistake(message)
    assert found is None if mistake is None else mistake in found


def test_hooks_and_templates_are_well_formed() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [each["entry"] for each in local["hooks"]] == ["make check", "python3 tools/commit_message.py"]
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        assert {"name", "description", "body"} <= yaml.safe_load(form.read_text()).keys(), form


def test_the_version_is_said_once_more_only_where_it_has_to_be() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].startswith(f"{__version__}, ")
    dates = [each.partition(", ")[2] for each in headings[1:]]
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", each) for each in dates)
    assert dates == sorted(dates, reverse=True)


def test_continuous_integration_checks_and_tests_and_looks_at_nothing_twice() -> None:
    lines = [each for each in (ROOT / ".ci" / "run").read_text().splitlines() if not each.startswith("#")]
    assert lines[-2:] == ["make check", "exec make test"]
    assert "last-failed" not in (ROOT / "tools" / "run_tests.sh").read_text()

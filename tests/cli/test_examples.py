"""`ottla examples`: what the pages tell of is at hand without a checkout."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.commands.examples import examples_folder
from tests.cli.conftest import Run


def test_every_example_is_listed_with_what_it_shows(run: Run) -> None:
    lines = run("examples").out.splitlines()
    told = dict(line.split(None, 1) for line in lines)
    assert told["streams/word_count.py"].startswith("Word count: Kafka's WordCountDemo.")
    assert "sql/word_count.sql" in told and all(told.values())
    assert not any(name.startswith("etl/") for name in told)


def test_a_name_is_a_path_for_other_commands(run: Run) -> None:
    path = Path(run("examples word_count").out.strip())
    assert path == examples_folder() / "streams" / "word_count.py"
    assert run(f"streams describe {path}").code == 0
    assert run("examples sql/word_count.sql").out.endswith("word_count.sql\n")
    assert "names no single example" in run("examples nothing").err


def test_a_copy_is_what_the_pages_name(run: Run, tmp_path: Path) -> None:
    assert run(f"examples --copy {tmp_path / 'examples'}").out == f"{tmp_path / 'examples'}\n"
    assert (tmp_path / "examples" / "streams" / "word_count.py").exists()
    assert "is there already" in run(f"examples --copy {tmp_path / 'examples'}").err

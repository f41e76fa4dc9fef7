"""Commands that the console offers to copy are commands: each is parsed, and the one under a record prints that record."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ottla.cli.catalogue import action_of, parsers_of
from tests.cli.conftest import Run
from tests.server import running_server

WEB = Path(__file__).resolve().parents[2] / "web" / "src"
SAMPLES = {"topic": "words", "row.partition": "0", "row.offset": "11", "data.url": "http://127.0.0.1:8088"}
COPIED = sorted(
    {found for path in WEB.rglob("*.tsx") for found in re.findall(r"<Cli text=\{`(ottla [^`]*)`\}", path.read_text())}
)


def filled(template: str) -> list[str]:
    return shlex.split(re.sub(r"\$\{([^}]*)\}", lambda found: SAMPLES[found[1]], template))


@pytest.mark.parametrize("template", COPIED)
def test_a_command_that_a_page_offers_is_understood(template: str) -> None:
    _, noun, *rest = filled(template)
    parsers = parsers_of(noun)
    chosen = next((each for each in parsers if rest and action_of(each) == rest[0]), None)
    if chosen is None:
        parsers[0].parse(rest)
    else:
        chosen.parse(rest[1:])


def test_the_command_under_a_record_prints_that_record(run: Run, tmp_path: Path) -> None:
    [template] = [each for each in COPIED if each.startswith("ottla consume")]
    with running_server(tmp_path) as server:
        at = f"--bootstrap-server {server.bootstrap}"
        assert run(f"topics create words {at}").code == 0
        lines = "".join(f"word {number}\n" for number in range(15))
        assert run(f"produce words {at}", stdin=lines).code == 0
        found = run(f"{shlex.join(filled(template)[1:])} {at}")
        assert (found.code, found.out) == (0, "word 11\n")
        assert run(f"topics list {at}").out == "words\n" and run(f"groups list {at} -o json").code == 0
        described = run(f"topics describe words {at}").out
        assert described.startswith("Topic: words"), described

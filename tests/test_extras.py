"""What messages and pages say of installing: it works from a checkout and a wheel, and names extras that there are."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from ottla.base import bring_extra
from ottla.base.extras import INSTALLED_FROM
from ottla.cli.main import EXTRAS

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"pip install ['\"]?(?P<what>ottla\b|\.)(?:\[(?P<extras>[\w,]+)\])?")
CALL = re.compile(r"bring_extra\([\"'](\w+)[\"']\)")


def texts() -> dict[str, str]:
    """Return the pages and modules that people read what to install in, by name."""
    listed = subprocess.run(
        ["git", "ls-files", "README.md", "docs/*.md", "src/ottla/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: (ROOT / name).read_text() for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_no_page_and_no_message_installs_a_name_that_pypi_does_not_have() -> None:
    assert INSTALLED_FROM == ".", "once the name is published pages say it, too"
    found = [
        f"{name}: {match[0]}"
        for name, text in texts().items()
        for match in COMMAND.finditer(text)
        if match["what"] != "."
    ]
    assert found == []
    assert bring_extra("spark").startswith("pip install '.[spark]' ")


def test_every_extra_that_is_named_is_one() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = set(EXTRAS.values())
    for text in texts().values():
        named |= {each for match in COMMAND.finditer(text) if match["extras"] for each in match["extras"].split(",")}
        named |= set(CALL.findall(text))
    assert {"spark", "connect", "security"} <= named <= extras

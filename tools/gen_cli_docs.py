"""Write `docs/cli.md` from the parsers of the command line's nouns."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generated_page import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"

HEAD = """# Command line reference

Written from the commands' own parsers by `tools/gen_cli_docs.py`. What they have in common (contexts, `-o`, `--watch`,
positions, formats, completion) is told in [command-line.md](command-line.md). Old names of options, which are taken too,
are not listed.

"""


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def name_of(action: argparse.Action) -> str:
    """Return an option with what it takes, as usage lines write it."""
    shown = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"`{shown}`"
    value = "" if action.nargs == 0 else (f" [{shown}]" if action.nargs == "?" else f" {shown}")
    return f"`{', '.join(action.option_strings)}{value}`"


def section(noun: str, meaning: str) -> str:
    """Return one noun's part of the page."""
    from ottla.cli.catalogue import is_shown, options_of, parsers_of

    parsers = parsers_of(noun)
    text = f"## {noun}\n\n"
    if not parsers:
        return f"{text}{meaning[0].upper()}{meaning[1:]}.\n\n"
    for parser in parsers:
        if len(parsers) > 1:
            text += f"### {parser.prog.removeprefix('ottla ')}\n\n"
        text += f"{parser.description}\n\n| | |\n|---|---|\n"
        for action in options_of(parser):
            if is_shown(action) and action.dest not in ("help", "version"):
                text += f"| {cell(name_of(action))} | {cell((action.help or '').replace('%%', '%'))} |\n"
        text += "\n"
    return text


def render() -> str:
    """Return the page."""
    from ottla.cli.main import NOUNS

    listed = "".join(f"| [{noun}](#{noun}) | {meaning} |\n" for noun, meaning in NOUNS.items())
    sections = "".join(section(noun, meaning) for noun, meaning in NOUNS.items())
    return f"{HEAD}| noun | what it does |\n|---|---|\n{listed}\n{sections}".rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render(), sys.argv[1:]))

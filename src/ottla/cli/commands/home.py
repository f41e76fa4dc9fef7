"""`ottla home`: the folder that stands for `$KAFKA_HOME`, with `bin` and `config` as instructions for Kafka expect them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ottla.cli.options import Options, UsageError

__all__ = ["HOME", "main"]

HOME = Path(__file__).parents[1] / "kafka_home"
RUN = """#!/bin/sh
# run SCRIPT ARGUMENTS...: run the script with the Python that Ottla is installed for.
exec "{python}" -m ottla.cli.scripts "$@"
"""


def main(argv: list[str]) -> int:
    """Print the folder, or make a copy of it, for configurations of one's own, and print that."""
    parser = Options("home", "Print the folder for KAFKA_HOME: export KAFKA_HOME=$(ottla home)")
    parser.add_argument("--copy", metavar="FOLDER", help="make a copy there, whose configurations you can change")
    args = parser.parse(argv)
    print(HOME if args.copy is None else copy_home(Path(args.copy)))
    return 0


def copy_home(folder: Path) -> Path:
    """Copy `bin` and `config` into a folder, which may exist; raises UsageError where it has either already."""
    for name in ("bin", "config"):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} is there already; name another folder, or remove it first")
    shutil.copytree(HOME, folder, dirs_exist_ok=True)
    (folder / "bin" / "run").write_text(RUN.format(python=sys.executable))
    return folder.absolute()

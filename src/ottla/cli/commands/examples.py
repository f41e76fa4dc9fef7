"""`ottla examples`: the programs that the pages tell of, which come with Ottla, to read, run, copy and change."""

from __future__ import annotations

import shutil
from pathlib import Path

from ottla.base import OttlaError
from ottla.cli.options import Options, UsageError

__all__ = ["main"]

PLACES = (Path(__file__).parents[1] / "examples", Path(__file__).parents[4] / "examples")
"""Where they lie: in what was installed, else in the checkout."""
CHECKOUT_ONLY = "etl"
"""A folder of programs that need a checkout: they start databases by its tools."""


def main(argv: list[str]) -> int:
    """List the examples, print the path of one, or copy all; raises UsageError for a name that is none."""
    args = options().parse(argv)
    folder = examples_folder()
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if is_example(folder, path)}
    if args.copy is not None:
        print(copied(folder, found, Path(args.copy)))
    elif args.name is not None:
        print(named(found, args.name))
    else:
        width = max(map(len, found))
        for name, path in found.items():
            print(f"{name:<{width}}  {told_of(path)}")
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options(
        "examples", "List the examples that come with Ottla: ottla streams run $(ottla examples word_count.py)"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="print the path of this one")
    parser.add_argument("--copy", metavar="FOLDER", help="copy all into this folder, which may not be there yet")
    return parser


def examples_folder() -> Path:
    """Return the folder of the examples; raises OttlaError where this installation has none."""
    for each in PLACES:
        if (each / "streams").is_dir():
            return each
    raise OttlaError("this installation has no examples; a checkout has them in its folder examples")


def is_example(folder: Path, path: Path) -> bool:
    """Return whether a path is an example of its own."""
    return path.suffix in (".py", ".sql") and path.relative_to(folder).parts[0] != CHECKOUT_ONLY


def told_of(path: Path) -> str:
    """Return the first sentence of an example's docstring, or of its first comment."""
    first = path.read_text().lstrip().splitlines()[0]
    return first.lstrip("-").strip().strip('"')


def named(found: dict[str, Path], name: str) -> Path:
    """Return the example of a name, with or without its folder and ending; raises UsageError for none or several."""
    fits = [path for full, path in found.items() if name in (full, path.name, path.stem)]
    python = [path for path in fits if path.suffix == ".py"]
    if len(fits) > 1 and len(python) == 1:
        fits = python
    if len(fits) != 1:
        which = ", ".join(sorted(found)) if not fits else f"one of {', '.join(map(str, fits))}"
        raise UsageError(f"{name} names no single example: {which}")
    return fits[0]


def copied(folder: Path, found: dict[str, Path], to: Path) -> Path:
    """Copy the examples into a folder that is not there yet; raises UsageError where it is."""
    if str(to) in ("", ".") or to.exists():
        raise UsageError(f"{to} is there already; name another folder, or remove it first")
    for path in found.values():
        place = to / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return to.absolute()

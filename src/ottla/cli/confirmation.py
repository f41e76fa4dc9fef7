"""`--dry-run` and `--yes`: look first, and do not ask, where a command destroys something."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

__all__ = ["confirmed", "destruction_options"]

NAMED_MAX = 10


def destruction_options(parser: argparse.ArgumentParser) -> None:
    """Declare both options; ask `confirmed` before the request leaves."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be destroyed, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask, also on a terminal")


def confirmed(args: argparse.Namespace, deed: str, names: Sequence[str], *, asked_for: Sequence[str] = ()) -> bool:
    """Return whether to go on: `deed` is such as "delete topic", `names` what it would hit.

    A script is never asked, as Kafka's tools never ask. A person at a terminal is, unless `names` is exactly what was
    asked for by name, so that an expression that matches more than was meant does no harm.
    """
    if args.dry_run:
        for name in names:
            print(f"would {deed} {name}")
        return False
    if args.yes or list(names) == list(asked_for) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    shown = ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")
    print(f"{deed} {shown}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

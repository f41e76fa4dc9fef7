"""`--watch`: a command's answer again and again, until the person at the terminal has seen enough."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from ottla.base import OttlaError
from ottla.cli.output import paint

__all__ = ["watch_option", "watched"]

INTERVAL_SECONDS_DEFAULT = 2.0
INTERVAL_SECONDS_MIN = 0.05
CLEAR = "\x1b[H\x1b[2J"


def _seconds(text: str) -> float:
    value = float(text)
    if not INTERVAL_SECONDS_MIN <= value < 86_400:
        raise ValueError(text)
    return value


def watch_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--watch [SECONDS]`; run the command's work through `watched`."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=INTERVAL_SECONDS_DEFAULT,
        metavar="SECONDS",
        help=f"show it again every so often (alone: {INTERVAL_SECONDS_DEFAULT:g}) until interrupted",
    )


def watched(args: argparse.Namespace, show: Callable[[], None]) -> None:
    """Call `show` once, or with `--watch` until interrupted; a failure is then shown and tried again.

    On a terminal the screen is cleared before each round. In a pipe the rounds follow one another without a word, so that
    `-o jsonl --watch` is a stream that a program reads.
    """
    if args.watch is None:
        show()
        return
    on_terminal = sys.stdout.isatty()
    while True:
        if on_terminal:
            print(CLEAR + paint(f"{time.strftime('%H:%M:%S')}, every {args.watch:g} s", "dim"))
        try:
            show()
        except OttlaError as error:
            print(error, file=sys.stderr)
        sys.stdout.flush()
        time.sleep(args.watch)

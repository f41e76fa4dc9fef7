"""Every noun's parsers: what completion offers and the reference page lists is what the commands themselves parse.

A noun's module has functions without arguments that return `Options`: one, or one per action. A noun whose parsers stand
elsewhere names them in a function `parsers`.
"""

from __future__ import annotations

import argparse
import inspect
from importlib import import_module

from ottla.cli.options import Options

__all__ = ["action_of", "is_shown", "options_of", "parsers_of", "takes_value"]


def parsers_of(noun: str) -> list[Options]:
    """Return a noun's parsers in the order of their programs' names; none for a noun that parses nothing."""
    module = import_module(f"ottla.cli.commands.{noun.replace('-', '_')}")
    if hasattr(module, "parsers"):
        found: list[Options] = module.parsers()
        return found
    makers = [
        function
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__annotations__.get("return") == "Options" and not inspect.signature(function).parameters
    ]
    parsers = {parser.prog: parser for parser in (make() for make in makers)}
    own = [parser for prog, parser in sorted(parsers.items()) if prog.split()[1:2] == [noun]]
    return own or [*parsers.values()]


def action_of(parser: Options) -> str | None:
    """Return the word after the noun that a parser is for, such as `start` of `server start`."""
    words = parser.prog.split()
    return words[2] if len(words) > 2 else None


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return everything that a parser takes, in the order of declaration."""
    return list(parser._actions)


def takes_value(action: argparse.Action) -> bool:
    """True where a word must or may follow the option."""
    return action.nargs != 0


def is_shown(action: argparse.Action) -> bool:
    """True for what is not hidden, and no old name of something else."""
    meaning = action.help or ""
    return meaning != argparse.SUPPRESS and not meaning.startswith(("old name", "its name before", "has no effect"))

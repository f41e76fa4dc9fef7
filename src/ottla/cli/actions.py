"""Commands with actions (`cluster cluster-id`), whose options may stand on either side of the action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.options import Options, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["parse_action"]


def parse_action(noun: str, parsers: Mapping[str, Options], argv: Sequence[str]) -> tuple[str, Namespace]:
    """Return the action and its options; raises UsageError without one, and prints help where it is asked for."""
    action = next((word for word in argv if word in parsers), None)
    if action is not None:
        at = list(argv).index(action)
        parser = parsers[action]
        return action, parser.parse([*argv[:at], *parser.named(argv[at + 1 :])])
    names = ", ".join(parsers)
    if set(argv) & {"-h", "--help"}:
        lines = [f"  {name:<{max(map(len, parsers))}}  {parser.description}" for name, parser in parsers.items()]
        print(f"usage: ottla {noun} {{{names.replace(' ', '')}}} [options]\n\n" + "\n".join(lines))
        raise SystemExit(0)
    bare = [word for word in argv if not word.startswith("-")]
    said = f"invalid choice: '{bare[0]}'" if bare and not argv[0].startswith("-") else "too few arguments"
    raise UsageError(f"{said} (choose from {names})")

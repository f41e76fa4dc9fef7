"""Which topics a pattern on the command line means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.base import INTERNAL_TOPICS, ErrorCode, KafkaError
from ottla.cli.options import compiled_regex

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from ottla.client import BlockingClient

__all__ = ["existing", "matching"]


def matching(names: Iterable[str], pattern: str | None, *, exclude_internal: bool = False) -> list[str]:
    """Return the names, sorted, that a regular expression matches wholly; a comma in it stands for `or`."""
    shown = (name for name in names if not (exclude_internal and name in INTERNAL_TOPICS))
    wanted = (pattern or "").strip().replace(",", "|").replace(" ", "").strip("'\"")
    if not wanted:
        return sorted(shown)
    if re.fullmatch(r"[\w-]+", wanted, re.ASCII):  # a plain name: Java's patterns need not be imported for it
        return [wanted] if wanted in shown else []
    expression = compiled_regex(wanted)
    return sorted(name for name in shown if expression.fullmatch(name))


def existing(client: BlockingClient, args: Namespace) -> list[str]:
    """Return the topics that `--topic` names; raises KafkaError where there are none and `--if-exists` is not given."""
    names = matching(client.metadata().topics, args.topic, exclude_internal=args.exclude_internal)
    if not names and args.topic is not None and not args.if_exists:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{args.topic}' does not exist as expected")
    return names

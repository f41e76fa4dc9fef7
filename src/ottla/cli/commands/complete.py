"""What may come next on the command line: the answer to a shell's Tab, quick, and silent whatever is wrong."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.cli.catalogue import action_of, is_shown, options_of, parsers_of, takes_value
from ottla.cli.main import NOUNS

if TYPE_CHECKING:
    from ottla.cli.options import Options
    from ottla.client import BlockingClient

__all__ = ["candidates", "main"]

CONNECT_SECONDS = 0.3
ANSWER_SECONDS = 1.0
NAMES_MAX = 1000


def main(words: list[str]) -> int:
    """Print the candidates, one per line; anything that fails ends in silence, since a prompt is no place for errors.

    A first word `@NAME` stands for the noun that one of Kafka's scripts runs.
    """
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        contextlib.suppress(Exception, SystemExit),
    ):
        if words and words[0].startswith("@"):
            words = [*_script(words[0]), *words[1:]]
        found = candidates([word for word in words[:-1] if word != "="], words[-1].lstrip("=") if words else "")
        sys.stdout.write("".join(f"{name}\n" for name in found))
    return 0


def _script(word: str) -> tuple[str, ...]:
    """Return the noun, and the action, of `@kafka-topics.sh`; raises KeyError for no script."""
    from ottla.cli.kafka_names import SCRIPTS

    return SCRIPTS[word.removeprefix("@").removesuffix(".sh")]


def candidates(before: list[str], current: str) -> list[str]:
    """Return what may stand for the current word, after the words before it (the first is the noun)."""
    if not before:
        return _beginning([*NOUNS, "--help", "--version"], current)
    parsers = parsers_of(before[0]) if before[0] in NOUNS else []
    actions = [action for parser in parsers if (action := action_of(parser)) is not None]
    if len(before) == 1 and actions:
        return _beginning(actions, current)
    parser = next((each for each in parsers if action_of(each) in (None, before[1] if len(before) > 1 else None)), None)
    if parser is None:
        return []
    words = before[2 if actions else 1 :]
    if current.startswith("-"):
        option, equals, value = current.partition("=")
        if not equals:
            return _beginning(_unused(parser, words), current)
        return [f"{option}={each}" for each in _values(_option(parser, option), words, value)]
    if words and (option_before := _option(parser, words[-1])) is not None and takes_value(option_before):
        return _values(option_before, words, current)
    return _values(_positional(parser, words), words, current)


def _beginning(names: Iterable[str], current: str) -> list[str]:
    return [name for name in names if name.startswith(current)][:NAMES_MAX]


def _option(parser: Options, word: str) -> argparse.Action | None:
    return next((action for action in options_of(parser) if word in action.option_strings), None)


def _unused(parser: Options, words: list[str]) -> list[str]:
    """Return the options' long names; those that were given are left out where they count once."""
    names = []
    for action in options_of(parser):
        repeatable = action.default == [] or action.nargs in ("*", "+")
        if is_shown(action) and (repeatable or not set(action.option_strings) & set(words)):
            names += [name for name in action.option_strings if name.startswith("--")]
    return names


def _positional(parser: Options, words: list[str]) -> argparse.Action | None:
    """Return the positional argument that comes next, by counting the words that are no option's."""
    count, is_value = 0, False
    for word in words:
        option = _option(parser, word) if word.startswith("-") else None
        if not is_value and not word.startswith("-"):
            count += 1
        is_value = option is not None and takes_value(option)
    positionals = [action for action in options_of(parser) if not action.option_strings]
    if count < len(positionals):
        return positionals[count]
    return positionals[-1] if positionals and positionals[-1].nargs in ("*", "+") else None


def _values(action: argparse.Action | None, words: list[str], current: str) -> list[str]:
    """Return what an option or argument may be given; live names come from the cluster that the words mean."""
    if action is None:
        return []
    if action.choices is not None:
        return _beginning(map(str, action.choices), current)
    match action.dest:
        case "topic" | "include" | "topics" | "topic_list":
            return _beginning(_asked(words, _topics), current)
        case "group" | "groups":
            return _beginning(_asked(words, _groups), current)
        case "context":
            return _beginning(_contexts(), current)
        case "name" if "context" in NOUNS and action.metavar == "NAME":
            return _beginning(_contexts(), current)
    return []


def _contexts() -> list[str]:
    from ottla.cli.contexts import known_contexts

    return [*known_contexts()[0]]


def _asked(words: list[str], ask: Callable[[BlockingClient], Iterable[str]]) -> list[str]:
    """Ask the cluster, with little patience: a person waits behind the Tab."""
    from ottla.cli.contexts import target
    from ottla.cli.options import properties_file
    from ottla.client import BlockingClient, Limits, client_network

    named = dict(pairwise(words))
    servers, config = named.get("--bootstrap-server"), named.get("--command-config")
    if servers is None:
        found = target(named.get("--context"))
        servers, config = found.bootstrap_servers, config or found.command_config
    limits = Limits(
        connect_s=CONNECT_SECONDS,
        request_s=ANSWER_SECONDS,
        call_s=ANSWER_SECONDS,
        unreachable_s=CONNECT_SECONDS,
    )
    network = client_network(properties_file(config))
    with BlockingClient(servers, client_id="ottla-complete", limits=limits, network=network) as client:
        return sorted(ask(client))


def _topics(client: BlockingClient) -> Iterable[str]:
    return client.metadata().topics


def _groups(client: BlockingClient) -> Iterable[str]:
    from ottla.wire.messages.list_groups import ListGroupsRequest

    request = ListGroupsRequest(states_filter=[], types_filter=[])
    answers = [client.request(request, node=node) for node in client.metadata(()).nodes]
    return {group.group_id for answer in answers for group in answer.groups}

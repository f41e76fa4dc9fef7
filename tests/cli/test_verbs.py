"""Verbs do what flags do, in every command that has some, before other options and behind them."""

from __future__ import annotations

from importlib import import_module

import pytest

from ottla.cli.main import NOUNS
from ottla.cli.options import Options
from ottla.cli.verbs import VERBS, flagged, named, verb_place

WITH_VERBS = {
    "acls": "list add remove",
    "configs": "describe alter",
    "consumer-groups": "list describe delete reset-offsets delete-offsets",
    "delegation-tokens": "create describe renew expire",
    "groups": "list",
    "log-dirs": "describe",
    "reassign-partitions": "list generate execute verify cancel",
    "topics": "list describe create alter delete",
}
OPTIONS = {"--list": False, "--describe": False, "--topic": True, "--broker": True, "-o": True, "--watch": False}


def parser_of(noun: str) -> Options | None:
    """Return a command's one parser."""
    made = getattr(import_module(f"ottla.cli.commands.{noun.replace('-', '_')}"), "options", None)
    try:
        parser = made() if made is not None else None
    except TypeError:  # it has one for each action
        return None
    return parser if isinstance(parser, Options) else None


def flags_of(parser: Options) -> set[str]:
    return {name.lstrip("-") for action in parser._actions if action.nargs == 0 for name in action.option_strings}


def test_each_command_with_verbs_is_known() -> None:
    found = {noun: parser for noun in NOUNS if (parser := parser_of(noun)) is not None}
    asked = {noun: set(VERBS) & flags_of(parser) for noun, parser in found.items()}
    needless = {"consumer-groups": {"execute"}}  # it is what `reset-offsets` is told beside its verb
    assert {noun: verbs - needless.get(noun, set()) for noun, verbs in asked.items() if verbs} == {
        noun: set(verbs.split()) for noun, verbs in WITH_VERBS.items()
    }


@pytest.mark.parametrize("noun", WITH_VERBS)
def test_a_verb_is_its_flag_wherever_it_stands_and_help_shows_it(noun: str) -> None:
    parser = parser_of(noun)
    assert parser is not None
    for verb in WITH_VERBS[noun].split():
        meant = vars(parser.parse([f"--{verb}", "--bootstrap-server", "b:1"]))
        assert vars(parser.parse([verb, "--bootstrap-server", "b:1"])) == meant
        assert vars(parser.parse(["--bootstrap-server", "b:1", verb])) == meant
        assert verb in parser.format_help().partition("Verbs ")[2].split("see")[0]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("describe t", "--describe --topic t"),
        ("-o json describe t", "-o json --describe --topic t"),
        ("-ojson describe t", "-ojson --describe --topic t"),
        ("describe broker 1", "--describe --broker 1"),
        ("describe brokers 1 -o json", "--describe --broker 1 -o json"),
        ("describe topic", "--describe --topic topic"),
        ("describe --topic describe", "--describe --topic describe"),
        ("--topic describe --list", "--topic describe --list"),
        ("--topic=list describe", "--topic=list --describe"),
        ("nonsense describe", "nonsense describe"),
        ("", ""),
    ],
)
def test_a_name_behind_a_verb_gets_its_option(typed: str, meant: str) -> None:
    assert list(flagged("topics", typed.split(), OPTIONS)) == meant.split()


def test_a_name_of_nothing_stays_a_word() -> None:
    assert named("log-dirs", ["x"], {"--describe": False}) == ["x"]
    assert verb_place(["-o", "json"], lambda word: True) is None


def test_a_name_behind_an_action_gets_its_option_too() -> None:
    from ottla.cli.actions import parse_action
    from ottla.cli.commands.transactions import parsers

    by_name = {each.prog.split()[-1]: each for each in parsers()}
    for words in (["describe", "x", "--bootstrap-server", "b:1"], ["--bootstrap-server", "b:1", "describe", "x"]):
        action, args = parse_action("transactions", by_name, words)
        assert (action, args.transactional_id, args.bootstrap_server) == ("describe", "x", "b:1")

"""Options as Kafka's tools spell them, old names beside new ones (KIP-1147), with Kafka's words for what is wrong."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.cli.kafka_names import KAFKA_NOUNS
from ottla.cli.output import FORMS
from ottla.cli.verbs import flagged, named, subject_of, verbs_text

if TYPE_CHECKING:
    from ottla.client import BlockingClient
    from ottla.java import JavaPattern

__all__ = [
    "Options",
    "UsageError",
    "check_invalid",
    "check_required",
    "chosen_cluster",
    "compiled_regex",
    "count_of",
    "key_values",
    "open_client",
    "output_option",
    "properties_file",
    "properties_text",
    "usage_errors",
    "warn",
    "whole_number",
]


LONG_MAX = 2**63 - 1
SECURITY = ("security.", "sasl.", "ssl.")
"""How settings begin that say how a client connects."""
PLACES = {"FILE", "FOLDER", "DIR", "PATH", "CSV"}
PLACE_ENDINGS = (".properties", ".py")
"""How options that take the name of a file or a folder call it."""


class UsageError(Exception):
    """Options that do not go together, or that are missing; its text is Kafka's for the same mistake."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        """What may have been meant: a sentence beside Kafka's words, or nothing."""


class Options(argparse.ArgumentParser):
    """A parser whose errors are UsageErrors; `--option=value` works as in Kafka's tools, and so do abbreviations in those.

    Ottla's own commands take none: `--form` must not become `--format` where a later version has both.
    """

    def __init__(self, noun: str, description: str, *, tells_version: bool = True) -> None:
        """`tells_version` is false where `--version` names something of the command's own."""
        kafka = noun.partition(" ")[0] in KAFKA_NOUNS
        super().__init__(prog=f"ottla {noun}", description=description, allow_abbrev=kafka)
        if tells_version:
            self.add_argument("--version", action="version", version=_version(), help="print the version")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the parsed options; raises UsageError for what is not one."""
        args, unknown = self.parse_known_args(self._joined(self._flagged(argv)))
        if unknown:
            name = unknown[0].lstrip("-").partition("=")[0]
            raise UsageError(f"{name} is not a recognized option", self._meant(unknown[0]))
        fill_target(args)
        return args

    def _flagged(self, argv: Sequence[str]) -> Sequence[str]:
        """Return `create x` as `--create --topic x`, where no word stands for itself here."""
        if any(not action.option_strings for action in self._actions):
            return argv
        return flagged(self._noun, argv, self._options)

    def named(self, words: Sequence[str]) -> list[str]:
        """Return what stands behind an action with an option before its names; see `verbs.named`."""
        if any(not action.option_strings for action in self._actions):
            return list(words)
        return named(self._noun, words, self._options)

    def format_help(self) -> str:
        """Return the help, with its verbs where it has some."""
        if not any(not action.option_strings for action in self._actions):
            self.epilog = self.epilog or verbs_text(self._noun, self._options)
        return super().format_help()

    @property
    def _noun(self) -> str:
        return self.prog.partition(" ")[2]

    @property
    def _options(self) -> dict[str, bool]:
        """Each option, and whether it takes a value."""
        return {name: action.nargs not in (0, "?") for action in self._actions for name in action.option_strings}

    def _joined(self, argv: Sequence[str]) -> list[str]:
        """Join `--offset -1h` and `--by-duration -PT1H` by `=`: argparse would take the value for an option."""
        found: list[str] = []
        for word in argv:
            is_value = re.match(r"-\d", word) or (re.match(r"-[^-]", word) and not self._is_option(word))
            if is_value and found and re.fullmatch(r"--[\w.-]+", found[-1]) and self.takes_a_value(found[-1]):
                found[-1] += f"={word}"
            else:
                found.append(word)
        return found

    def _is_option(self, word: str) -> bool:
        """Return whether a word of one dash is an option, or begins with one: `-ojson`."""
        name = word.partition("=")[0]
        return any(each == name or (len(each) == 2 and word.startswith(each)) for each in self._option_string_actions)

    def takes_a_value(self, option: str) -> bool:
        """Return whether an option takes one value; True for one that is not known here, as an abbreviation."""
        action = self._option_string_actions.get(option)
        return action is None or action.nargs is None

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return an option's value; argparse has none for `--option=--`."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return a value; raises UsageError for the empty name of a file or folder, which would be the working folder."""
        shown = str(action.metavar)
        if not arg_string and (shown in PLACES or shown.endswith(PLACE_ENDINGS)):
            name = action.option_strings[-1].lstrip("-") if action.option_strings else shown
            raise UsageError(f"Cannot parse argument '' of option {name}", "The name of a file or folder is expected.")
        return super()._get_value(action, arg_string)

    def _meant(self, word: str) -> str:
        """Return the sentence that helps somebody whose option does not exist, or nothing."""
        from difflib import get_close_matches

        option = word.partition("=")[0]
        if option.lstrip("-").startswith("zookeeper"):
            return "No cluster has a ZooKeeper any more: --bootstrap-server HOST:PORT names its brokers."
        known = [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]
        longer = [name for name in known if option.startswith("--") and name.startswith(option)]
        found = longer or get_close_matches(option, known, 1)
        if found:
            return f"Did you mean {' or '.join(found)}?"
        subject = None if option.startswith("-") else subject_of(self._noun, self._options)
        return f"A name stands behind its option: {subject} {option}." if subject else ""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong in the words of Kafka's tools where they have some."""
        if match := re.fullmatch(r"argument (?:\S+/)*--([\w.-]+)\S*: expected one argument", message):
            raise UsageError(f"Option {match[1]} requires an argument")
        if match := re.fullmatch(r"argument (?:\S+/)*--([\w.-]+)\S*: invalid \S+ value: '(.*)'", message):
            raise UsageError(f"Cannot parse argument '{match[2]}' of option {match[1]}")
        raise UsageError(message)

    def connection(self, old_config: str | None = None) -> None:
        """Declare `--bootstrap-server`, `--context` and `--command-config`, also under its old name.

        Where neither is given, `parse` fills in what the environment or the current context says.
        """
        self.add_argument(
            "--bootstrap-server", metavar="HOST:PORT,…", help="the brokers to begin with (default: the context's)"
        )
        self.add_argument("--context", metavar="NAME", help="the cluster of this name; `ottla context` keeps them")
        names = ["--command-config", *([old_config] if old_config else [])]
        self.add_argument(*names, metavar="FILE", dest="command_config", help="properties file for the client")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn an `AdminError` inside the block into a UsageError: the options asked for what makes no sense."""
    from ottla.admin import AdminError

    try:
        yield
    except AdminError as error:
        raise UsageError(str(error)) from None


def fill_target(args: argparse.Namespace) -> None:
    """Fill `bootstrap_server` and `command_config` from the environment and the context where no option gave them.

    A context's properties belong to its own brokers: they are not used where an option names other ones.
    """
    if not hasattr(args, "bootstrap_server") or not hasattr(args, "context"):
        return
    if args.bootstrap_server is not None or getattr(args, "bootstrap_controller", None) is not None:
        if args.context is not None:
            raise UsageError("--context and a bootstrap option cannot be used together: each names a cluster")
        return
    from ottla.cli.contexts import target

    found = target(args.context)
    args.bootstrap_server = found.bootstrap_servers
    older = [getattr(args, f"{name}_config", None) for name in ("command", "consumer", "producer", "admin")]
    if not any(older):
        args.command_config = found.command_config


def chosen_cluster(args: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Return the brokers that a server's options or the context name, and how the context connects to them."""
    config = getattr(args, "command_config", None)
    login = {} if config is None else properties_file(config)
    return args.bootstrap_server, {name: value for name, value in login.items() if name.startswith(SECURITY)}


def _version() -> str:
    from ottla import __version__

    return __version__


def output_option(parser: argparse.ArgumentParser, *forms: str, default: str = "text") -> None:
    """Declare `-o`/`--output` with some of `ottla.cli.output.FORMS`, or all; print with `print_answer`."""
    choices = list(forms) if forms else list(FORMS)
    if default == "text" and "text" in choices:
        meaning = "Kafka's own text (text, the default), or another form"
    else:
        meaning = f"the form of what is printed (default: {default})"
    parser.add_argument("-o", "--output", choices=choices, default=default, help=meaning)


def whole_number(text: str) -> int:
    """Parse an integer as Java parses a Long, for argparse's `type`."""
    if not re.fullmatch(r"[+-]?\d{1,40}", text, re.ASCII) or not -LONG_MAX - 1 <= int(text) <= LONG_MAX:
        raise ValueError(text)
    return int(text)


def count_of(text: str) -> int:
    """Parse a whole number that is not negative, for argparse's `type`."""
    found = whole_number(text)
    if found < 0:
        raise ValueError(text)
    return found


def check_required(args: argparse.Namespace, *names: str) -> None:
    """Raise UsageError for the first option that is missing."""
    for name in names:
        if getattr(args, name.replace("-", "_")) in (None, False):
            raise UsageError(f'Missing required argument "[{name}]"')


def check_invalid(args: argparse.Namespace, used: str, invalid: Iterable[str]) -> None:
    """Raise UsageError where `used` was given beside one of the options that it does not go with."""
    if getattr(args, used.replace("-", "_")) in (None, False, []):
        return
    for name in invalid:
        if getattr(args, name.replace("-", "_")) not in (None, False, []):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def properties_file(path: str | None) -> dict[str, str]:
    """Read a properties file, or nothing where none is named."""
    if path is None:
        return {}
    from ottla.config import parse_properties

    return parse_properties(properties_text(path))


def properties_text(path: str) -> str:
    """Return a properties file's text: UTF-8, or else Latin-1, which is what Java reads."""
    data = Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def compiled_regex(text: str) -> JavaPattern:
    """Compile a regular expression of Java's; raises KafkaError for what is none."""
    from ottla.java import PatternError, compile_java

    try:
        return compile_java(text)
    except PatternError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{text} is an invalid regex: {error}") from None


def key_values(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `key=value` pairs; a key without `=` stands for an empty value, as in Kafka's tools."""
    found = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        found[key.strip()] = value
    return found


_CLIENT_SECONDS = {
    "request.timeout.ms": "request_s",
    "default.api.timeout.ms": "call_s",
    "socket.connection.setup.timeout.ms": "connect_s",
    "retry.backoff.ms": "backoff_s",
    "retry.backoff.max.ms": "backoff_max_s",
}


def open_client(
    bootstrap: str,
    properties: dict[str, str] | None = None,
    client_id: str = "ottla",
    *,
    of_controllers: bool = False,
) -> BlockingClient:
    """Return a client for these brokers, or controllers, as patient as the properties ask for.

    Raises ConfigError for what it does not do: a connection that must be protected is never opened in the clear.
    """
    from ottla.client import BlockingClient, Limits, client_network

    properties = properties or {}
    seconds = {}
    for key, field in _CLIENT_SECONDS.items():
        if key in properties:
            try:
                seconds[field] = int(properties[key]) / 1000
            except ValueError:
                raise ConfigError(key, properties[key], "Not a number of type INT") from None
    if "call_s" in seconds:
        seconds["unreachable_s"] = min(seconds["call_s"], Limits().unreachable_s)
    return BlockingClient(
        bootstrap,
        client_id=properties.get("client.id", client_id),
        limits=Limits(**seconds),
        network=client_network(properties),
        of_controllers=of_controllers,
    )


def warn(message: str) -> None:
    """Print a line for the person at the terminal, beside the output."""
    print(message, file=sys.stderr)

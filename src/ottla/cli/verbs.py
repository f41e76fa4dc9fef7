"""Verbs beside flags: `topics create x` is `topics --create --topic x`, before other options and behind them.

Nothing of Kafka's is lost by it: its tools take no bare words, so that none of theirs is read as a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

__all__ = ["flagged", "named", "subject_of", "verb_place", "verbs_text"]

SUBJECTS = ("--topic", "--group", "--transactional-id")
"""What a name behind a verb names: the first of these that a command has."""
SUBJECT_OF = {"consumer-groups": "--group"}
"""What it names for a command that has another one of them first."""
VERBS = (
    *("list", "describe", "create", "alter", "delete", "add", "remove", "renew", "expire"),
    *("reset-offsets", "delete-offsets", "generate", "execute", "verify", "cancel"),
)
"""The flags that help shows as verbs."""
Options = Mapping[str, bool]
"""Each option that a command has, and whether it takes a value."""


def subject_of(noun: str, options: Options) -> str | None:
    """Return the option that names what a command is about; None where it has none."""
    return SUBJECT_OF.get(noun) or next((name for name in SUBJECTS if name in options), None)


def verb_place(argv: Sequence[str], takes_value: Callable[[str], bool]) -> int | None:
    """Return where the first word stands that is neither an option nor an option's value; None where there is none."""
    at = 0
    while at < len(argv):
        word = argv[at]
        if not word.startswith("-"):
            return at
        has_its_value = "=" in word or (len(word) > 2 and not word.startswith("--"))  # as -ojson
        at += 2 if not has_its_value and takes_value(word) else 1
    return None


def flagged(noun: str, argv: Sequence[str], options: Options) -> Sequence[str]:
    """Return the words with a verb as the flag that it is here, and with options before the names behind it."""
    at = verb_place(argv, lambda word: options.get(word, True))
    if at is None or options.get(f"--{argv[at]}", True):
        return argv
    return [*argv[:at], f"--{argv[at]}", *named(noun, argv[at + 1 :], options)]


def named(noun: str, words: Sequence[str], options: Options) -> list[str]:
    """Return what stands behind a verb with an option before its names: `t`, or `topic t`, is `--topic t`."""
    bare = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    if bare >= 2:
        kind = next((f"--{each}" for each in _kinds(words[0]) if options.get(f"--{each}")), None)
        if kind is not None:
            return [kind, *words[1:]]
    subject = subject_of(noun, options)
    return [subject, *words] if bare and subject is not None else list(words)


def _kinds(word: str) -> tuple[str, ...]:
    """Return the options that a word may mean: that of its name, and of its singular."""
    return (word, word.removesuffix("s"))


def verbs_text(noun: str, options: Options) -> str | None:
    """Return the sentence of a command's help about its verbs; None where it has none."""
    verbs = [name for name in VERBS if options.get(f"--{name}") is False]
    if not verbs:
        return None
    subject = subject_of(noun, options)
    shown = "describe" if "describe" in verbs else verbs[0]
    name, flags = (" NAME", f" {subject} NAME") if subject is not None else ("", "")
    return (
        f"Verbs do for flags: `ottla {noun} {shown}{name}` is `ottla {noun} --{shown}{flags}`. "
        f"Verbs: {', '.join(verbs)}."
    )

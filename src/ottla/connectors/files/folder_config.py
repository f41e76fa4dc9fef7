"""FolderSource's keys, and what they say as typed settings."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import ConfigDef, ConfigValue, Importance, validators
from ottla.connectors.files.followed import Waits
from ottla.connectors.files.followed_log import Following
from ottla.connectors.files.framing import Framing
from ottla.connectors.files.names import ROTATED, Names
from ottla.java import JavaPattern, PatternError, compile_java

__all__ = ["ABOUT", "CONFIG_DEF", "FolderSettings", "settings_of", "validated"]

ABOUT = ("path", "name", "log", "line", "position", "host")
"""What can be said of a record beside its text."""

NUMBER, COUNT, SALT = "task.number", "task.count", "task.salt"
"""Keys of a task's own configuration: which logs are its own."""


def _regex(name: str, value: Any) -> None:
    if not value:
        return
    try:
        compile_java(value)
    except PatternError as error:
        raise validators.invalid(name, value, f"it is no regular expression: {error}") from error


def _encoding(name: str, value: Any) -> None:
    try:
        "\n".encode(codecs.lookup(value).name)
    except (LookupError, TypeError, UnicodeError) as error:
        raise validators.invalid(name, value, "it is no encoding of text; UTF-8 and ISO-8859-1 are ones") from error


_REGEX = validators.Lambda(_regex, "a regular expression, or nothing")
_ENCODING = validators.Lambda(_encoding, "an encoding's name")
_AT_LEAST_0, _AT_LEAST_1 = validators.Range(0), validators.Range(1)
_MS_OR_NEVER = validators.Range(-1)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _INT, _LONG = ConfigType.STRING, ConfigType.LIST, ConfigType.INT, ConfigType.LONG

_KEYS: tuple[tuple[str, ConfigType, Any, Importance, Any, str, str], ...] = (
    ("topic", _STRING, None, _HIGH, validators.NonEmptyString(), "Records", "The topic to write to."),
    (
        *("paths", _LIST, None, _HIGH, validators.NonEmptyList(), "Files"),
        "Files, folders (every file in them) and patterns with *, ?, [...] and ** (any folders).",
    ),
    ("exclude", _LIST, "", _MEDIUM, None, "Files", "Patterns of names or paths that are left out."),
    ("symlinks", ConfigType.BOOLEAN, False, _LOW, None, "Files", "Whether patterns match symbolic links."),
    (
        *("start.position", _STRING, "beginning", _MEDIUM, validators.ValidString("beginning", "end"), "Files"),
        "Where files begin to be read that were there before the connector's first start; new files are read whole.",
    ),
    (
        *("rotated.pattern", _STRING, ROTATED, _LOW, _REGEX, "Files"),
        "What rotation adds to a file's name, as a regular expression; files whose names are equal without it (and "
        "without .gz, .bz2, .xz) are one log, read in the order of their lines. Empty: every file is a log by itself.",
    ),
    ("scan.interval.ms", _LONG, 1000, _LOW, _AT_LEAST_1, "Files", "How often new files are looked for."),
    ("poll.interval.ms", _LONG, 100, _LOW, _AT_LEAST_1, "Files", "How often quiet files are looked at."),
    ("read.bytes", _INT, 1 << 20, _LOW, _AT_LEAST_1, "Files", "About how much of a file is read at once."),
    (
        *("rotated.close.ms", _LONG, 60_000, _LOW, _AT_LEAST_0, "Files"),
        "How long a rotated file has to be quiet before it is closed.",
    ),
    (
        *("close.inactive.ms", _LONG, 300_000, _LOW, _AT_LEAST_0, "Files"),
        "How long any other file has to be quiet before it is closed; it is opened again when it grows.",
    ),
    (
        *("finished.policy", _STRING, "keep", _MEDIUM, validators.ValidString("keep", "delete", "move"), "Files"),
        "What becomes of files that were read to their ends, once their last record is stored.",
    ),
    ("finished.folder", _STRING, None, _LOW, None, "Files", "Where finished.policy=move puts files."),
    (
        *("finished.after.ms", _LONG, 60_000, _LOW, _AT_LEAST_0, "Files"),
        "How long a file must not have been written to before it is finished.",
    ),
    ("encoding", _STRING, "UTF-8", _MEDIUM, _ENCODING, "Records", "The files' encoding."),
    (
        *("encoding.errors", _STRING, "replace", _LOW, validators.ValidString("replace", "fail"), "Records"),
        "What becomes of bytes that are no text: U+FFFD in their place, or the task fails.",
    ),
    ("record.bytes.max", _INT, 1 << 20, _MEDIUM, validators.Range(16), "Records", "How long a record may be."),
    (
        *("record.too.long", _STRING, "split", _LOW, validators.ValidString("split", "truncate", "fail"), "Records"),
        "What becomes of a longer line: several records, its beginning only, or the task fails.",
    ),
    (
        *("last.line.wait.ms", _LONG, -1, _LOW, _MS_OR_NEVER, "Records"),
        "How long a file has to be quiet before its last line is a record though it has no line end; -1: for ever, unless "
        "the file was rotated, compressed or removed.",
    ),
    (
        *("multiline.start", _STRING, None, _MEDIUM, _REGEX, "Records"),
        "A regular expression that is found in the first line of each record, and in no other line.",
    ),
    (
        *("multiline.continue", _STRING, None, _MEDIUM, _REGEX, "Records"),
        "A regular expression that is found in every line of a record but the first, and in no other line.",
    ),
    ("multiline.lines.max", _INT, 500, _LOW, _AT_LEAST_1, "Records", "How many lines one record may have."),
    (
        *("multiline.wait.ms", _LONG, 1000, _LOW, _AT_LEAST_0, "Records"),
        "How long a file has to be quiet before its last record of several lines has all of them.",
    ),
    (
        *("key", _STRING, "none", _MEDIUM, validators.ValidString("none", "path", "name", "log", "pattern"), "Records"),
        "Each record's key: none, the file's path or name, its log's path, or what key.pattern finds.",
    ),
    (
        *("key.pattern", _STRING, None, _LOW, _REGEX, "Records"),
        "A regular expression whose first group, or whole match, is the key; null where it is not found.",
    ),
    (
        *("value.fields", _LIST, "", _MEDIUM, validators.ValidList(*ABOUT), "Records"),
        "What the value has beside 'message', the text: it is a struct then, else the text itself.",
    ),
    (
        *("headers", _LIST, "", _MEDIUM, validators.ValidList(*ABOUT), "Records"),
        "What each record has in headers named file.path, file.name and so on.",
    ),
)

_REQUIRED = {"topic", "paths"}


def _definition() -> ConfigDef:
    found = ConfigDef()
    for order, (name, type_, default, importance, validator, group, doc) in enumerate(_KEYS):
        more = {} if name in _REQUIRED else {"default": default}
        found.define(name, type_, **more, importance=importance, doc=doc, validator=validator, group=group, order=order)
    for name in (NUMBER, COUNT, SALT):
        default = 1 if name == COUNT else 0
        found.define(name, _INT, default, importance=_LOW, doc="Set for each task by the connector.", internal=True)
    return found


CONFIG_DEF = _definition()


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """What a configuration says; times are seconds."""

    topic: str
    names: Names
    following: Following
    at_end: bool
    scan: float
    poll: float
    policy: str
    finished_folder: str | None
    finished_after: float
    key: str
    key_pattern: JavaPattern | None
    fields: tuple[str, ...]
    headers: tuple[str, ...]
    number: int
    count: int
    salt: int


def settings_of(props: Mapping[str, str]) -> FolderSettings:
    """Return what a configuration says; raises ConfigError."""
    values = CONFIG_DEF.parse(props)
    wrong = next(iter(_wrong(values)), None)
    if wrong is not None:
        raise ConfigError(wrong[0], values.get(wrong[0]), wrong[1])
    policy = values["finished.policy"]
    seconds = {name: value / 1000 for name, value in values.items() if name.endswith(".ms")}
    last_line: float | None = seconds["last.line.wait.ms"] if values["last.line.wait.ms"] >= 0 else None
    if last_line is None and policy != "keep":
        last_line = seconds["finished.after.ms"]
    waits = Waits(last_line, seconds["multiline.wait.ms"])
    return FolderSettings(
        topic=values["topic"],
        names=Names(values["paths"], _excluded(values), values["rotated.pattern"], symlinks=values["symlinks"]),
        following=Following(
            _framing(values),
            waits,
            values["read.bytes"],
            seconds["rotated.close.ms"],
            seconds["close.inactive.ms"],
        ),
        at_end=values["start.position"] == "end",
        scan=seconds["scan.interval.ms"],
        poll=seconds["poll.interval.ms"],
        policy=policy,
        finished_folder=values["finished.folder"],
        finished_after=seconds["finished.after.ms"],
        key=values["key"],
        key_pattern=compile_java(values["key.pattern"]) if values["key"] == "pattern" else None,
        fields=tuple(values["value.fields"]),
        headers=tuple(values["headers"]),
        number=values[NUMBER],
        count=values[COUNT],
        salt=values[SALT],
    )


def _excluded(values: Mapping[str, Any]) -> list[str]:
    """Return what is left out: what the configuration says, and what was moved away."""
    moved = values["finished.folder"]
    return [*values["exclude"], *([os.path.join(moved, "*")] if moved else [])]


def _framing(values: Mapping[str, Any]) -> Framing:
    start, further = values["multiline.start"], values["multiline.continue"]
    return Framing(
        encoding=codecs.lookup(values["encoding"]).name,
        errors="strict" if values["encoding.errors"] == "fail" else "replace",
        bytes_max=values["record.bytes.max"],
        too_long=values["record.too.long"],
        start=compile_java(start) if start else None,
        further=compile_java(further) if further else None,
        lines_max=values["multiline.lines.max"],
    )


def _wrong(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong between keys: the key to set right, and what was expected."""
    found = []
    if values.get("multiline.start") and values.get("multiline.continue"):
        found.append(("multiline.continue", "only one of multiline.start and multiline.continue can be set"))
    if values.get("key") == "pattern" and not values.get("key.pattern"):
        found.append(("key.pattern", "key=pattern needs a regular expression here"))
    folder = values.get("finished.folder")
    if values.get("finished.policy") == "move" and not folder:
        found.append(("finished.folder", "finished.policy=move needs a folder to move files to"))
    elif values.get("finished.policy") == "move" and not os.path.isdir(folder or ""):
        found.append(("finished.folder", f"there is no folder {folder}"))
    return found


def validated(props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
    """Return what is found of every key, with what is wrong between them."""
    found = CONFIG_DEF.validate(props)
    for name, text in _wrong({name: each.value for name, each in found.items()}):
        found[name].errors.append(f"Invalid value {found[name].value} for configuration {name}: {text}")
    return found

"""Where settings come from: `server.properties` text, the container image's environment, and `--override` pairs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from ottla.base import ConfigError

__all__ = ["environment_properties", "override_properties", "parse_properties", "system_properties"]

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parse the whole of Java's properties syntax: comments, `=`, `:` or blank separators, escapes, continuations.

    Of a key given twice the last value stays. Raises ConfigError on a malformed `\\uXXXX` escape.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        found[_unescape(key)] = _unescape(value)
    return found


def _logical_lines(text: str) -> Iterable[str]:
    """Yield the lines that are neither blank nor comments, with their continuations joined."""
    pending = ""
    continuing = False
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if not continuing and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        continuing = slashes % 2 == 1
        pending += line[:-1] if continuing else line
        if not continuing:
            yield pending
            pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Cut a logical line at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped.startswith("u"):
            if len(escaped) != 5:
                raise ConfigError(text, match[0], r"a \u escape needs four hexadecimal digits")
            return chr(int(escaped[1:], 16))
        return _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text, flags=re.DOTALL) if "\\" in text else text


_IMAGE_VARIABLES = re.compile(
    r"KAFKA_(VERSION|HEAP_OPTS|LOG4J_.*|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS|JMX_.*|OPTS|DEBUG|HOME|USER|SCALA_VERSION|"
    r"CLUSTER_ID|MODE|PEER|TOOLS_.*|REST_.*|SSL_(KEYSTORE|TRUSTSTORE|KEY)_(FILENAME|CREDENTIALS))"
)
"""What the apache/kafka image keeps for itself and its scripts."""


def environment_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties in `KAFKA_…` variables, spelt as in Apache's container image.

    `KAFKA_FOO_BAR` is `foo.bar`; `__` stands for `_`, and `___` for `-`. The image's own variables are left out.
    """
    found = {}
    for variable in sorted(environment):
        if variable.startswith("KAFKA_") and not _IMAGE_VARIABLES.fullmatch(variable):
            name = variable.removeprefix("KAFKA_").lower()
            name = name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
            found[name] = environment[variable]
    return found


def system_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what KAFKA_OPTS gives to a Java process as `-Dkey=value`: what no configuration may say.

    Raises ConfigError where its quotes do not end.
    """
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise ConfigError("KAFKA_OPTS", "[hidden]", str(error)) from error
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {key: value for key, _, value in pairs}


def override_properties(pairs: Iterable[str]) -> dict[str, str]:
    """Return the properties of `key=value` pairs from the command line; raises ConfigError on one without `=`."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError("--override", pair, "expected key=value")
        found[key.strip()] = value.strip()
    return found

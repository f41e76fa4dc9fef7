"""From the names that certificates and Kerberos carry to the names that ACLs hold.

`ssl.principal.mapping.rules` (KIP-371) and `sasl.kerberos.principal.to.local.rules`. Expressions are Java's, in whose syntax
people wrote their rules (`ottla.java`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from ottla.base import ConfigError, OttlaError
from ottla.java import Found, JavaPattern, PatternError, compile_java

__all__ = ["KerberosRules", "NoRuleError", "SslRules"]

SSL_RULES = "ssl.principal.mapping.rules"
KERBEROS_RULES = "sasl.kerberos.principal.to.local.rules"
_SEGMENT = re.compile(r"(?:\\.|[^\\/])*", re.DOTALL)
_FLAG = re.compile(r"[LU]?")
_KERBEROS_RULE = re.compile(
    r"DEFAULT|RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_KERBEROS_NAME = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_DOLLAR = re.compile(r"\$(\d*)")


class NoRuleError(OttlaError):
    """No rule applies to a name: its connection fails."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule; without a pattern it is DEFAULT, and leaves a name as it is."""

    pattern: JavaPattern | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not _matches(self.pattern, name):
            return None
        return _in_case(_replaced(self.pattern, self.replacement, name, every=True), self.case)


def _matches(pattern: JavaPattern, name: str) -> bool:
    try:
        return pattern.fullmatch(name) is not None
    except PatternError as error:
        raise NoRuleError(str(error)) from error


def _replaced(pattern: JavaPattern, replacement: str, name: str, *, every: bool) -> str:
    parts, at = [], 0
    try:
        for found in islice(pattern.finditer(name), None if every else 1):
            parts += [name[at : found.start()], _expanded(replacement, found)]
            at = found.end()
    except PatternError as error:
        raise NoRuleError(str(error)) from error
    return "".join([*parts, name[at:]])


def _in_case(name: str, case: str) -> str:
    return name.lower() if case == "L" else name.upper() if case == "U" else name


class SslRules:
    """The rules for certificates' names: the first whose pattern matches the whole name is applied."""

    def __init__(self, text: str = "DEFAULT") -> None:
        """Raises ConfigError for what is no rule."""
        self._rules = _ssl_rules(text)
        self._text = text

    def user(self, name: str) -> str:
        """Return the user's name for a certificate's; raises NoRuleError."""
        for rule in self._rules:
            found = rule.apply(name)
            if found is not None:
                return found
        raise NoRuleError(f"No rules apply to {name}, rules {self._text}")


def _ssl_rules(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    rest = text.strip()
    while rest:
        rule, rest = _ssl_rule(rest)
        if rule is not None:
            rules.append(rule)
    return rules


def _ssl_rule(text: str) -> tuple[_Rule | None, str]:
    """Return the first rule of a list, None for an empty one, and what stands behind its comma."""
    rule: _Rule | None = None
    if text.startswith("DEFAULT"):
        rule, rest = _Rule(None), text.removeprefix("DEFAULT")
    elif text.startswith("RULE:"):
        pattern, at = _segment(text, len("RULE:"))
        replacement, at = _segment(text, at)
        flag = _FLAG.match(text, at)
        assert flag is not None
        rule, rest = _Rule(_compiled(pattern), replacement, flag[0]), text[flag.end() :]
    else:
        rest = text
    before, _, behind = rest.partition(",")
    if before.strip():
        whole = text[: len(text) - len(rest)] + before
        raise _wrong(SSL_RULES, text, f"Invalid rule: `{whole}`, unmatched substring: `{before.strip()}`")
    return rule, behind.lstrip()


def _segment(text: str, at: int) -> tuple[str, int]:
    found = _SEGMENT.match(text, at)
    if found is None or text[found.end() : found.end() + 1] != "/":
        raise _wrong(
            SSL_RULES, text, f"Invalid rule: `{text}`: it must be RULE:pattern/replacement/ with L, U or nothing"
        )
    return found[0], found.end() + 1


def _compiled(pattern: str, key: str = SSL_RULES) -> JavaPattern:
    try:
        return compile_java(pattern)
    except PatternError as error:
        raise _wrong(key, pattern, f"Invalid rule: the pattern `{pattern}` cannot be read: {error}") from error


def _wrong(key: str, value: str, message: str) -> ConfigError:
    return ConfigError(key, value, message, f"{key}: {message}")


def _expanded(replacement: str, found: Found) -> str:
    """Return a replacement as Java expands it: `$n` is a group, or itself where there is none; `\\` takes what follows."""
    out: list[str] = []
    at = 0
    while at < len(replacement):
        each = replacement[at]
        at += 1
        if each == "\\" and at < len(replacement):
            out.append(replacement[at])
            at += 1
        elif each == "$":
            text, at = _group(replacement, at, found)
            out.append(text)
        else:
            out.append(each)
    return "".join(out)


def _group(replacement: str, at: int, found: Found) -> tuple[str, int]:
    """Return the group whose number begins here, of as many digits as there is a group for, and where it ends."""
    end = at
    while end < len(replacement) and replacement[end] in "0123456789":
        if end > at and int(replacement[at : end + 1]) > found.re.groups:
            break
        end += 1
    if end == at or int(replacement[at:end]) > found.re.groups:
        return "$", at
    return found[int(replacement[at:end])] or "", end


class KerberosRules:
    """The rules for Kerberos' principals, as in Hadoop and Kafka."""

    def __init__(self, rules: Sequence[str] = ("DEFAULT",), *, realm: str) -> None:
        """`realm` is the default one, whose names DEFAULT shortens. Raises ConfigError for what is no rule."""
        self._rules = [_kerberos_rule(each.strip(), realm) for each in rules]
        self._texts = list(rules)

    def user(self, principal: str) -> str:
        """Return the short name of `service/host@REALM`; raises NoRuleError."""
        found = _KERBEROS_NAME.fullmatch(principal)
        if found is None:
            if "@" in principal or "/" in principal:
                raise NoRuleError(f"Malformed Kerberos name: {principal}")
            return principal
        host = [] if found["host"] is None else [found["host"]]
        parts = [found["realm"], found["service"], *host]
        for rule in self._rules:
            name = rule(parts)
            if name is not None:
                return name
        raise NoRuleError(f"No rules apply to {principal}, rules {self._texts}")


def _kerberos_rule(text: str, realm: str) -> Callable[[list[str]], str | None]:
    found = _KERBEROS_RULE.fullmatch(text)
    if found is None or found["count"] == "":
        raise _wrong(KERBEROS_RULES, text, f"Invalid rule: {text}")
    if found["count"] is None:
        return lambda parts: parts[1] if parts[0] == realm else None
    match = None if found["match"] is None else _compiled(found["match"], KERBEROS_RULES)
    source = None if found["from"] is None else _compiled(found["from"], KERBEROS_RULES)
    count, form, to, every, case = int(found["count"]), found["format"], found["to"], found["all"], found["case"]

    def applied(parts: list[str]) -> str | None:
        if len(parts) - 1 != count:
            return None
        name = _DOLLAR.sub(lambda number: _part(number[1], parts, text), form)
        if match is not None and not _matches(match, name):
            return None
        if source is not None:
            name = _replaced(source, to, name, every=bool(every))
        if "/" in name or "@" in name:
            raise NoRuleError(f"Non-simple name {name} after auth_to_local rule {text}")
        return _in_case(name, case)

    return applied


def _part(number: str, parts: list[str], rule: str) -> str:
    if not number or int(number) >= len(parts):
        raise NoRuleError(f"{rule} asks for part ${number} of a name that has the parts $0 to ${len(parts) - 1}")
    return parts[int(number)]

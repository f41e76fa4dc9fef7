"""JAAS, the grammar in which Kafka's users write logins: `module flag key=value … ;`, inline or in sections of a file.

A bare word has letters, digits and `.`, `_`, `$`, `-` (in a file `*`, too), and begins with none of a number's signs; values
in quotes have C's escapes. Nothing of a text stands in an error, because most of it is secret. Unlike in Java, a quote and a
comment that do not end are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.base import ConfigError

__all__ = [
    "JaasEntry",
    "client_entry",
    "jaas_text",
    "parse_entries",
    "parse_jaas_file",
    "plain_users",
    "server_entry",
]

KEY = "sasl.jaas.config"
FILE_KEY = "java.security.auth.login.config"
FLAGS = ("required", "requisite", "sufficient", "optional")
_SECURITY = "org.apache.kafka.common.security."
MODULES = {
    f"{_SECURITY}plain.PlainLoginModule": ("PLAIN",),
    f"{_SECURITY}scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_SECURITY}oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
}
"""The modules that are known, and the mechanisms of each."""
_USER = "user_"
_MORE = {"GSSAPI": "; Kafka's default is GSSAPI (Kerberos): name the mechanism where it is another, such as PLAIN"}
"""What a missing entry may mean besides."""
_OPTIONS = frozenset(
    {
        *("username", "password", "tokenauth", "clientId", "clientSecret", "scope"),
        *("serviceName", "useKeyTab", "keyTab", "storeKey", "principal", "useTicketCache", "ticketCache"),
    }
)
"""Options whose names errors may hold; anything else may be a piece of a secret that was quoted wrongly."""
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_BLANK = re.compile(r"[\x00-\x20]+|/(?!\*)[^\r\n]*|/\*.*?\*/", re.DOTALL)
"""Blanks and comments; one `/` alone begins one, too."""
_OCTAL = re.compile(r"[0-3]?[0-7]{1,2}")
_INLINE_WORD = re.compile(r"[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\xa0-\U0010ffff-]*")
_FILE_WORD = re.compile(r"[A-Za-z_$*\xa0-\U0010ffff][A-Za-z0-9_$*.\xa0-\U0010ffff-]*")


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module, what becomes of the others if it fails, and its options."""

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a quoted text (`text`), or else a sign; the end is the sign ""."""

    text: str | None
    sign: str
    at: int


class _Tokens:
    """The tokens of a text, one to look at."""

    def __init__(self, text: str, *, signs: str, word: re.Pattern[str], key: str) -> None:
        self._text = text
        self._signs = signs
        self._word = word
        self._key = key
        self._at = 0
        self.next = self._read()

    def take(self) -> _Token:
        """Return the token that stands next, and go on."""
        found = self.next
        if found.sign != "" or found.text is not None:
            self.next = self._read()
        return found

    def wrong(self, message: str) -> ConfigError:
        """Return what is wrong with the text, and where."""
        where = self._text.count("\n", 0, self.next.at) + 1
        return ConfigError(self._key, "[hidden]", message, f"{self._key}: {message} (line {where})")

    def _read(self) -> _Token:
        while (blank := _BLANK.match(self._text, self._at)) is not None:
            self._at = blank.end()
        at = self._at
        if at == len(self._text):
            return _Token(None, "", at)
        sign = self._text[at]
        if sign in "\"'":
            return _Token(self._quoted(sign), "", at)
        word = self._word.match(self._text, at)
        if word is not None:
            self._at = word.end()
            return _Token(word[0], "", at)
        self.next = _Token(None, sign, at)
        if self._text.startswith("/*", at):
            raise self.wrong("A comment does not end in the JAAS config")
        if sign not in self._signs:
            raise self.wrong(f"The character {sign!r} must stand in quotes in the JAAS config")
        self._at = at + 1
        return _Token(None, sign, at)

    def _quoted(self, quote: str) -> str:
        start = self._at
        out: list[str] = []
        at = start + 1
        while at < len(self._text) and self._text[at] not in "\r\n":
            each = self._text[at]
            at += 1
            if each == quote:
                self._at = at
                return "".join(out)
            if each == "\\" and at < len(self._text):
                each, at = self._escaped(at)
            out.append(each)
        self.next = _Token(None, quote, start)
        raise self.wrong("A quoted value does not end on its line in the JAAS config")

    def _escaped(self, at: int) -> tuple[str, int]:
        octal = _OCTAL.match(self._text, at)
        if octal is not None:
            return chr(int(octal[0], 8)), octal.end()
        return _ESCAPES.get(self._text[at], self._text[at]), at + 1


def parse_entries(text: str, key: str = KEY) -> list[JaasEntry]:
    """Return the entries of an inline configuration, at least one; raises ConfigError."""
    tokens = _Tokens(text, signs="=;", word=_INLINE_WORD, key=key)
    found = []
    while tokens.next != _Token(None, "", tokens.next.at):
        found.append(_entry(tokens))
    if not found:
        raise tokens.wrong("Login module not specified in JAAS config")
    return found


def parse_jaas_file(text: str, key: str = FILE_KEY) -> dict[str, list[JaasEntry]]:
    """Return the sections of a file (`KafkaServer { … };`); raises ConfigError."""
    tokens = _Tokens(text, signs="=;{}", word=_FILE_WORD, key=key)
    sections: dict[str, list[JaasEntry]] = {}
    while tokens.next.text is not None:
        name = tokens.take().text or ""
        if name in sections:
            raise tokens.wrong("A section stands twice in the JAAS file")
        _expect(tokens, "{")
        entries = []
        while tokens.next.text is not None:
            entries.append(_entry(tokens))
        _expect(tokens, "}")
        _expect(tokens, ";")
        if not entries:
            raise tokens.wrong("A section of the JAAS file has no login module")
        sections[name] = entries
    if tokens.next.sign:
        raise tokens.wrong("A section of the JAAS file must begin with its name")
    _refuse_expansion(sections, key)
    return sections


def _expect(tokens: _Tokens, sign: str) -> None:
    if tokens.next.sign != sign:
        raise tokens.wrong(f"The JAAS file lacks a {sign!r}")
    tokens.take()


def _refuse_expansion(sections: Mapping[str, Sequence[JaasEntry]], key: str) -> None:
    """Java puts its system properties in place of `${name}`; there are none here."""
    for entries in sections.values():
        for entry in entries:
            for value in entry.options.values():
                if "${" in value:
                    raise ConfigError(
                        key, "[hidden]", "", f"{key}: a value holds ${{…}}, and there are no system properties"
                    )


def _entry(tokens: _Tokens) -> JaasEntry:
    module = tokens.take().text
    if not module:
        raise tokens.wrong("Login module not specified in JAAS config")
    if tokens.next.text is None:
        raise tokens.wrong("Login module control flag not specified in JAAS config")
    flag = (tokens.take().text or "").lower()
    if flag not in FLAGS:
        raise tokens.wrong(f"Invalid login module control flag in JAAS config: it must be one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    while tokens.next.text is not None:
        name, value = _option(tokens)
        options[name] = value
    if tokens.next.sign != ";":
        raise tokens.wrong("JAAS config entry not terminated by semi-colon")
    tokens.take()
    return JaasEntry(module, flag, options)


def _option(tokens: _Tokens) -> tuple[str, str]:
    name = tokens.take().text or ""
    shown = f"key '{name}'" if name in _OPTIONS else "a key"
    missing = f"Value not specified for {shown} in JAAS config"
    if tokens.next.sign != "=":
        raise tokens.wrong(missing)
    tokens.take()
    if tokens.next.text is None:
        raise tokens.wrong(missing)
    return name, tokens.take().text or ""


def jaas_text(entries: Sequence[JaasEntry]) -> str:
    """Return entries as they are written, every name and value in quotes that needs them."""
    return "\n".join(_entry_text(each) for each in entries)


def _entry_text(entry: JaasEntry) -> str:
    options = "".join(f" {_word(name)}={_quotes(value)}" for name, value in entry.options.items())
    return f"{_word(entry.module)} {entry.flag}{options};"


def _word(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", text) else _quotes(text)


def _quotes(text: str) -> str:
    return '"' + "".join(_in_quotes(text)) + '"'


def _in_quotes(text: str) -> Iterator[str]:
    for each in text:
        if each in '"\\':
            yield f"\\{each}"
        elif ord(each) < 0x20:
            yield f"\\{ord(each):03o}"
        else:
            yield each


def client_entry(inline: str | None, file: Mapping[str, Sequence[JaasEntry]] | None, mechanism: str) -> JaasEntry:
    """Return a client's login: of `sasl.jaas.config`, else the section `KafkaClient` of the file; raises ConfigError."""
    if inline is not None:
        entries: Sequence[JaasEntry] = parse_entries(inline)
        if len(entries) != 1:
            message = f"JAAS config property contains {len(entries)} login modules, should be 1 module"
            raise ConfigError(KEY, "[hidden]", message, f"{KEY}: {message}")
    else:
        entries = (file or {}).get("KafkaClient", ())
    return _of_mechanism(entries, mechanism, "'KafkaClient'")


def server_entry(
    inline: str | None, file: Mapping[str, Sequence[JaasEntry]] | None, *, listener: str, mechanism: str
) -> JaasEntry:
    """Return the login of a listener's mechanism; raises ConfigError.

    It is `listener.name.<listener>.<mechanism>.sasl.jaas.config` (`inline`), else the file's section
    `<listener>.KafkaServer`, else `KafkaServer`, which may have an entry for each mechanism.
    """
    own = f"{listener.lower()}.KafkaServer"
    sections = file or {}
    entries = parse_entries(inline) if inline is not None else sections.get(own, sections.get("KafkaServer", ()))
    return _of_mechanism(entries, mechanism, f"'KafkaServer' or '{own}'")


def _of_mechanism(entries: Sequence[JaasEntry], mechanism: str, section: str) -> JaasEntry:
    if not entries:
        text = f"Could not find a {section} entry in the JAAS configuration, and {KEY} is not set for {mechanism}"
        raise ConfigError(KEY, "", "", text + _MORE.get(mechanism, ""))
    for entry in entries:
        if entry.module not in MODULES:
            known = ", ".join(MODULES)
            raise ConfigError(KEY, "", "", f"{KEY}: a login module is not allowed; these are: {known}")
    found = [each for each in entries if mechanism in MODULES[each.module]]
    if len(found) != 1:
        text = f"{len(found)} login modules are for {mechanism}, there should be 1{_MORE.get(mechanism, '')}"
        raise ConfigError(KEY, "", "", f"{KEY}: {text}")
    return found[0]


def plain_users(entry: JaasEntry) -> dict[str, str]:
    """Return the users of a PLAIN listener, and their passwords (`user_<name>="password"`)."""
    return {name.removeprefix(_USER): value for name, value in entry.options.items() if name.startswith(_USER)}

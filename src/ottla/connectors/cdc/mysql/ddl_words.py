"""Statements of MySQL and MariaDB as words: names, literals, marks; comments fall away but for those that are code. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

__all__ = ["ANSI_QUOTES", "DdlError", "Word", "Words", "is_about_database", "skip_settings", "words_of"]

_WORD: Final = re.compile(
    r"""(?P<space>\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?![!M])(?:.*?)\*/|/\*M?!\d*|\*/)
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<bits>[bB]'[01]*'|0b[01]+)
    |(?P<hex>[xX]'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)
    |(?P<text>(?:_[A-Za-z0-9]+\s*)?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w$])|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<word>@{0,2}[\w$\u0080-\uffff]+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_WORD: Final = re.compile(
    _WORD.pattern.replace(r"[^'\\]|\\.|", "[^']|").replace(r'[^"\\]|\\.|', '[^"]|'), _WORD.flags
)
"""Of sessions in which a backslash in a text is one (NO_BACKSLASH_ESCAPES)."""
ANSI_QUOTES: Final = 4
NO_BACKSLASH_ESCAPES: Final = 0x100000
"""Bits of sql_mode: names stand in double quotes; a backslash is one."""
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


class DdlError(ValueError):
    """A statement that is not understood."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a statement: its kind, and what it says."""

    kind: str
    """name (in backticks), word, text, number, bits, hex, mark."""
    text: str
    value: str = ""
    """Of a name or a literal: without its quotes."""


class Words:
    """A statement's words, read from the left."""

    def __init__(self, statement: str, sql_mode: int = 0) -> None:
        """`sql_mode` is the session's, as the binlog has it: how it quotes."""
        is_ansi, is_plain = bool(sql_mode & ANSI_QUOTES), bool(sql_mode & NO_BACKSLASH_ESCAPES)
        pattern = _PLAIN_WORD if is_plain else _WORD
        self._words = [
            word
            for match in pattern.finditer(statement)
            if (word := _word(match, is_ansi=is_ansi, is_plain=is_plain)) is not None
        ]
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._words)

    def peek(self, ahead: int = 0) -> Word:
        """Return a word that comes, an empty mark behind the end."""
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else Word("mark", "")

    def next(self) -> Word:
        """Take the next word."""
        found = self.peek()
        self._at += 1
        return found

    def sees(self, *words: str) -> bool:
        """Whether these key words, or marks, come next."""
        return all(
            self.peek(at).kind in ("word", "mark") and self.peek(at).text.upper() == each
            for at, each in enumerate(words)
        )

    def takes(self, *words: str) -> bool:
        """Take these key words, or marks, where they come next."""
        if not self.sees(*words):
            return False
        self._at += len(words)
        return True

    def takes_any(self, *words: str) -> str | None:
        """Take one of these key words where it comes next."""
        return next((each for each in words if self.takes(each)), None)

    def expect(self, word: str) -> None:
        """Take this key word, or mark; raises DdlError where another comes."""
        if not self.takes(word):
            raise DdlError(f"{word} was expected before {self.peek().text!r}")

    def name(self) -> str:
        """Take a name; raises DdlError where none comes."""
        found = self.next()
        if found.kind in ("name", "word"):
            return found.value or found.text
        if found.kind == "text" and found.text[0] == '"':  # ANSI_QUOTES
            return found.value
        raise DdlError(f"A name was expected in the place of {found.text!r}")

    def skip_brackets(self) -> None:
        """Pass over what stands in brackets, if they come next."""
        if not self.takes("("):
            return
        depth = 1
        while depth:
            if self.is_over:
                raise DdlError("A bracket is not closed")
            word = self.next()
            if word.kind == "mark":
                depth += (word.text == "(") - (word.text == ")")


def skip_settings(words: Words) -> None:
    """Pass over the settings that a statement has for itself (`SET STATEMENT … FOR`); to the end where none is."""
    while not words.is_over and not words.takes("FOR"):
        if words.sees("("):
            with suppress(DdlError):  # one that is not closed goes to the end
                words.skip_brackets()
        else:
            words.next()


def is_about_database(statement: str) -> bool:
    """Return whether a statement makes or alters a database."""
    words = Words(statement)
    if words.takes("SET", "STATEMENT"):
        skip_settings(words)
    if not words.takes("ALTER"):
        if not words.takes("CREATE"):
            return False
        words.takes("OR", "REPLACE")
    return words.sees("DATABASE") or words.sees("SCHEMA")


def words_of(statement: str) -> frozenset[str]:
    """Return all that may be a name in a statement, without its quotes."""
    quoted_ = re.findall(r"`((?:[^`]|``)+)`|\"([^\"]+)\"", statement)
    plain = re.findall(r"[\w$]+", statement)
    return frozenset((*plain, *(one.replace("``", "`") or other for one, other in quoted_)))


def _word(match: re.Match[str], *, is_ansi: bool, is_plain: bool) -> Word | None:
    kind = match.lastgroup or ""
    text = match[0]
    if kind == "space":
        return None
    if kind == "name":
        return Word(kind, text, text[1:-1].replace("``", "`"))
    if kind == "text":
        if is_ansi and text[0] == '"':
            return Word("name", text, text[1:-1].replace('""', '"'))
        return Word(kind, text, _unescaped(text, is_plain=is_plain))
    if kind == "bits":
        digits = text[2:].strip("'")
        return Word(kind, text, str(int(digits or "0", 2)))
    if kind == "hex":
        return Word(kind, text, text[2:].strip("'"))
    return Word(kind, text, text if kind == "number" else "")


def _unescaped(text: str, *, is_plain: bool) -> str:
    begin = min(at for at in (text.find("'"), text.find('"')) if at >= 0)
    mark = text[begin]
    inner = text[begin + 1 : -1]
    if is_plain:
        return inner.replace(2 * mark, mark)
    return re.sub(
        rf"\\(.)|{mark}{mark}",
        lambda found: mark if found[1] is None else _ESCAPES.get(found[1], found[1]),
        inner,
        flags=re.DOTALL,
    )

"""Text → tokens with their places.

Keywords and plain names are told apart by the parser, since many words are both. Comments and blanks leave no token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ottla.sql.errors import ParseError

Kind = Literal["word", "digits", "quoted", "string", "integer", "decimal", "float", "variable", "symbol", "end", "bad"]

_TOKENS = r"""
    (?P<blank>[ \r\n\t]+|--[^\n]*\n?|/\*.*?\*/)
    |(?P<string>'(?:[^']|'')*')
    |(?P<float>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+(?![A-Za-z0-9_@]))
    |(?P<digits>[0-9][A-Za-z0-9_@]*[A-Za-z_@][A-Za-z0-9_@]*)
    |(?P<decimal>[0-9]+\.[0-9]*|\.[0-9]+)
    |(?P<integer>[0-9]+)
    |(?P<word>[A-Za-z_][A-Za-z0-9_@]*)
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    |(?P<variable>\$\{[A-Za-z_][A-Za-z0-9_@]*\})
    |(?P<symbol><>|!=|<=|>=|\|\||:=|->|=>|[-=<>+*/%()\[\],.;])
    |(?P<bad>.)
"""
_TOKEN = re.compile(_TOKENS, re.VERBOSE | re.DOTALL)
_TOKEN_BEHIND_COMMENTS = re.compile(_TOKENS.replace(r"|/\*.*?\*/", ""), re.VERBOSE | re.DOTALL)
"""Where no comment ends any more: an end would be looked for from every begin."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text: `text` as written, `word` in upper case where it is a plain name, else as `text`.

    `line` and `column` count from 1; `start` and `end` are offsets into the text.
    """

    kind: Kind
    text: str
    word: str
    line: int
    column: int
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The tokens of a text, an `end` token last.

    Raises `ParseError` for a character that begins no token (which ksqlDB meets when it reads that far, and tells of
    in the same words).
    """
    found: list[Token] = []
    line, line_start = 1, 0
    for match in _matches(text):
        kind = match.lastgroup or "bad"
        piece = match.group()
        if kind != "blank":
            start = match.start()
            word = piece.upper() if kind in ("word", "digits") else piece
            found.append(Token(kind, piece, word, line, start - line_start + 1, start, match.end()))  # type: ignore[arg-type]
            if kind == "bad":
                raise _unreadable(found[-1])
        breaks = piece.count("\n")
        if breaks:
            line += breaks
            line_start = match.start() + piece.rindex("\n") + 1
    found.append(Token("end", "<EOF>", "<EOF>", line, len(text) - line_start + 1, len(text), len(text)))
    return found


def _matches(text: str) -> Iterator[re.Match[str]]:
    at, last = 0, text.rfind("*/")
    while at < len(text):
        match = (_TOKEN if at + 2 <= last else _TOKEN_BEHIND_COMMENTS).match(text, at)
        assert match is not None, "any character is a token, if a bad one"
        yield match
        at = match.end()


def _unreadable(token: Token) -> ParseError:
    near = f"Syntax Error\nSyntax error at or near '{token.text}' at line {token.line}:{token.column}"
    return ParseError(near, token.line, token.column)


def unquoted(token: Token) -> str:
    """What a quoted token says: without its quotes, doubled ones made single."""
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)

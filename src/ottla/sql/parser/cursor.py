"""Where in its tokens a parse stands, and how it says that it cannot go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from ottla.sql import rules
from ottla.sql.errors import ParseError
from ottla.sql.lexer import Token, unquoted
from ottla.sql.words import COMMANDS, KEYWORDS, NAMES_TOO, RESERVED

NESTING_MAX = 120
"""How deep expressions and types may be nested; each level takes some ten of Python's frames."""
_SHOWN_MAX = 3
"""With more than so many words that could follow, a message names none."""
_CLOSING = frozenset((")", "]", ">"))


class Cursor:
    """A position in a list of tokens, which end with one of kind `end`."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0
        self.variable_roles: dict[int, str] = {}
        """Offset of each `${name}` that was read -> what it stands for: `name` or `literal`."""
        self.named_types = 0
        """How many types were read of which only the name is known."""

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._at]

    @property
    def position(self) -> int:
        """The index of the token to be read next; `rewind` takes it."""
        return self._at

    def rewind(self, position: int) -> None:
        """Go back (or on) to a position."""
        self._at = position

    def ahead(self, count: int = 1) -> Token:
        """The token that is `count` behind the next one."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def place(self) -> tuple[int, int]:
        """The line and column of the next token."""
        return self.token.line, self.token.column

    def take(self) -> Token:
        """Read one token, whatever it is."""
        token = self.token
        if token.kind != "end":
            self._at += 1
        return token

    def deeper(self) -> None:
        """Enter one more level of nesting; refuse what no stack holds."""
        self._depth += 1
        if self._depth > NESTING_MAX:
            self.refuse(
                "Error processing statement: Statement is too large to parse. This may be caused by having too many"
                " nested expressions in the statement."
            )

    def higher(self) -> None:
        """Leave a level of nesting."""
        self._depth -= 1

    def is_word(self, *words: str) -> bool:
        """True where the next token is one of these words, unquoted, or one of these symbols."""
        token = self.token
        return token.word in words and token.kind in ("word", "symbol")

    def are_words(self, *words: str) -> bool:
        """True where the next tokens are these, one after the other."""
        return all(self.ahead(index).word == word for index, word in enumerate(words) if index) and self.is_word(
            words[0]
        )

    def accept(self, *words: str) -> bool:
        """Read these words if all of them come next."""
        if not self.are_words(*words):
            return False
        self._at += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Read and return one of these words if it comes next."""
        return self.take().word if self.is_word(*words) else None

    def expect(self, *words: str) -> None:
        """Read these words; refuse anything else."""
        for word in words:
            if not self.is_word(word):
                self._missing(word)
            self._at += 1

    def expect_any(self, *words: str) -> str:
        """Read and return one of these words; refuse anything else."""
        if not self.is_word(*words):
            self.unexpected(f"'{word}'" for word in words)
        return self.take().word

    def is_name(self) -> bool:
        """True where a name may be read."""
        token = self.token
        if token.kind == "word":
            return token.word not in RESERVED
        return token.kind in ("quoted", "digits", "variable")

    def name(self, *, as_written: bool = False, may_be_blank: bool = False) -> str:
        """Read a name: upper case unless it is quoted (or wanted as it is written)."""
        if not self.is_name():
            self._no_name()
        is_blank = self.token.kind == "quoted" and not unquoted(self.token).strip()
        if is_blank and not may_be_blank and rules.hold(rules.STRICT):
            self.refuse(f"Syntax Error\nA name may not be empty or blank: {self.token.text}")
        token = self.take()
        if token.kind == "quoted":
            return unquoted(token)
        if token.kind == "variable":
            self.variable_roles[token.start] = "name"
        return token.text if as_written else token.text.upper()

    def string(self) -> str:
        """Read a text in single quotes."""
        if self.token.kind != "string":
            self.unexpected(("STRING",))
        return unquoted(self.take())

    def refuse(self, message: str) -> NoReturn:
        """Refuse the text at the next token, in these words."""
        line, column = self.place()
        raise ParseError(message, line, column)

    def near(self) -> NoReturn:
        """Refuse the next token, which fits into nothing that could stand here."""
        line, column = self.place()
        self.refuse(f"Syntax Error\nSyntax error at or near '{self.token.text}' at line {line}:{column}")

    def unexpected(self, expected: Iterable[str]) -> NoReturn:
        """Refuse the next token, where one of a few could stand."""
        words = list(expected)
        if self.token.kind == "end":
            self.refuse("Syntax Error\nSyntax error at or near \";\"\n'}', ']', or ')' is missing")
        if not words or len(words) > _SHOWN_MAX:
            self.refuse("Syntax Error\n")
        shown = words[0] if len(words) == 1 else "{" + ", ".join(words) + "}"
        self.refuse(f"Syntax Error\nExpecting {shown}")

    def unknown_statement(self) -> NoReturn:
        """Refuse a first word that begins no statement, and name the nearest that does."""
        word = self.token.text
        nearest = min(COMMANDS, key=lambda command: _distance(command, word.upper()))
        self.refuse(f"Syntax Error\nUnknown statement '{word}'\nDid you mean '{nearest}'?")

    def _missing(self, word: str) -> NoReturn:
        """Refuse the next token where `word` has to stand: too much, too little, or something else."""
        token = self.token
        if self.ahead().word == word and token.kind != "end":
            if token.kind == "word" and token.word in RESERVED:
                self._keyword(token)
            self.unexpected((_shown(word),))
        if word in _CLOSING and token.word in (",", *_CLOSING):
            self.refuse(f"Syntax Error\nmissing {_shown(word)} at '{token.text}'")
        self.unexpected((_shown(word),))

    def _no_name(self) -> NoReturn:
        token = self.token
        if token.kind == "word" and token.word in KEYWORDS - NAMES_TOO:
            self._keyword(token)
        self.near()

    def _keyword(self, token: Token) -> NoReturn:
        self.refuse(
            f'Syntax Error\n"{token.text}" is a reserved keyword and it can\'t be used as an identifier.'
            f" You can use it as an identifier by escaping it as '{token.text}' "
        )


def _shown(word: str) -> str:
    return f"'{word}'"


def _distance(left: str, right: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(right) + 1))
    for index, letter in enumerate(left, 1):
        before, row[0] = row[0], index
        for column, other in enumerate(right, 1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (letter != other))
    return row[-1]

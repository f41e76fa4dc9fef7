"""Texts into statements: a whole script, one statement, one expression; variables replaced before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.sql.errors import ParseError, SqlError
from ottla.sql.lexer import Token, tokens
from ottla.sql.parser.cursor import Cursor
from ottla.sql.parser.expression_parser import ExpressionParser
from ottla.sql.parser.statement_parser import StatementParser
from ottla.sql.parser.type_parser import parse_type
from ottla.sql.tree.expressions import Expression
from ottla.sql.tree.statements import Statement
from ottla.sql.types import SqlType

LETTERS_MAX = 4 << 20
"""Of a statement once its variables are put in."""
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_@]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_STRING = re.compile(r"'(?:[^']|'')*'")
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class StatementText:
    """One statement of a script, whose grammar is known to be right: its text with the semicolon.

    What it means is asked for when what stands before it has been carried out, since CREATE TYPE and DEFINE change that.
    Only then is it parsed again, if it names such a type or a variable.
    """

    text: str
    testing: bool = False
    _read: Statement | None = field(default=None, repr=False, compare=False)
    """The statement, unless a type that it names says more of it."""
    _tokens: tuple[Token, ...] = field(default=(), repr=False, compare=False)
    """Its tokens, at their places in the script, and the script's end."""

    @property
    def first_word(self) -> str:
        """The word that it begins with, in upper case."""
        return self._tokens[0].word

    def shown(self, variables: Mapping[str, str]) -> str:
        """The text with variables replaced; raises `SqlError` for a value that has no place there."""
        return substituted(self.text, variables, testing=self.testing) if "${" in self.text else self.text

    def parse(self, types: Mapping[str, SqlType], variables: Mapping[str, str] | None = None) -> Statement:
        """The statement, with lines and columns of the script, or of its own text where a variable has changed that.

        Raises `SqlError` for what it cannot mean: an unknown type, an unknown source's column; and for a `${name}` that
        none of the variables is, unless none are given.
        """
        found = self._tokens
        if variables is not None and "${" in self.text:
            text = self.shown(variables)
            found = self._tokens if text == self.text else tuple(tokens(text))
        if self._read is not None and found is self._tokens:
            return self._read
        return StatementParser(Cursor(list(found)), types, testing=self.testing).statement()


def split_statements(script: str, *, testing: bool = False) -> list[StatementText]:
    """The statements of a script. Raises `ParseError` at the first place where the grammar is broken.

    With `testing`, ASSERT VALUES and RUN SCRIPT are statements, too, as in ksqlDB's test scripts.
    """
    listed = tokens(script)
    cursor = Cursor(listed)
    found: list[StatementText] = []
    while cursor.token.kind != "end":
        first, start, named = cursor.position, cursor.token.start, cursor.named_types
        read = StatementParser(cursor, None, testing=testing).statement()
        if not cursor.is_word(";"):
            _not_ended(cursor)
        end = cursor.take().end
        own = (*listed[first : cursor.position], listed[-1])
        found.append(StatementText(script[start:end], testing, read if cursor.named_types == named else None, own))
    return found


def _not_ended(cursor: Cursor) -> None:
    """Refuse what stands where a statement should have ended."""
    if cursor.token.kind == "end":
        cursor.refuse("Syntax Error\nmissing ';' at '<EOF>'")
    cursor.near()


def parse_statement(text: str, types: Mapping[str, SqlType] | None = None, *, testing: bool = False) -> Statement:
    """The one statement of a text, with or without its semicolon."""
    source = text.rstrip()
    statements = split_statements(source if source.endswith(";") else f"{source}\n;", testing=testing)
    if len(statements) != 1:
        raise ParseError(f"Expected a single statement, got {len(statements)}", 1, 1)
    return statements[0].parse(types or {})


def single_statement(text: str) -> Statement:
    """The one statement of a text, by its grammar alone: types of CREATE TYPE stay names, and no variable is known.

    What judges a statement for somebody else's server takes it from here and sends `statement_text` of it, so that what
    is sent is what was judged. Raises `SqlError` for a text that is no statement, or more than one.
    """
    source = text.rstrip()
    found = split_statements(source if source.endswith(";") else f"{source}\n;")
    if len(found) != 1:
        raise ParseError(f"Expected a single statement, got {len(found)}", 1, 1)
    own = found[0]._tokens
    for token in own:
        if token.kind == "variable":
            raise ParseError(f"No variable {token.text} is known here", token.line, token.column)
    return StatementParser(Cursor(list(own)), None, testing=False).statement()


def parse_expression(text: str, types: Mapping[str, SqlType] | None = None) -> Expression:
    """The one expression of a text. Raises `ParseError`, or `SqlError` for a type that is not there."""
    cursor = Cursor(tokens(text))
    expression = ExpressionParser(cursor, types or {}, None).condition()
    _expect_end(cursor)
    return expression


def parse_type_text(text: str, types: Mapping[str, SqlType] | None = None) -> SqlType:
    """The one type of a text."""
    cursor = Cursor(tokens(text))
    type_ = parse_type(cursor, types or {})
    _expect_end(cursor)
    return type_


def _expect_end(cursor: Cursor) -> None:
    if cursor.token.kind != "end":
        cursor.near()


def substituted(statement: str, variables: Mapping[str, str], *, testing: bool = False) -> str:
    """A statement's text with each `${name}` replaced whose name is in `variables`, in any case of letters.

    In a string a value cannot end the string; alone it has to be a name, or a whole literal, by what stands there.
    Raises `SqlError` for a value that is neither; what no variable names stays as it is.
    """
    if "${" not in statement:
        return statement
    known = {name.upper(): value for name, value in variables.items()}
    _check_length(statement, known)
    found = tokens(statement)
    cursor = Cursor(found)
    StatementParser(cursor, None, testing=testing).statement()
    pieces: list[str] = []
    done = 0
    for token in found:
        pieces.append(statement[done : token.start])
        pieces.append(_replaced(token, known, cursor.variable_roles.get(token.start, "")))
        done = token.end
    return "".join(pieces[:-1])


def _check_length(statement: str, known: Mapping[str, str]) -> None:
    """Raise SqlError where variables would make a text longer than any statement may be, before they are put in."""
    more = sum(len(known.get(match[1].upper(), "")) for match in _REFERENCE.finditer(statement))
    if len(statement) + more > LETTERS_MAX:
        raise SqlError(f"The statement with its variables is longer than {LETTERS_MAX} letters")


def _replaced(token: Token, known: Mapping[str, str], role: str) -> str:
    def value(match: re.Match[str]) -> str:
        return known.get(match[1].upper(), match[0])

    if token.kind == "string":
        return _REFERENCE.sub(lambda match: _harmless(value(match)), token.text)
    if token.kind != "variable":
        return token.text
    replaced = _REFERENCE.sub(value, token.text)
    bare = replaced[1:-1] if len(replaced) > 1 and replaced[0] in '"`' and replaced[-1] == replaced[0] else replaced
    is_name = _NAME.fullmatch(bare) is not None
    is_literal = (
        _STRING.fullmatch(replaced) is not None
        or replaced.upper() in ("TRUE", "FALSE")
        or _NUMBER.fullmatch(replaced) is not None
    )
    if (is_name and role != "literal") or (is_literal and role != "name"):
        return replaced
    where = f"Illegal argument at Line: {token.line}, Col: {token.column}."
    if role == "name":
        raise ParseError(
            f"{where} Identifier names cannot start with '@' and may only contain alphanumeric values and '_'."
            f" Got: '{replaced}'",
            token.line,
            token.column,
        )
    raise ParseError(f"{where} Got: '{replaced}'", token.line, token.column)


def _harmless(value: str) -> str:
    """A value inside a string: its own quotes are doubled, so that it stays inside."""
    return value.replace("'", "''")

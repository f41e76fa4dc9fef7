"""Expressions: conditions, values and what they are made of, by precedence."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from ottla.base import NumberError, decimal_of_text
from ottla.sql import rules
from ottla.sql.errors import ParseError, SqlError
from ottla.sql.parser.cursor import Cursor
from ottla.sql.parser.type_parser import CustomTypes, parse_type
from ottla.sql.tree import expressions as e
from ottla.sql.words import NAMES_TOO, unit_name

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)
LONG_DIGITS = 19
_NUMBERS = ("integer", "decimal", "float")
_JAVA_DECIMAL = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def _decimal(text: str, at: e.Place) -> Decimal:
    try:
        found = decimal_of_text(text) if rules.hold(rules.STRICT) else Decimal(text)
        return found if found else found.copy_abs()  # Java's zero has no sign
    except NumberError as error:
        raise ParseError(f"Invalid numeric literal: {error}", *at) from None


class ExpressionParser:
    """Reads expressions of one statement. `sources` are the names that may stand before a column's."""

    def __init__(self, cursor: Cursor, custom: CustomTypes, sources: frozenset[str] | None) -> None:
        self._cursor = cursor
        self._custom = custom
        self._sources = sources
        self._parameters: tuple[str, ...] = ()

    def condition(self) -> e.Expression:
        """Read any expression: OR binds least, then AND, then NOT."""
        self._cursor.deeper()
        left = self._conjunction()
        while self._cursor.is_word("OR"):
            at = self._cursor.place()
            self._cursor.take()
            left = e.Logical("OR", left, self._conjunction(), at)
        self._cursor.higher()
        return left

    def _conjunction(self) -> e.Expression:
        left = self._negation()
        while self._cursor.is_word("AND"):
            at = self._cursor.place()
            self._cursor.take()
            left = e.Logical("AND", left, self._negation(), at)
        return left

    def _negation(self) -> e.Expression:
        places = []
        while self._cursor.is_word("NOT"):
            places.append(self._cursor.place())
            self._cursor.take()
            self._cursor.deeper()
        value = self._predicate()
        for at in reversed(places):
            value = e.Not(value, at)
            self._cursor.higher()
        return value

    def _predicate(self) -> e.Expression:
        at = self._cursor.place()
        value = self.value()
        operator = self._cursor.accept_any("=", "<>", "!=", "<", "<=", ">", ">=")
        if operator is not None:
            operator = "<>" if operator == "!=" else operator
            return e.Comparison(operator, value, self.value(), at)  # type: ignore[arg-type]
        if self._cursor.accept("IS"):
            return self._is(value, at)
        negated = self._cursor.is_word("NOT") and self._cursor.ahead().word in ("BETWEEN", "IN", "LIKE")
        if negated:
            self._cursor.take()
        found: e.Expression | None = None
        if self._cursor.accept("BETWEEN"):
            low = self.value()
            self._cursor.expect("AND")
            found = e.Between(value, low, self.value(), at)
        elif self._cursor.accept("IN"):
            self._cursor.expect("(")
            found = e.In(value, self._expressions(")"), at)
        elif self._cursor.accept("LIKE"):
            found = e.Like(value, self.value(), self._escape(), at)
        if found is None:
            return value
        return e.Not(found, at) if negated else found

    def _is(self, value: e.Expression, at: e.Place) -> e.Expression:
        negated = self._cursor.accept("NOT")
        if self._cursor.accept("NULL"):
            return e.IsNull(value, negated, at)
        if not self._cursor.accept("DISTINCT"):
            self._cursor.unexpected(("'NULL'", "'DISTINCT'") if negated else ("'NOT'", "'NULL'", "'DISTINCT'"))
        self._cursor.expect("FROM")
        found = e.Comparison("IS DISTINCT FROM", value, self.value(), at)
        return e.Not(found, at) if negated else found

    def _escape(self) -> str | None:
        if not (self._cursor.is_word("ESCAPE") and self._cursor.ahead().kind == "string"):
            return None
        self._cursor.take()
        line, column = self._cursor.place()
        escape = self._cursor.string()
        if len(escape) != 1:
            raise SqlError(f"Optional[Line: {line}, Col: {column}]: Expected single character escape but got: {escape}")
        return escape

    def value(self) -> e.Expression:
        """Read a value: `||` binds least, then `+ -`, then `* / %`, then signs."""
        self._cursor.deeper()
        left = self._sum()
        while self._cursor.is_word("||"):
            at = self._cursor.place()
            self._cursor.take()
            left = e.Call("CONCAT", (left, self._sum()), at)
        self._cursor.higher()
        return left

    def _sum(self) -> e.Expression:
        left = self._product()
        while self._cursor.is_word("+", "-"):
            at = self._cursor.place()
            operator = self._cursor.take().word
            left = e.Arithmetic(operator, left, self._product(), at)  # type: ignore[arg-type]
        return left

    def _product(self) -> e.Expression:
        left = self._signed()
        while self._cursor.is_word("*", "/", "%"):
            at = self._cursor.place()
            operator = self._cursor.take().word
            left = e.Arithmetic(operator, left, self._signed(), at)  # type: ignore[arg-type]
        return left

    def _signed(self) -> e.Expression:
        cursor = self._cursor
        at = cursor.place()
        if cursor.is_word("+", "-") and not (cursor.is_word("-") and cursor.ahead().kind in _NUMBERS):
            sign = cursor.take().word
            cursor.deeper()
            value = self._signed()
            cursor.higher()
            return e.Sign(sign, value, at)  # type: ignore[arg-type]
        value = self.primary()
        if cursor.are_words("AT", "TIME", "ZONE"):
            raise SqlError("not yet implemented")  # ksqlDB's grammar has it, and its planner these words
        return value

    def primary(self) -> e.Expression:
        """Read a value without operators, and what is taken out of it by `[…]` and `->`."""
        cursor = self._cursor
        base = self._first()
        while True:
            at = cursor.place()
            if cursor.accept("["):
                index = self.value()
                cursor.expect("]")
                base = e.Subscript(base, index, at)
            elif cursor.is_word("->") and cursor.ahead().word != "*":
                cursor.take()
                base = e.Dereference(base, cursor.name(), at)
            else:
                return base

    def _first(self) -> e.Expression:
        cursor = self._cursor
        token = cursor.token
        if token.kind == "variable" and cursor.ahead().word not in (".", "("):
            cursor.variable_roles[token.start] = "either"
            cursor.take()
            return e.Column(token.text, None, (token.line, token.column))
        if token.kind in ("string", *_NUMBERS) or cursor.is_word("-", "NULL", "TRUE", "FALSE"):
            return self.literal()
        if cursor.accept("("):
            value = self.condition()
            cursor.expect(")")
            return value
        if cursor.accept("CASE"):
            return self._case((token.line, token.column))
        if cursor.accept("CAST"):
            cursor.expect("(")
            value = self.condition()
            cursor.expect("AS")
            type_ = parse_type(cursor, self._custom)
            cursor.expect(")")
            return e.Cast(value, type_, (token.line, token.column))
        return self._constructed()

    def _constructed(self) -> e.Expression:
        cursor = self._cursor
        at = cursor.place()
        if cursor.accept("ARRAY", "["):
            return e.MakeArray(self._expressions("]"), at)
        if cursor.accept("MAP", "("):
            return e.MakeMap(self._entries(), at)
        if cursor.is_word("STRUCT") and cursor.ahead().word == "(":
            cursor.accept("STRUCT", "(")
            fields: list[tuple[str, e.Expression]] = []
            while not cursor.is_word(")"):
                if fields:
                    cursor.expect(",")
                name = cursor.name()
                cursor.expect(":=")
                fields.append((name, self.condition()))
            cursor.expect(")")
            return e.MakeStruct(tuple(fields), at)
        return self._named()

    def _entries(self) -> tuple[tuple[e.Expression, e.Expression], ...]:
        entries: list[tuple[e.Expression, e.Expression]] = []
        while not self._cursor.is_word(")"):
            if entries:
                self._cursor.expect(",")
            key = self.condition()
            self._cursor.expect(":=")
            entries.append((key, self.condition()))
        self._cursor.expect(")")
        return tuple(entries)

    def _named(self) -> e.Expression:
        cursor = self._cursor
        at = cursor.place()
        if not cursor.is_name():
            cursor.near()
        name = cursor.name()
        if cursor.accept("("):
            return e.Call(name, self._arguments(), at)
        if cursor.token.kind == "string":
            return self._typed(name, at)
        if cursor.is_word(".") and cursor.ahead().word != "*":
            cursor.take()
            column = cursor.name()
            if self._sources is not None and name not in self._sources:
                raise SqlError(f"'{name}' is not a valid stream/table name or alias.")
            return e.Column(column, name, at)
        if name in self._parameters:
            return e.LambdaVariable(name, at)
        return e.Column(name, None, at)

    def _typed(self, name: str, at: e.Place) -> e.Expression:
        value = self._cursor.string()
        if name != "DECIMAL":
            raise SqlError(f"Unknown type: {name}, location:Optional[Line: {at[0]}, Col: {at[1]}]")
        if not _JAVA_DECIMAL.fullmatch(value):
            raise SqlError(f"Invalid numeric literal: {value}")
        return e.DecimalLiteral(_decimal(value, at), at)

    def _arguments(self) -> tuple[e.Expression, ...]:
        cursor = self._cursor
        if cursor.accept("*"):
            cursor.expect(")")
            return ()
        found: list[e.Expression] = []
        while not (cursor.is_word(")") and not found):
            if self._is_lambda():
                found.append(self._lambda())
            else:
                found.append(self._argument())
            if not cursor.accept(","):
                break
        cursor.expect(")")
        return tuple(found)

    def _argument(self) -> e.Expression:
        token = self._cursor.token
        unit = unit_name(token.word) if token.kind == "word" and token.word not in NAMES_TOO else None
        if unit is None:
            return self.condition()
        self._cursor.take()
        return e.TimeUnit(unit, (token.line, token.column))

    def _is_lambda(self) -> bool:
        cursor = self._cursor
        if cursor.is_name() and cursor.ahead().word == "=>":
            return True
        if not cursor.is_word("("):
            return False
        index = 1
        while cursor.ahead(index).kind in ("word", "quoted", "digits") and cursor.ahead(index + 1).word == ",":
            index += 2
        return cursor.ahead(index + 1).word == ")" and cursor.ahead(index + 2).word == "=>"

    def _lambda(self) -> e.Expression:
        cursor = self._cursor
        at = cursor.place()
        names: list[str] = []
        if cursor.accept("("):
            names.append(cursor.name())
            while cursor.accept(","):
                names.append(cursor.name())
            cursor.expect(")")
        else:
            names.append(cursor.name())
        cursor.expect("=>")
        around = self._parameters
        self._parameters = (*around, *names)
        body = self.condition()
        self._parameters = around
        return e.Lambda(tuple(names), body, at)

    def _case(self, at: e.Place) -> e.Expression:
        cursor = self._cursor
        operand = None if cursor.is_word("WHEN") else self.value()
        whens: list[tuple[e.Expression, e.Expression]] = []
        while not whens or cursor.is_word("WHEN"):
            cursor.expect("WHEN")
            condition = self.condition()
            cursor.expect("THEN")
            whens.append((condition, self.condition()))
        default = self.condition() if cursor.accept("ELSE") else None
        cursor.expect("END")
        return e.Case(operand, tuple(whens), default, at)

    def _expressions(self, closing: str) -> tuple[e.Expression, ...]:
        found: list[e.Expression] = []
        while not (self._cursor.is_word(closing) and not found and closing == "]"):
            found.append(self.condition())
            if not self._cursor.accept(","):
                break
        self._cursor.expect(closing)
        return tuple(found)

    def literal(self) -> e.Literal:
        """Read a literal: a number, a text, TRUE, FALSE or NULL."""
        cursor = self._cursor
        at = cursor.place()
        if cursor.token.kind == "string":
            return e.StringLiteral(cursor.string(), at)
        if cursor.accept("NULL"):
            return e.NullLiteral(at)
        word = cursor.accept_any("TRUE", "FALSE")
        if word is not None:
            return e.BooleanLiteral(word == "TRUE", at)
        if cursor.token.kind == "variable":
            cursor.variable_roles[cursor.token.start] = "literal"
            return e.StringLiteral(cursor.take().text, at)
        return self.number()

    def number(self) -> e.IntegerLiteral | e.LongLiteral | e.DoubleLiteral | e.DecimalLiteral:
        """Read a number with its sign; its form says its type."""
        cursor = self._cursor
        at = cursor.place()
        sign = "-" if cursor.is_word("-") and cursor.ahead().kind in _NUMBERS else ""
        if sign:
            cursor.take()
        token = cursor.token
        if token.kind not in _NUMBERS:
            cursor.near()
        cursor.take()
        text = sign + token.text
        if token.kind == "decimal":
            return e.DecimalLiteral(_decimal(text, at), at)
        if token.kind == "float":
            value = float(text)
            if math.isinf(value):
                raise ParseError(f"Number overflows DOUBLE: {text}", *at)
            return e.DoubleLiteral(value, at)
        digits = token.text.lstrip("0")
        if len(digits) > LONG_DIGITS or (whole := int(f"{sign}{digits or 0}")) not in _LONG:
            raise ParseError(f"Invalid numeric literal: {text:.100}", *at)
        return e.IntegerLiteral(whole, at) if whole in _INT else e.LongLiteral(whole, at)

    def whole(self, what: str) -> int:
        """Read a number that has to be whole; `what` is the clause that asks for it."""
        number = self.number()
        if isinstance(number, e.DoubleLiteral | e.DecimalLiteral):
            raise SqlError(f"Value must be integer for command: {what}")
        return number.value

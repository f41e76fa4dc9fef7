"""Conditions over documents: SQL's expressions where nothing has a type before it is looked at, as in a topic of JSON.

A document is a mapping of roots (`key`, `value`, `headers`, `topic`, `partition`, `offset`, `timestamp`) to values in JSON's
terms. `value.customer.country`, `value.items[1].sku` (from 1, as everywhere in SQL; negative from the end) and
`headers['region']` are paths; names are taken as written. What is not there is NULL. Logic has three values, and a
condition holds where it is true. Values of unlike kinds are neither equal nor unlike each other: comparing them is NULL.
Nothing loops, so that a condition costs a bounded time for each value that it looks at.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ottla.sql.errors import ParseError, SqlError
from ottla.sql.lexer import Token, tokens
from ottla.sql.parser.texts import parse_expression
from ottla.sql.tree import expressions as e
from ottla.sql.tree.expression_text import expression_text

__all__ = [
    "ROOTS",
    "Condition",
    "Document",
    "Measure",
    "Measured",
    "Path",
    "document_condition",
    "document_path",
    "measured_condition",
]

ROOTS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
CONDITION_CHARACTERS_MAX = 4096
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WORDS = frozenset({"AND", "OR", "NOT", "LIKE", "IS", "IN", "BETWEEN", "NULL", "CASE"})

Document = Mapping[str, object]
Path = tuple[str, ...]
"""A root and the names below it; an index is a text, too."""
Evaluate = Callable[[Document], object]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was understood: whether it holds for a document, and what it looks at."""

    text: str
    holds: Callable[[Document], bool] = field(repr=False)
    paths: tuple[Path, ...]
    must_contain: tuple[bytes, ...]
    """What the bytes of a value without backslashes hold, or the condition does not hold for it (JSON in UTF-8)."""
    is_plain: bool = False
    """True for words that are to be found anywhere in key, value or headers."""


def document_condition(text: str) -> Condition:
    """Return the condition of a text; words without any operator are looked for as they are, all of them.

    Raises ParseError with line and column, SqlError for what is no condition over documents.
    """
    if len(text) > CONDITION_CHARACTERS_MAX:
        raise SqlError(f"A condition of {len(text)} characters: {CONDITION_CHARACTERS_MAX} at most")
    try:
        found = tokens(text)
    except ParseError:
        if _is_plain(text):
            return _plain(text)
        raise
    if not any(each.kind in ("symbol", "string") or each.word in WORDS or _is_call(each, text) for each in found):
        return _plain(text)
    tree = parse_expression(_with_arrows(text, found))
    compiler = _Compiler()
    evaluate = compiler.compiled(tree)

    def holds(document: Document) -> bool:
        return evaluate(document) is True

    return Condition(text, holds, tuple(dict.fromkeys(compiler.paths)), tuple(_must_contain(tree)))


@dataclass(frozen=True, slots=True)
class Change:
    """One assignment: what is set, as a path, and to what."""

    path: tuple[str | int, ...]
    """A root (`key`, `value`, `headers`), then names of fields, and numbers of elements from 1 or from the end."""
    evaluate: Evaluate = field(repr=False)

    @property
    def text(self) -> str:
        """The path as it is written."""
        steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.path[1:])
        return f"{self.path[0]}{''.join(steps)}"


CHANGED_ROOTS = ("key", "value", "headers")


def document_changes(text: str) -> list[Change]:
    """Return the assignments of a text: `value.country = 'NL', value.amount = value.amount * 100, headers['fixed'] = 'yes'`.

    All of them see the document as it was. Raises ParseError with line and column, SqlError for what is no assignment.
    """
    if len(text) > CONDITION_CHARACTERS_MAX:
        raise SqlError(f"Assignments of {len(text)} characters: {CONDITION_CHARACTERS_MAX} at most")
    compiler = _Compiler()
    found = [_change(compiler, each) for each in _at_commas(text)]
    if not found:
        raise SqlError("An assignment is needed, such as value.country = 'NL'")
    return found


def _at_commas(text: str) -> list[str]:
    """Return a text's parts between commas that stand in no brackets."""
    parts, start, depth = [], 0, 0
    for each in tokens(text):
        depth += (each.text in ("(", "[")) - (each.text in (")", "]"))
        if each.text == "," and depth == 0 and each.kind == "symbol":
            parts.append(text[start : each.start])
            start = each.end
    return [each for each in (*parts, text[start:]) if each.strip()]


def _change(compiler: _Compiler, text: str) -> Change:
    tree = parse_expression(_with_arrows(text, tokens(text)))
    if not isinstance(tree, e.Comparison) or tree.operator != "=":
        raise SqlError(f"An assignment is PATH = EXPRESSION, not {text.strip()}")
    path = compiler.path_of(tree.left)
    if path[0] not in CHANGED_ROOTS:
        raise SqlError(f"What is set is a part of {', '.join(CHANGED_ROOTS)}, not of {path[0]}")
    if path[0] == "headers" and len(path) != 2:
        raise SqlError("A header is set by its name: headers['name'] = 'text'")
    return Change(path, compiler.compiled(tree.right))


Measure = Callable[[Any, tuple[str, ...]], object]
"""A function of what is measured, and of the texts that it is called with."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A condition over figures: three-valued, and what it asks of what is measured."""

    text: str
    evaluate: Callable[[Any], object] = field(repr=False)
    """Returns True, False, or None where a figure is not known."""
    calls: Mapping[str, Callable[[Any], object]] = field(repr=False)
    """The figures by how they are written: `lag('billing')`."""


def measured_condition(text: str, measures: Mapping[str, tuple[Measure, int]]) -> Measured:
    """Return the condition of a text over figures: `lag('billing') > 1000 AND brokers() < 3`.

    `measures` are functions by their names in lower case, with how many texts each takes at most. Raises ParseError with
    line and column, SqlError for what is no condition.
    """
    if len(text) > CONDITION_CHARACTERS_MAX:
        raise SqlError(f"A condition of {len(text)} characters: {CONDITION_CHARACTERS_MAX} at most")
    compiler = _Measures(measures)
    tree = parse_expression(text)
    if not isinstance(tree, e.Logical | e.Not | e.Comparison | e.IsNull | e.Between | e.In | e.Like):
        raise SqlError(f"A condition is true or false, such as {expression_text(tree)} > 0")
    evaluate = compiler.compiled(tree)
    if not compiler.calls:
        raise SqlError(f"The condition asks for no figure: there are {compiler.names}")
    return Measured(text, evaluate, compiler.calls)


def document_path(text: str) -> Callable[[Document], object]:
    """Return the function of a document that a path or an expression is, for a column; raises as `document_condition`."""
    return _Compiler().compiled(parse_expression(_with_arrows(text, tokens(text))))


def _is_plain(text: str) -> bool:
    return not re.search(r"[<>='()]", text)


def _is_call(token: Token, text: str) -> bool:
    return token.kind == "word" and text[token.end :].lstrip().startswith("(")


def _plain(text: str) -> Condition:
    words = [each.casefold() for each in text.split()]
    if not words:
        raise SqlError("A condition is needed")

    def holds(document: Document) -> bool:
        seen = " ".join(_texts(document.get(root)) for root in ("key", "value", "headers")).casefold()
        return all(word in seen for word in words)

    return Condition(text, holds, (("key",), ("value",), ("headers",)), (), is_plain=True)


def _texts(value: object) -> str:
    """All texts, numbers and names within a value, one after the other."""
    left, found = [value], []
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for name, inner in each.items():
                found.append(str(name))
                left.append(inner)
        elif isinstance(each, list):
            left.extend(each)
        elif each is not None:
            found.append(str(each).lower() if isinstance(each, bool) else str(each))
    return "\n".join(found)


def _with_arrows(text: str, found: Sequence[Token]) -> str:
    """Rewrite paths of a document as SQL has them: `value.a.b` is value->`a`->`b`, with the names as written."""
    pieces, at, index = [], 0, 0
    while index < len(found):
        token = found[index]
        if token.kind != "word" or token.text.lower() not in ROOTS:
            index += 1
            continue
        index += 1
        depth = 0
        while index < len(found):
            each = found[index]
            if each.text == "." and found[index + 1].kind in ("word", "digits", "quoted"):
                name = found[index + 1]
                quoted = name.text if name.kind == "quoted" else f"`{name.text}`"
                pieces.append(f"{text[at : each.start]}->{quoted}")
                at, index = name.end, index + 2
            elif each.text == "[" and depth == 0:
                end = _closing(found, index)
                if end is None:
                    break
                index = end + 1
            else:
                break
    return "".join([*pieces, text[at:]])


def _closing(found: Sequence[Token], index: int) -> int | None:
    """The place of the bracket that closes one with a single literal in it."""
    for at in (index + 2, index + 3):
        if at < len(found) and found[at].text == "]":
            return at
    return None


class _Compiler:
    """Makes closures of a tree, and notes which paths they look at."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def compiled(self, tree: e.Expression) -> Evaluate:
        match tree:
            case e.NullLiteral():
                return lambda document: None
            case (
                e.BooleanLiteral(value)
                | e.IntegerLiteral(value)
                | e.LongLiteral(value)
                | e.DoubleLiteral(value)
                | e.DecimalLiteral(value)
                | e.StringLiteral(value)
            ):
                return lambda document: value
            case e.Column() | e.Dereference() | e.Subscript():
                return self._path(tree)
            case e.Logical(which, left, right):
                return _logical(which, self.compiled(left), self.compiled(right))
            case e.Not(inner):
                return _not(self.compiled(inner))
            case e.Comparison(which, left, right):
                return self._comparison(which, left, right)
            case e.IsNull(inner, negated):
                found = self.compiled(inner)
                return lambda document: (found(document) is None) is not negated
            case e.Between(value, low, high):
                both = e.Logical("AND", e.Comparison(">=", value, low), e.Comparison("<=", value, high))
                return self.compiled(both)
            case e.In(value, items):
                return self._one_of(value, items)
            case e.Like(value, pattern, escape):
                return self._like(value, pattern, escape)
            case e.Sign() | e.Arithmetic():
                return self._arithmetic(tree)
            case e.Call(name, arguments):
                return self._call(name, arguments)
        raise SqlError(f"A filter over documents has no {type(tree).__name__}: {expression_text(tree)}")

    def _path(self, tree: e.Expression) -> Evaluate:
        root, *steps = self.path_of(tree)
        self.paths.append((str(root), *map(str, steps)))
        if not steps:
            return lambda document: document.get(str(root))
        return _steps(str(root), tuple(steps))

    def path_of(self, tree: e.Expression) -> tuple[str | int, ...]:
        """Return a root and the steps below it; raises SqlError for what is no path."""
        steps: list[str | int] = []
        while not isinstance(tree, e.Column):
            match tree:
                case e.Dereference(base, name):
                    steps.append(name)
                case e.Subscript(base, e.StringLiteral(name)):
                    steps.append(name)
                case e.Subscript(base, e.IntegerLiteral(number)):
                    steps.append(number)
                case e.Subscript(base, e.Sign("-", e.IntegerLiteral(number))):
                    steps.append(-number)
                case e.Subscript():
                    raise SqlError(f"An index is a number or a text in quotes: {expression_text(tree)}")
                case _:
                    raise SqlError(f"Not a path: {expression_text(tree)}")
            tree = base
        root = tree.name.lower()
        if tree.source is not None or root not in ROOTS:
            name = f"{tree.source}.{tree.name}" if tree.source else tree.name
            raise SqlError(f"There is no column {name} in a record: its parts are {', '.join(ROOTS)}")
        return (root, *reversed(steps))

    def _comparison(self, which: str, left: e.Expression, right: e.Expression) -> Evaluate:
        one, two = self.compiled(_time(left, right)), self.compiled(_time(right, left))
        if which == "IS DISTINCT FROM":
            return lambda document: _key(one(document)) != _key(two(document))
        compare, is_order = OPERATORS[which], which not in ("=", "<>")
        right = _time(right, left)
        match right:
            case e.StringLiteral(text):
                return _beside(one, compare, text, _TEXT)
            case e.IntegerLiteral(number) | e.LongLiteral(number) | e.DoubleLiteral(number) | e.DecimalLiteral(number):
                return _beside(one, compare, number, _NUMBERS)

        def evaluate(document: Document) -> bool | None:
            first, second = one(document), two(document)
            if first is None or second is None or (kind := _kind(first)) != _kind(second):
                return None
            if kind == "document":
                return None if is_order else compare(_key(first), _key(second))
            return compare(first, second)

        return evaluate

    def _one_of(self, value: e.Expression, items: Sequence[e.Expression]) -> Evaluate:
        if not items:
            raise SqlError("IN needs something to look in")
        any_of: e.Expression = e.Comparison("=", value, items[0])
        for each in items[1:]:
            any_of = e.Logical("OR", any_of, e.Comparison("=", value, each))
        return self.compiled(any_of)

    def _like(self, value: e.Expression, pattern: e.Expression, escape: str | None) -> Evaluate:
        if not isinstance(pattern, e.StringLiteral):
            raise SqlError(f"LIKE takes a text in quotes, not {expression_text(pattern)}")
        found, fits = self.compiled(value), _liker(pattern.value, escape)

        def evaluate(document: Document) -> bool | None:
            text = found(document)
            return fits(text) if isinstance(text, str) else None

        return evaluate

    def _arithmetic(self, tree: e.Sign | e.Arithmetic) -> Evaluate:
        if isinstance(tree, e.Sign):
            inner, times = self.compiled(tree.value), -1 if tree.sign == "-" else 1
            return lambda document: _number(lambda one, two: one * two, inner(document), times)
        one, two, compute = self.compiled(tree.left), self.compiled(tree.right), ARITHMETIC[tree.operator]
        return lambda document: _number(compute, one(document), two(document))

    def _call(self, name: str, arguments: Sequence[e.Expression]) -> Evaluate:
        function = FUNCTIONS.get(name.upper())
        if function is None:
            raise SqlError(f"A filter has no function {name}: there are {', '.join(sorted(FUNCTIONS))}")
        if len(arguments) != 1:
            raise SqlError(f"{name} takes one argument")
        inner = self.compiled(arguments[0])
        return lambda document: function(inner(document))


class _Measures(_Compiler):
    """Makes closures over figures: what functions give, and no columns."""

    def __init__(self, measures: Mapping[str, tuple[Measure, int]]) -> None:
        super().__init__()
        self._measures = measures
        self.calls: dict[str, Callable[[Any], object]] = {}
        self.names = ", ".join(f"{name}({'…' if most else ''})" for name, (_, most) in sorted(measures.items()))

    def _path(self, tree: e.Expression) -> Evaluate:
        raise SqlError(f"There are no columns here, and no {expression_text(tree)}: there are {self.names}")

    def _call(self, name: str, arguments: Sequence[e.Expression]) -> Evaluate:
        measure, most = self._measures.get(name.lower(), (None, 0))
        if measure is None:
            if name.upper() == "ABS":
                return super()._call(name, arguments)
            raise SqlError(f"There is no figure {name.lower()}: there are {self.names}")
        texts = tuple(each.value for each in arguments if isinstance(each, e.StringLiteral))
        if len(texts) != len(arguments) or len(texts) > most:
            raise SqlError(f"{name.lower()} takes {f'at most {most} texts in quotes' if most else 'nothing'}")

        def evaluate(figures: Any) -> object:
            return measure(figures, texts)

        said = ", ".join("'" + each.replace("'", "''") + "'" for each in texts)
        self.calls[f"{name.lower()}({said})"] = evaluate
        return evaluate


_TEXT = frozenset({str})
_NUMBERS = frozenset({int, float, Decimal})


def _beside(found: Evaluate, compare: Callable[[Any, Any], bool], literal: object, kinds: frozenset[type]) -> Evaluate:
    """A comparison with a literal, which is what most are: half the time of one of two expressions."""

    def evaluate(document: Document) -> bool | None:
        value = found(document)
        return compare(value, literal) if type(value) in kinds else None

    return evaluate


def _steps(root: str, steps: tuple[str | int, ...]) -> Evaluate:
    if len(steps) == 1 and isinstance(name := steps[0], str):

        def only(document: Document) -> object:
            value = document.get(root)
            return value.get(name) if type(value) is dict else None

        return only

    def evaluate(document: Document) -> object:
        value = document.get(root)
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step if isinstance(step, str) else str(step))
            elif isinstance(value, list) and isinstance(step, int) and step and -len(value) <= step <= len(value):
                value = value[step - 1 if step > 0 else step]
            else:
                return None
        return value

    return evaluate


def _logical(which: str, left: Evaluate, right: Evaluate) -> Evaluate:
    decides = which == "OR"

    def evaluate(document: Document) -> bool | None:
        one = left(document)
        if one is decides:
            return decides
        two = right(document)
        if two is decides:
            return decides
        return (not decides) if isinstance(one, bool) and isinstance(two, bool) else None

    return evaluate


def _not(inner: Evaluate) -> Evaluate:
    def evaluate(document: Document) -> bool | None:
        found = inner(document)
        return not found if isinstance(found, bool) else None

    return evaluate


def _time(tree: e.Expression, beside: e.Expression) -> e.Expression:
    """A text beside `timestamp` is a time as ISO 8601 writes it, in UTC where it names no zone."""
    if not (isinstance(tree, e.StringLiteral) and isinstance(beside, e.Column) and beside.name.lower() == "timestamp"):
        return tree
    try:
        found = datetime.fromisoformat(tree.value)
    except ValueError:
        raise SqlError(f"'{tree.value}' is no time; one is written '2026-11-25T10:30:00'") from None
    return e.LongLiteral(int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000))


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    return "text" if isinstance(value, str) else "document"


def _key(value: object) -> object:
    """A value that equals another one of the same kind only: true is not 1."""
    if isinstance(value, dict):
        return {name: _key(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_key(each) for each in value]
    return (_kind(value), value)


def _liker(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """LIKE as parts between `%`, found one after the other from the left: never more than the text's length times theirs."""
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for each in characters:
        if escape is not None and each == escape:
            following = next(characters, None)
            if following is None:
                raise SqlError(f"LIKE '{pattern}' ends with its escape character")
            parts[-1].append(following)
        elif each == "%":
            parts.append([])
        else:
            parts[-1].append(None if each == "_" else each)
    if len(parts) == 1:
        only = parts[0]
        return lambda text: len(text) == len(only) and _fits_at(text, 0, only)
    first, *middle, last = parts

    def fits(text: str) -> bool:
        if len(text) < len(first) + len(last) or not _fits_at(text, 0, first):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            found = next((place for place in range(at, end - len(part) + 1) if _fits_at(text, place, part)), None)
            if found is None:
                return False
            at = found + len(part)
        return _fits_at(text, end, last)

    return fits


def _fits_at(text: str, place: int, part: Sequence[str | None]) -> bool:
    return all(wanted is None or text[place + index] == wanted for index, wanted in enumerate(part))


def _quotient(one: Any, two: Any) -> Any:
    return one // two if isinstance(one, int) and isinstance(two, int) else one / two


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": operator.mod,
}
BITS_MAX = 4096
"""A whole number that is longer is no answer: a product of products would grow with every step."""


def _number(compute: Callable[[Any, Any], Any], one: object, two: object) -> object:
    if _kind(one) != "number" or _kind(two) != "number":
        return None
    try:
        if isinstance(one, float) or isinstance(two, float):
            one, two = float(one), float(two)  # type: ignore[arg-type]
        found = compute(one, two)
    except ArithmeticError:
        return None
    return None if isinstance(found, int) and found.bit_length() > BITS_MAX else found


def _text_function(function: Callable[[str], object]) -> Callable[[object], object]:
    return lambda value: function(value) if isinstance(value, str) else None


def _length(value: object) -> object:
    return len(value) if isinstance(value, str | list | dict) else None


def _absolute(value: object) -> object:
    return abs(value) if _kind(value) == "number" else None  # type: ignore[arg-type]


FUNCTIONS: Mapping[str, Callable[[object], object]] = {
    "UCASE": _text_function(str.upper),
    "LCASE": _text_function(str.lower),
    "TRIM": _text_function(str.strip),
    "LEN": _length,
    "ABS": _absolute,
}


def _must_contain(tree: e.Expression) -> list[bytes]:
    """The texts that a value's bytes hold where the condition does: of equalities that all have to hold."""
    match tree:
        case e.Logical("AND", left, right):
            return [*_must_contain(left), *_must_contain(right)]
        case e.Comparison("=", path, e.StringLiteral(text)) | e.Comparison("=", e.StringLiteral(text), path):
            root = path
            while isinstance(root, e.Dereference | e.Subscript):
                root = root.base
            is_value = isinstance(root, e.Column) and root.name.lower() == "value"
            plain = text.isascii() and text.isprintable() and not set(text) & set("\"\\/<>&'")
            return [text.encode()] if is_value and plain and text else []
    return []

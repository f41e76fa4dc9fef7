"""From a typed expression to a Python function: its text is made once, of templates and names of constants alone.

Nothing of what a user wrote stands in the text: literals, names of fields and patterns are constants beside it. Against
functions in one another, one function of nested conditions takes a third of the time: 0.12 us for `value * 2 + 1`, not 0.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from types import CodeType
from typing import Any

from ottla.streams.expressions import runtime
from ottla.streams.expressions.bound import Bound

__all__ = ["function_of"]


def function_of(expression: Bound, columns: tuple[str, ...], zone: tzinfo = UTC) -> Callable[..., Any]:
    """Return a function of the columns' values, in this order."""
    maker = _Maker({name: f"c{at}" for at, name in enumerate(columns)})
    text = maker.code(expression)
    names = ", ".join(maker.columns.values())
    code: CodeType = compile(f"lambda {names}: {text}", "<expression>", "eval")
    made: Callable[..., Any] = eval(code, {"r": runtime, "zone": zone, **maker.constants})
    return made


class _Maker:
    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns
        self.constants: dict[str, Any] = {}
        self.names = 0

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def code(self, part: Bound) -> str:
        """Return Python text that computes a part."""
        if part.form == "column":
            return self.columns[part.value]
        if part.form == "literal":
            return self.constant(part.value)
        if part.form == "strict":
            return self._strict(part)
        codes = [self.code(each) for each in part.arguments]
        names = {"a": self.name(), "b": self.name()}
        said = {f"n{at}": self.constant(name) for at, name in enumerate(part.value or ())}
        return f"({part.template.format(*codes, **names, **said)})"

    def _strict(self, part: Bound) -> str:
        tests, values = [], []
        for each in part.arguments:
            code = self.code(each)
            if each.is_literal and each.value is not None:
                values.append(code)
            elif each.form == "column":
                tests.append(f"{code} is None")
                values.append(code)
            else:
                name = self.name()
                tests.append(f"({name} := {code}) is None")
                values.append(name)
        extra = {"v": self.constant(part.value)} if part.value is not None else {}
        text = part.template.format(*values, **extra)
        return f"(None if {' or '.join(tests)} else {text})" if tests else f"({text})"

"""The path to a field: one name, or with `field.syntax.version=V2` names with dots between them (KIP-821)."""

from __future__ import annotations

from typing import Any

from ottla.connect.data.schema import Field, Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import config_error
from ottla.connect.transforms.part import require_map, require_struct

__all__ = ["FieldPath"]

_PURPOSE = "nested field access"


class FieldPath:
    """The steps to a field; a name with dots in it stands between backticks."""

    def __init__(self, text: str, *, nested: bool) -> None:
        """Read a path; raises ConfigError for a backtick without its pair."""
        self.steps = _steps(text) if nested else [text]

    def field_of(self, schema: Schema) -> Field | None:
        """Return the field that the path leads to, None where it leads nowhere."""
        for step in self.steps[:-1]:
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return schema.field(self.steps[-1])

    def of_struct(self, struct: Struct, *, with_default: bool) -> Any:
        """Return the value at the path."""
        current = struct
        for step in self.steps[:-1]:
            if step not in current:
                return None
            below = current.get(step)
            if below is None:
                return None
            current = require_struct(below, _PURPOSE)
        last = self.steps[-1]
        if last not in current:
            return None
        return current.get(last) if with_default else current.get_without_default(last)

    def of_map(self, value: dict[str, Any]) -> Any:
        """Return the value at the path."""
        current = value
        for step in self.steps[:-1]:
            below = current.get(step)
            if below is None:
                return None
            current = require_map(below, _PURPOSE)
        return current.get(self.steps[-1])


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
            steps.append(step)
            continue
        dot = path.find(".", at)
        end = len(path) if dot < 0 else dot
        steps.append(path[at:end])
        at = end + 1
    if path.endswith("."):
        steps.append("")
    return steps


def _quoted(path: str, opening: int) -> tuple[str, int]:
    """Return a name between backticks, and where the next step begins."""
    step, start, at = "", opening + 1, opening + 1
    while True:
        at = path.find("`", at)
        escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at == len(path) - 1 and escaped):
            raise config_error(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position "
                f"{opening} to escape it"
            )
        if at == len(path) - 1:
            return step + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            step += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return step + path[start:at], at + 2

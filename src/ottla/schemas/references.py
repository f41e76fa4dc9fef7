"""What a schema refers to, and what that refers to in its turn: each once, and known before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.schemas.interface import InvalidSchemaError, Limits, Referenced, Resolve, SchemaReference

__all__ = ["gather", "utf8_bytes"]


def gather(
    references: Sequence[SchemaReference], resolve: Resolve, limits: Limits
) -> list[tuple[SchemaReference, Referenced]]:
    """Return every reference with its text, those first that others need."""
    found: list[tuple[SchemaReference, Referenced]] = []
    begun: dict[tuple[str, int], bool] = {}  # subject and version -> whether it is in `found`
    bytes_left = limits.total_bytes_max
    stack: list[tuple[tuple[SchemaReference, Referenced] | None, Iterator[SchemaReference]]] = [
        (None, iter(references))
    ]
    while stack:
        owner, pending = stack[-1]
        reference = next(pending, None)
        if reference is None:
            stack.pop()
            if owner is not None:
                found.append(owner)
                begun[owner[0].subject, owner[0].version] = True
            continue
        key = (reference.subject, reference.version)
        if key in begun:
            if not begun[key]:
                raise InvalidSchemaError(f"The reference to {_said(reference)} leads back to itself")
            continue
        if len(begun) >= limits.references_max:
            raise InvalidSchemaError(f"There are more than {limits.references_max} references")
        begun[key] = False
        answer = _resolved(reference, resolve)
        bytes_left -= utf8_bytes(answer.text, f"The reference to {_said(reference)}")
        if bytes_left < 0:
            raise InvalidSchemaError(f"With its references the schema is larger than {limits.total_bytes_max} bytes")
        stack.append(((reference, answer), iter(answer.references)))
    return found


def utf8_bytes(text: str, what: str) -> int:
    """Return how many bytes a text has; raises InvalidSchemaError where it cannot be written as UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidSchemaError(f"{what} holds half of a surrogate pair, which no text may") from None


def _resolved(reference: SchemaReference, resolve: Resolve) -> Referenced:
    try:
        answer = resolve(reference)
    except LookupError:
        raise InvalidSchemaError(f"There is no schema for the reference to {_said(reference)}") from None
    return Referenced(answer) if isinstance(answer, str) else answer


def _said(reference: SchemaReference) -> str:
    return f"{reference.name!r} (subject {reference.subject!r}, version {reference.version})"

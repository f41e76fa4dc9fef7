"""JSON Schema: JSON's own values, checked by jsonschema where that is asked for."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry as Resources
from referencing import Resource
from referencing.jsonschema import DRAFT7

from ottla.schemas import ParsedSchema
from ottla.serdes.errors import SerdeError

__all__ = ["JsonSchemaCodec"]


class JsonSchemaCodec:
    """Values are dictionaries, lists, strings and numbers; with `as_bytes` they are the bytes of their JSON."""

    def __init__(
        self,
        schema: ParsedSchema,
        *,
        validate: bool = False,
        referenced: dict[str, str] | None = None,
        as_bytes: bool = False,
    ) -> None:
        self.schema, self._as_bytes = schema, as_bytes
        self._name = schema.name
        self.document = json.loads(schema.canonical())
        self._validate = validate
        if validate:
            resources: Any = Resources()
            for name, text in (referenced or {}).items():
                resource = Resource.from_contents(json.loads(text), default_specification=DRAFT7)
                resources = resources.with_resource(name, resource)
            self._validator: Any = validator_for(self.document, default=Draft7Validator)(
                self.document, registry=resources
            )

    def encode(self, value: Any, indexes: tuple[int, ...] | None = None) -> bytes:
        """See `Codec`."""
        if self._as_bytes:
            if self._validate:
                self._check(self._parsed(value))
            return bytes(value)
        self._check(value)
        return self._text(value).encode()

    def decode(self, data: bytes, indexes: tuple[int, ...] | None = None) -> Any:
        """See `Codec`."""
        if self._as_bytes and not self._validate:
            return bytes(data)
        value = self._parsed(data)
        self._check(value)
        return bytes(data) if self._as_bytes else value

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(bytes(data).decode())
        except (ValueError, RecursionError) as error:
            raise SerdeError(f"The bytes are no JSON: {_said(error)}") from error

    def to_json(self, value: Any) -> str:
        """See `Codec`."""
        return bytes(value).decode(errors="replace") if self._as_bytes else self._text(value)

    def from_json(self, text: str, indexes: tuple[int, ...] | None = None) -> Any:
        """See `Codec`."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SerdeError(f"The text is no JSON: {_said(error)}") from error

    def path_to(self, name: str | None) -> tuple[int, ...] | None:
        """See `Codec`."""
        if name:
            raise SerdeError("A JSON schema has one type: no message can be named")
        return None

    def name(self, indexes: tuple[int, ...] | None = None) -> str | None:
        """See `Codec`."""
        return self._name

    def _text(self, value: Any) -> str:
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise SerdeError(f"The value is none that JSON has: {_said(error)}") from error

    def _check(self, value: Any) -> None:
        if not self._validate:
            return
        try:
            self._validator.validate(value)
        except ValidationError as error:
            raise SerdeError(
                f"The value does not fit the JSON schema: {error.json_path}: {error.message[:400]}"
            ) from error
        except Exception as error:  # a `$ref` that leads nowhere, a pattern that is none, a depth
            raise SerdeError(f"The value cannot be checked by the JSON schema: {_said(error)}") from error


def _said(error: Exception) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)

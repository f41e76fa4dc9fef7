"""What a client signs to be given access tokens, in Kafka's words: `sasl.oauthbearer.assertion.*` (KIP-1139, KIP-1258).

The process says, and no properties, which files may be read for it: `org.apache.kafka.sasl.oauthbearer.allowed.files` in
KAFKA_OPTS.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from ottla.base import ConfigError
from ottla.config import CONSUMER_KEYS, parse_value
from ottla.security.sasl import ALGORITHMS, signed_assertion

__all__ = ["ALLOWED_FILES", "Assertions"]

_PREFIX = "sasl.oauthbearer.assertion."
FILE, TEMPLATE = f"{_PREFIX}file", f"{_PREFIX}template.file"
KEY_FILE, PASSPHRASE = f"{_PREFIX}private.key.file", f"{_PREFIX}private.key.passphrase"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"


class Assertions:
    """Makes assertions: each is what a file holds, or signed anew with a key of one. Files are read each time."""

    def __init__(self, given: Mapping[str, str], allowed_files: Collection[str]) -> None:
        """Raises ConfigError where something cannot be honoured."""
        self._allowed = allowed_files
        self._file = given.get(FILE)
        self._key_file, self._passphrase = given.get(KEY_FILE), given.get(PASSPHRASE)
        self._template = given.get(TEMPLATE)
        self._algorithm = str(_value(given, "algorithm")).upper()
        if self._algorithm not in ALGORITHMS:
            raise ConfigError(f"{_PREFIX}algorithm", self._algorithm, f"must be one of {', '.join(ALGORITHMS)}")
        self._lasts_s, self._begins_s = _value(given, "claim.exp.seconds"), _value(given, "claim.nbf.seconds")
        self._has_id = _value(given, "claim.jti.include")
        named = {name: given.get(f"{_PREFIX}claim.{name}") for name in ("aud", "iss", "sub")}
        self._claims = {name: value for name, value in named.items() if value}
        if self._file:
            self._read(FILE, self._file)
            return
        if not self._key_file:
            raise ConfigError(KEY_FILE, "", "", f"{KEY_FILE} is not set: with its key, assertions are signed")
        self.make(0)

    @staticmethod
    def are_configured(given: Mapping[str, str]) -> bool:
        """Return whether a client with these properties shows an assertion instead of a secret, as Kafka decides it."""
        return bool(given.get(FILE) or given.get(f"{_PREFIX}claim.iss"))

    def make(self, now_s: int) -> str:
        """Return an assertion; raises ConfigError where a file does not hold what it should."""
        if self._file:
            return self._read(FILE, self._file).decode("ascii", "replace").strip()
        assert self._key_file is not None
        header: dict[str, Any] = {}
        payload: dict[str, Any] = {**self._claims}
        if self._template:
            found = self._templates()
            header |= found.get("header") or {}
            payload |= found.get("payload") or {}
        header |= {"alg": self._algorithm, "typ": "JWT"}
        payload |= {"iat": now_s, "exp": now_s + self._lasts_s, "nbf": now_s - self._begins_s}
        if self._has_id:
            payload["jti"] = str(uuid.uuid4())
        return signed_assertion(header, payload, self._read(KEY_FILE, self._key_file), self._passphrase)

    def _templates(self) -> dict[str, dict[str, Any]]:
        assert self._template is not None
        try:
            found = json.loads(self._read(TEMPLATE, self._template))
        except (ValueError, RecursionError) as error:
            raise ConfigError(TEMPLATE, self._template, "a file of JSON") from error
        parts = [found.get(each) for each in ("header", "payload")] if isinstance(found, dict) else [0]
        if not all(each is None or isinstance(each, dict) for each in parts):
            raise ConfigError(TEMPLATE, self._template, 'a file of JSON: {"header": {…}, "payload": {…}}')
        return dict(found)

    def _read(self, key: str, path: str) -> bytes:
        from ottla.security.sasl.key_reader import read_allowed_file

        return read_allowed_file(path, self._allowed, key=key, setting=ALLOWED_FILES)


def _value(given: Mapping[str, str], name: str) -> Any:
    key = CONSUMER_KEYS[f"{_PREFIX}{name}"]
    return parse_value(key, given[key.name]) if given.get(key.name) else key.default_value

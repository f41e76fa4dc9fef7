"""Who may ask the REST interface: Kafka's basic-auth extension, its JAAS file and its file of names and passwords."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import ConfigError
from ottla.config import parse_properties

if TYPE_CHECKING:
    from ottla.http import BasicLogins  # it imports aiohttp, which a task in a process of its own does without

__all__ = ["EXTENSION", "LOGIN_CONFIG", "rest_logins"]

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
LOGIN_CONFIG = "java.security.auth.login.config"
"""The JVM's property that names the JAAS file; a key of the worker's properties here, or in `KAFKA_OPTS` as for Kafka."""

_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_SECTION = re.compile(r"\bKafkaConnect\s*\{\s*([\w.]+)\s+\w+\s*([^;}]*);\s*}\s*;")
_FILE = re.compile(r'\bfile\s*=\s*(?:"([^"]*)"|(\S+))')
_COMMENT = re.compile(r"/\*.*?\*/|^\s*(?://|#).*?$", re.DOTALL | re.MULTILINE)


def rest_logins(worker: Mapping[str, str], environment: Mapping[str, str]) -> BasicLogins | None:
    """Return who may ask, None where everybody may; raises ConfigError for another extension and for what cannot be read.

    A file without a name is refused: Kafka's module then admits every password.
    """
    extensions = [each.strip() for each in worker.get("rest.extension.classes", "").split(",") if each.strip()]
    if not extensions:
        return None
    others = [each for each in extensions if each not in (EXTENSION, EXTENSION.rpartition(".")[2])]
    if others:
        raise ConfigError(
            "rest.extension.classes", ",".join(others), f"{EXTENSION}: other extensions in Java cannot be loaded"
        )
    place = worker.get(LOGIN_CONFIG) or _of_java(environment.get("KAFKA_OPTS", ""))
    if not place:
        raise ConfigError(LOGIN_CONFIG, "", "the path of a JAAS file with a section KafkaConnect")
    section = _SECTION.search(_COMMENT.sub("", _read(place)))
    if section is None or section[1] != _MODULE:
        raise ConfigError(LOGIN_CONFIG, place, f"a file with a section KafkaConnect whose one module is {_MODULE}")
    file = _FILE.search(section[2])
    if file is None:
        raise ConfigError(
            LOGIN_CONFIG, place, 'a section KafkaConnect with file="…", a file of lines like name=password'
        )
    passwords = parse_properties(_read(file[1] or file[2]))
    if not passwords:
        raise ConfigError(LOGIN_CONFIG, place, "a file of lines like name=password, which is not empty")
    from ottla.http import BasicLogins

    return BasicLogins(passwords)


def _read(place: str) -> str:
    try:
        return Path(place).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(LOGIN_CONFIG, place, "a file that can be read") from error


def _of_java(options: str) -> str | None:
    start = f"-D{LOGIN_CONFIG}="
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    return next((each.removeprefix(start) for each in reversed(words) if each.startswith(start)), None)

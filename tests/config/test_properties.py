"""Java's properties syntax, the container image's variables, and `--override` pairs."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.config import environment_properties, override_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}),
        ("# x\n! y\n\n   \n  a=1", {"a": "1"}),
        ("a=one \\\n    two\\\nthree", {"a": "one twothree"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (r"a\ b\=c=\t\n\\x\q", {"a b=c": "\t\n\\xq"}),
        (r"a=\u00e9\u20ac", {"a": "é€"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=# not a comment  ", {"a": "# not a comment  "}),
        ("a=x\\\n# goes on", {"a": "x# goes on"}),
        ("a=x\\", {"a": "x"}),
    ],
)
def test_the_whole_properties_syntax_is_read(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_a_malformed_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(r"a=\u12g4")


def test_environment_names_are_spelt_as_in_the_container_image() -> None:
    variables = {
        "KAFKA_LOG_DIRS": "/data",
        "KAFKA_LISTENER_NAME_CLIENT__X_SSL_KEYSTORE_TYPE": "PEM",
        "KAFKA_A___B": "dash",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_LOG4J_LOGGERS": "x",
        "PATH": "/bin",
    }
    assert environment_properties(variables) == {
        "log.dirs": "/data",
        "listener.name.client_x.ssl.keystore.type": "PEM",
        "a-b": "dash",
    }


def test_overrides_are_pairs() -> None:
    assert override_properties(["a=1", "b=x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    with pytest.raises(ConfigError, match="expected key=value"):
        override_properties(["a"])

"""What a session of the capture sets for itself: a role, a database or the server may have it otherwise. Pure.

What the server writes, and how it reads what is asked, has to be the same in the stream, in a snapshot and at each restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PINNED", "PINNED_WHERE_THERE", "as_options", "pinning"]

PINNED: Final[Mapping[str, str]] = {
    # how values are printed
    "client_encoding": "UTF8",
    "datestyle": "ISO,MDY",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    # how what is asked is read
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # which rows there are: a policy that hides some from the user is an error, and not a table without them
    "row_security": "off",
    "gin_fuzzy_search_limit": "0",
    # what a session may do, and what it sees: it makes publications and slots, and writes marks
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # how long a session may be silent or busy
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
"""Settings of every session, of the stream and of the catalogue, that all versions from 14 on have."""
PINNED_WHERE_THERE: Final[Mapping[str, str]] = {"transaction_timeout": "0"}
"""Settings of newer versions; a server that has them not refuses a connection that names them."""


def as_options(settings: Mapping[str, str]) -> str:
    """Return settings as libpq's `options` has them; white space in a value stands behind a backslash."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())


def pinning() -> str:
    """Return the query that sets all of them once more, behind what statements of the user's have set.

    The catalogue's own names come first in the search path, so that no table of a user's stands before one of them. What
    was set is not sent back: it may have no form in UTF-8.
    """
    every = {**PINNED, **PINNED_WHERE_THERE}
    listed = ", ".join(f"('{name}', '{value}')" for name, value in every.items())
    return (
        "select pg_catalog.length(pg_catalog.set_config(v.name, v.value, false)) "
        f"from (values {listed}) v(name, value) join pg_catalog.pg_settings s on pg_catalog.lower(s.name) = v.name "
        "union all select pg_catalog.length(pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', "
        "nullif(pg_catalog.current_setting('search_path'), '')), false))"
    )

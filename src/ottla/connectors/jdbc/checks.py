"""Validation against the database itself: it is connected to once, and what it says belongs to a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError
from ottla.connect import ConfigValue, ConnectError
from ottla.connectors.jdbc.urls import require_sqlalchemy

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ottla.connectors.jdbc.database import Database

    Check = Callable[[dict[str, ConfigValue], Mapping[str, Any], Database, Connection], None]

__all__ = ["check_database"]


def check_database(values: dict[str, ConfigValue], check: Check) -> None:
    """Connect, once, and have the rest checked; what goes wrong is said of the key that it belongs to."""
    settings = {name: each.value for name, each in values.items()}
    settings |= {"connection.attempts": 1}
    try:
        require_sqlalchemy()
        from sqlalchemy.exc import SQLAlchemyError

        from ottla.connectors.jdbc.database import open_database, reason_of

        database = open_database(settings)
    except (ConnectError, ConfigError) as error:
        values[getattr(error, "key", "") or "connection.url"].errors.append(str(error))
        return
    try:
        with database.connect() as connection:
            check(values, settings, database, connection)
    except ConfigError as error:
        values[error.key].errors.append(str(error))
    except SQLAlchemyError as error:
        values["connection.url"].errors.append(reason_of(error))
    except ConnectError as error:
        values["connection.url"].errors.append(str(error))
    finally:
        database.close()

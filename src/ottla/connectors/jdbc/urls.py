"""Where a database is: JDBC's URLs read into SQLAlchemy's, with user and password taken out of the text."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from ottla.base import ConfigError
from ottla.connect import ConnectError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

__all__ = ["DRIVERS", "KEY", "database_url", "require_sqlalchemy"]

log = logging.getLogger(__name__)

KEY = "connection.url"
DRIVERS: dict[str, tuple[tuple[str, str], ...]] = {
    "postgresql": (("psycopg", "psycopg[binary]"),),
    "mysql": (("pymysql", "pymysql"), ("MySQLdb", "mysqlclient"), ("mysql.connector", "mysql-connector-python")),
    "mariadb": (("pymysql", "pymysql"), ("mariadb", "mariadb")),
}
"""Python's modules for a database, the best first, and the packages that bring them."""

_NAMES = {"MySQLdb": "mysqldb", "mysql.connector": "mysqlconnector", "mariadb": "mariadbconnector"}
"""What SQLAlchemy calls a driver where it is not the module's name."""

_POSTGRES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "targetServerType": "target_session_attrs",
}
"""Parameters of JDBC's PostgreSQL driver and what the C library calls them."""


def require_sqlalchemy() -> None:
    """Raise ConnectError, with what to install, where SQLAlchemy is not there."""
    if importlib.util.find_spec("sqlalchemy") is None:
        raise ConnectError("The JDBC connectors need SQLAlchemy, which is not installed: pip install 'ottla[connect]'")


def database_url(text: str, user: str | None = None, password: str | None = None) -> URL:
    """Return SQLAlchemy's URL of a JDBC or SQLAlchemy URL; raises ConfigError for one that cannot be read.

    Raises ConnectError where SQLAlchemy or the database's driver is not installed. What it raises names no password.
    """
    require_sqlalchemy()
    text = text.strip()
    url = _of_jdbc(text[5:]) if text[:5].lower() == "jdbc:" else _of_sqlalchemy(text)
    if user is not None:
        url = url.set(username=user)
    if password is not None:
        url = url.set(password=password)
    return _with_driver(url)


def _refused(expected: str) -> ConfigError:
    """Return the error for a URL; the URL itself is left out, because a password may stand in it."""
    return ConfigError(KEY, None, expected, f"Invalid value for configuration {KEY}: {expected}")


def _of_sqlalchemy(text: str) -> URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text)
    except (ArgumentError, ValueError) as error:
        raise _refused(
            "expected a JDBC URL (jdbc:postgresql://host:5432/db) or one of SQLAlchemy (postgresql+psycopg://host/db)"
        ) from error


def _of_jdbc(text: str) -> URL:
    """Read what stands behind `jdbc:`."""
    kind, colon, rest = text.partition(":")
    kind = kind.lower()
    if colon and kind == "sqlite":
        return _sqlite(rest)
    if colon and kind in DRIVERS:
        return _hosted(kind, rest)
    known = ", ".join(f"jdbc:{each}:" for each in ("postgresql", "sqlite", "mysql", "mariadb"))
    raise _refused(f"jdbc:{kind}: is not known here; known are {known}, and every URL of SQLAlchemy")


def _sqlite(rest: str) -> URL:
    from sqlalchemy.engine import URL

    if not rest:
        raise _refused("expected a file behind jdbc:sqlite:")
    if rest.startswith("file:"):
        separator = "&" if "?" in rest else "?"
        return URL.create("sqlite", database=rest, query={"uri": "true"} if separator else {})
    path, _, _ = rest.partition("?")
    return URL.create("sqlite", database=path)


def _hosted(kind: str, rest: str) -> URL:
    """Read `//host:port,host:port/database?name=value`; without hosts it is this machine."""
    from sqlalchemy.engine import URL

    rest, _, query = rest.partition("?")
    hosts, database = "", rest
    if rest.startswith("//"):
        hosts, _, database = rest[2:].partition("/")
    given = dict(parse_qsl(query, keep_blank_values=True))
    user, password = given.pop("user", None), given.pop("password", None)
    options = _options(kind, given)
    host, port = None, None
    if "," in hosts:
        options["host"] = ",".join(each.rpartition(":")[0] or each for each in hosts.split(","))
        options["port"] = ",".join(each.partition(":")[2] or "5432" for each in hosts.split(","))
    else:
        host, port = _host_port(hosts or "localhost")
    database = unquote(database)
    return URL.create(kind, user, password, host, port, database or user, options)


def _host_port(text: str) -> tuple[str, int | None]:
    host, bracket, rest = text.partition("]")
    if not bracket:
        host, _, digits = text.partition(":")
    else:
        host, digits = host.removeprefix("["), rest.removeprefix(":")
    if digits and not (digits.isdigit() and 0 < int(digits) < 65536):
        raise _refused("expected a port from 1 to 65535 behind the host's name")
    return host, int(digits) if digits else None


def _options(kind: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that mean something outside of Java; the others are told in the log."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if kind == "postgresql" and name == "currentSchema":
            found["options"] = (found.get("options", "") + f" -csearch_path={value}").strip()
        elif kind == "postgresql" and name == "ssl":
            found.setdefault("sslmode", "disable" if value.lower() == "false" else "require")
        elif kind == "postgresql" and name in _POSTGRES:
            found[_POSTGRES[name]] = "read-write" if value == "primary" else value
        elif kind != "postgresql" and name in ("charset", "characterEncoding"):
            found["charset"] = "utf8mb4" if value.lower().replace("-", "") == "utf8" else value
        else:
            log.info("The parameter %s of %s is one of Java's driver and has no meaning here", name, KEY)
    return found


def _with_driver(url: URL) -> URL:
    """Return the URL with a driver that is installed; raises ConnectError that says what to install."""
    from sqlalchemy.exc import NoSuchModuleError

    backend, _, driver = url.drivername.partition("+")
    known = DRIVERS.get(backend, ())
    if not driver and known:
        installed = [module for module, _ in known if _is_installed(module)]
        if not installed:
            raise _no_driver(backend, known[0][1])
        url = url.set(drivername=f"{backend}+{_NAMES.get(installed[0], installed[0])}")
    try:
        url.get_dialect().import_dbapi()
    except NoSuchModuleError as error:
        raise _refused(f"there is no dialect {url.drivername} among those that SQLAlchemy knows here") from error
    except ImportError as error:
        packages = {_NAMES.get(module, module): package for module, package in known}
        raise _no_driver(url.drivername, packages.get(driver, error.name or driver)) from error
    return url


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _no_driver(of: str, package: str) -> ConnectError:
    extra = "pip install 'ottla[connect]'" if package.startswith("psycopg") else f"pip install {package}"
    return ConnectError(f"The driver for {of} is not installed here: {extra}")

"""Where a database is: JDBC's URLs read into SQLAlchemy's, with user and password taken out of the text."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote

from ottla.base import ConfigError, bring_extra
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
    "sslpassword": "sslpassword",
    "channelBinding": "channel_binding",
    "gssEncMode": "gssencmode",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "targetServerType": "target_session_attrs",
}
"""Parameters of JDBC's PostgreSQL driver and what the C library calls them."""

_MYSQL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_SECURITY: tuple[str, ...] = (
    *("ssl", "tls", "truststore", "keystore", "certificate", "cipher", "hexkey", "rsa"),
    *("auth", "gss", "krb", "kerberos", "jaas", "credential", "principal", "callback"),
    *("socks", "proxy", "socketfactory", "readonly", "open_mode", "sessionvariables"),
)
"""What the names of parameters have in them that protect a connection or the data, or say where it leads: one without
meaning here is refused. `sessionVariables` may hold MySQL's strict mode, without which it shortens values."""


def require_sqlalchemy() -> None:
    """Raise ConnectError, with what to install, where SQLAlchemy is not there."""
    if importlib.util.find_spec("sqlalchemy") is None:
        raise ConnectError(f"The JDBC connectors need SQLAlchemy, which is not installed: {bring_extra('connect')}")


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
    path, _, query = rest.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    modes: dict[str, str] = {name: given.pop(name) for name in ("mode", "immutable") if name in given}
    _options("sqlite", given)
    if not modes:
        return URL.create("sqlite", database=path)
    return URL.create("sqlite", database=f"file:{quote(path)}", query=modes | {"uri": "true"})


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
    """Return the parameters that mean something outside of Java; the others are told in the log.

    Raises ConfigError for one that would protect the connection, and cannot be honoured.
    """
    found: dict[str, str] = {}
    rest = dict(given)
    if kind == "postgresql":
        found |= _postgres_options(rest)
    elif kind != "sqlite":
        found |= _mysql_options(rest)
    for name in rest:
        if any(each in name.lower() for each in _SECURITY):
            instead = (
                "; sslmode, sslrootcert, sslcert and sslkey have, with files in PEM" if kind == "postgresql" else ""
            )
            raise _refused(
                f"the parameter {name} is one of Java's driver, protects the connection or what it leads to, and has no "
                f"meaning here{instead}"
            )
        log.info("The parameter %s of %s is one of Java's driver and has no meaning here", name, KEY)
    return found


def _postgres_options(rest: dict[str, str]) -> dict[str, str]:
    """Take PostgreSQL's parameters out of `rest`, and return them as the C library calls them."""
    found: dict[str, str] = {}
    ssl = rest.pop("ssl", None)
    if ssl is not None and ssl.lower() in ("", "true"):  # pgjdbc: without sslmode this means the whole check
        found["sslmode"] = "verify-full"
    schema = rest.pop("currentSchema", None)
    is_read_only = (rest.pop("readOnly", None) or "").lower() == "true"
    for name in [name for name in rest if name in _POSTGRES]:
        value = rest.pop(name)
        found[_POSTGRES[name]] = "read-write" if (name, value) == ("targetServerType", "primary") else value
    if schema is not None:
        found["options"] = f"{found.get('options', '')} -csearch_path={schema}".strip()
    if is_read_only:
        found["options"] = f"{found.get('options', '')} -cdefault_transaction_read_only=on".strip()
    return found


def _mysql_options(rest: dict[str, str]) -> dict[str, str]:
    """Take MySQL's and MariaDB's parameters out of `rest`, and return them as PyMySQL calls them; raises ConfigError."""
    found: dict[str, str] = {}
    for name in ("charset", "characterEncoding"):
        if (charset := rest.pop(name, None)) is not None:
            found["charset"] = "utf8mb4" if charset.lower().replace("-", "") == "utf8" else charset
    mode = _mysql_mode(rest)
    if mode not in ("DISABLED", "PREFERRED"):
        raise _refused(
            f"sslMode={mode} (or useSSL with what it requires) cannot be promised here: Python's drivers go on unencrypted "
            "where the server offers no TLS. A URL of SQLAlchemy (mysql+mysqlconnector://…) takes the driver's own settings"
        )
    return found


def _mysql_mode(rest: dict[str, str]) -> str:
    """Take what says how a connection is encrypted out of `rest`, and return it in the words of `sslMode`."""
    modes = {"disable": "DISABLED", "trust": "REQUIRED", "verify-ca": "VERIFY_CA", "verify-full": "VERIFY_IDENTITY"}
    told = rest.pop("sslMode", None)
    uses, requires, verifies = (
        (rest.pop(name, None) or "").lower() for name in ("useSSL", "requireSSL", "verifyServerCertificate")
    )
    if told is not None:
        mode = modes.get(told.lower(), told.upper())
        if mode not in _MYSQL_MODES:
            raise _refused(f"expected sslMode to be one of {', '.join(_MYSQL_MODES)}")
        return mode
    if uses == "false":
        return "DISABLED"
    if verifies == "true":
        return "VERIFY_CA"
    return "REQUIRED" if requires == "true" else "PREFERRED"


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
    extra = bring_extra("connect") if package.startswith("psycopg") else f"pip install {package}"
    return ConnectError(f"The driver for {of} is not installed here: {extra}")

"""A project on this machine: its properties, and its files `V000001__What_it_does.sql`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base import OttlaError
from ottla.cli.options import properties_file

__all__ = [
    "CONFIG_FILE",
    "MigrationError",
    "MigrationFile",
    "Project",
    "create_file",
    "migration_files",
    "new_project",
    "read_project",
]

CONFIG_FILE, FOLDER = "ksql-migrations.properties", "migrations"
URL, STREAM, TABLE = "ksql.server.url", "ksql.migrations.stream.name", "ksql.migrations.table.name"
STREAM_TOPIC, TABLE_TOPIC = "ksql.migrations.stream.topic.name", "ksql.migrations.table.topic.name"
REPLICAS, OVERRIDE = "ksql.migrations.topic.replicas", "ksql.migrations.dir.override"
USER, PASSWORD, TOKEN = "ksql.auth.basic.username", "ksql.auth.basic.password", "ksql.auth.bearer.token"
VERIFY_HOST = "ssl.verify.host"
STREAM_DEFAULT, TABLE_DEFAULT = "MIGRATION_EVENTS", "MIGRATION_SCHEMA_VERSIONS"
VERSION_MAX = 999_999
FILE_BYTES_MAX = 4 << 20
_FILE = re.compile(r"V(\d{6})__(.+)\.sql")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONAL: Mapping[str, str] = {
    STREAM: STREAM_DEFAULT,
    TABLE: TABLE_DEFAULT,
    STREAM_TOPIC: f"default_ksql_{STREAM_DEFAULT}",
    TABLE_TOPIC: f"default_ksql_{TABLE_DEFAULT}",
    REPLICAS: "1",
    OVERRIDE: "",
    "ssl.truststore.location": "",
    "ssl.truststore.password": "",
    "ssl.keystore.location": "",
    "ssl.keystore.password": "",
    "ssl.key.password": "",
    VERIFY_HOST: "true",
    USER: "",
    PASSWORD: "",
    TOKEN: "",
}
"""What a new project's file has behind `#`, with the defaults of a server whose service is called `default_`."""


class MigrationError(OttlaError):
    """What keeps migrations from being made, looked at or applied: what it is, and what to do."""


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """One file: its version (from 1), what it does in words, and its text."""

    version: int
    name: str
    path: Path
    text: str = field(repr=False)
    checksum: str
    """MD5 of the file's bytes in hexadecimal digits, as ksqlDB's tool keeps it; it guards against slips, not attackers."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a project's properties say."""

    url: str
    folder: Path
    stream: str = STREAM_DEFAULT
    table: str = TABLE_DEFAULT
    stream_topic: str = ""
    """Empty for `<service id>ksql_<stream>`."""
    table_topic: str = ""
    replicas: int = 1
    user: str | None = None
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_project(config_file: Path) -> Project:
    """Read a project by its properties' file; raises MigrationError, ConfigError."""
    try:
        given = {name: value.strip() for name, value in properties_file(str(config_file)).items()}
    except OSError as error:
        raise MigrationError(f"Failed to open migrations config file {config_file}: {error}") from None
    if not given.get(URL):
        raise MigrationError(f"{config_file} has no {URL}: the address of the SQL server")
    names = {name: given.get(name) or default for name, default in ((STREAM, STREAM_DEFAULT), (TABLE, TABLE_DEFAULT))}
    for name, value in names.items():
        if not _NAME.fullmatch(value):
            raise MigrationError(f"{name}={value} in {config_file}: letters, digits and '_' make a name")
    replicas = given.get(REPLICAS) or "1"
    if not re.fullmatch(r"[1-9]\d{0,4}", replicas):
        raise MigrationError(f"{REPLICAS}={replicas} in {config_file}: a whole number, 1 or more")
    return Project(
        url=given[URL].rstrip("/"),
        folder=Path(given.get(OVERRIDE) or config_file.parent / FOLDER),
        stream=names[STREAM].upper(),
        table=names[TABLE].upper(),
        stream_topic=given.get(STREAM_TOPIC, ""),
        table_topic=given.get(TABLE_TOPIC, ""),
        replicas=int(replicas),
        user=given.get(USER) or None,
        password=given.get(PASSWORD, ""),
        token=given.get(TOKEN) or None,
        tls=_tls(given),
    )


def _tls(given: Mapping[str, str]) -> dict[str, str]:
    """The stores of an https address, in Kafka's names; `ssl.verify.host` is ksqlDB's name for a check of Kafka's."""
    found = {name: value for name, value in given.items() if name.startswith("ssl.") and value}
    found.pop("ssl.alpn", None)
    if found.pop(VERIFY_HOST, "true").lower() == "false":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def new_project(root: Path, url: str) -> list[str]:
    """Make a project's folders and its file; returns what was done, line by line. Raises MigrationError."""
    config = root / CONFIG_FILE
    if config.exists():
        raise MigrationError(f"Failed to create file {config}: there is one already, and it is kept")
    said = [f"Creating new migrations project at {root}"]
    try:
        for folder in (root, root / FOLDER):
            if not folder.is_dir():
                said.append(f"Creating directory: {folder}")
                folder.mkdir(parents=True)
        said.append(f"Creating file: {config}")
        lines = [f"{URL}={url}", *(f"#{name}={value}" for name, value in _OPTIONAL.items())]
        said += [f"Writing to config file: {URL}={url}"]
        config.write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise MigrationError(f"The project cannot be created: {error}") from None
    return [*said, "Migrations project directory created successfully"]


def migration_files(folder: Path) -> tuple[list[MigrationFile], list[str]]:
    """Return the files in the order of their versions, and lines about others; raises MigrationError."""
    try:
        paths = sorted(each for each in folder.iterdir() if each.is_file())
    except OSError as error:
        raise MigrationError(f"The migrations directory {folder} cannot be read: {error.strerror}") from None
    found: dict[int, MigrationFile] = {}
    said = []
    for path in paths:
        match = _FILE.fullmatch(path.name)
        if match is None:
            said.append(f"Skipping file that does not match V<six digit version>__<name>.sql: {path}")
            continue
        version = int(match[1])
        if version == 0:
            raise MigrationError(f"{path}: versions begin with 1")
        if version in found:
            raise MigrationError(
                f"Found multiple migration files with version {version}: {found[version].path}, {path}"
            )
        found[version] = _read(version, match[2], path)
    return [found[version] for version in sorted(found)], said


def _read(version: int, name: str, path: Path) -> MigrationFile:
    try:
        data = path.read_bytes()
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise MigrationError(f"Migration file {path} cannot be read: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise MigrationError(f"Migration file {path} is longer than {FILE_BYTES_MAX} bytes")
    checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return MigrationFile(version, name.replace("_", " "), path, text, checksum)


def create_file(folder: Path, description: str, version: int | None) -> Path:
    """Make an empty file for a new migration, the next version where none is named; raises MigrationError."""
    files, _ = migration_files(folder)
    if version is None:
        version = max((each.version for each in files), default=0) + 1
    if not 1 <= version <= VERSION_MAX:
        raise MigrationError(f"Invalid migration version {version}: from 1 to {VERSION_MAX}")
    if not description.strip() or "/" in description or "\0" in description:
        raise MigrationError("A migration needs a description that can be part of a file's name")
    taken = next((each for each in files if each.version == version), None)
    if taken is not None:
        raise MigrationError(f"Found an existing migrations file with version {version}: {taken.path}")
    path = folder / f"V{version:06}__{description.strip().replace(' ', '_')}.sql"
    try:
        with path.open("x"):
            pass
    except OSError as error:
        raise MigrationError(f"Failed to create migration file {path}: {error.strerror}") from None
    return path

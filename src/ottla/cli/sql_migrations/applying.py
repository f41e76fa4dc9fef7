"""Which files are applied, in what order, and what stands against it; and a file's statements carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.cli.sql_migrations.metadata import CURRENT, ERROR, MIGRATED, NONE, RUNNING, Applied, Metadata
from ottla.cli.sql_migrations.project import MigrationError, MigrationFile
from ottla.cli.sql_shell.client import ServerError, SqlClient

if TYPE_CHECKING:
    from ottla.sql import StatementText

__all__ = [
    "Wanted",
    "apply_file",
    "check_applied",
    "check_not_running",
    "checked_statements",
    "latest_version",
    "to_apply",
]

REASON_CHARACTERS_MAX = 2000
"""Of an error that is kept with a version."""
REFUSED = ("SELECT", "PRINT", "LIST", "SHOW", "DESCRIBE", "EXPLAIN", "RUN")
"""First words of statements that change nothing, and answer what nobody would read."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `apply` is asked for: every file, the next, those up to a version, or one version alone."""

    every: bool = False
    next: bool = False
    until: int | None = None
    version: int | None = None


# -- what has been applied


def latest_version(versions: Mapping[str, Applied]) -> str:
    """Return the version up to which all is migrated: the latest, or the one before where that failed; `<none>` at first."""
    current = versions.get(CURRENT)
    if current is None:
        return NONE
    return current.version if current.state == MIGRATED else current.previous


def check_not_running(versions: Mapping[str, Applied]) -> None:
    """Raise MigrationError where another is at work, or one that was killed has left its mark."""
    current = versions.get(CURRENT)
    if current is not None and current.state == RUNNING:
        raise MigrationError(
            f"There is already a migration in progress: version {current.version}. Where nobody runs it any more, "
            f"insert it into the metadata stream as {ERROR}, under its version and under {CURRENT}"
        )


def check_applied(versions: Mapping[str, Applied], files: Sequence[MigrationFile]) -> None:
    """Follow what was applied back to the first; raises MigrationError for a version that is not as its file is."""
    local = {str(each.version): each for each in files}
    version, seen = latest_version(versions), set[str]()
    while version != NONE:
        applied = versions.get(version)
        if applied is None:
            raise MigrationError(f"Migration version {version} was applied, and the metadata table does not tell it")
        if version in seen:
            raise MigrationError(f"Migration version {version} stands before itself in the metadata")
        seen.add(version)
        if applied.state != MIGRATED:
            raise MigrationError(f"Discovered version with previous status that is not {MIGRATED}: version {version}")
        file = local.get(version)
        if file is None:
            raise MigrationError(f"No migrations file found for version that is already applied: {version}")
        if file.checksum != applied.checksum:
            raise MigrationError(
                f"Migrations file found for version {version} does not match the checksum saved for this version: "
                f"{file.path} has {file.checksum}, and what was applied had {applied.checksum}"
            )
        version = applied.previous


# -- what is applied next


def to_apply(wanted: Wanted, versions: Mapping[str, Applied], files: Sequence[MigrationFile]) -> list[MigrationFile]:
    """Return the files to apply, in order; raises MigrationError for versions that are not there, or were applied."""
    latest = latest_version(versions)
    done = 0 if latest == NONE else int(latest)
    left = [each for each in files if each.version > done]
    named = wanted.version if wanted.version is not None else wanted.until
    if named is not None:
        if named <= done:
            raise MigrationError(f"Version {named} is not newer than the latest applied version, {done}")
        if all(each.version != named for each in files):
            raise MigrationError(f"No migrations file found for version {named}")
    if wanted.version is not None:
        return [each for each in left if each.version == named]
    if named is not None:
        return [each for each in left if each.version <= named]
    return left[:1] if wanted.next else left


def checked_statements(file: MigrationFile) -> list[StatementText]:
    """Return a file's statements; raises MigrationError where one is none, or has no place in a migration."""
    from ottla.sql import SqlError, split_statements

    try:
        found = split_statements(file.text)
    except SqlError as error:
        raise MigrationError(f"Failed to parse migration file {file.path}: {error}") from None
    for each in found:
        first = each.first_word
        if first in REFUSED:
            raise MigrationError(
                f"'{first}' statements are not supported in migrations: {file.path}: {each.text.strip()}"
            )
    return found


def apply_file(
    client: SqlClient,
    metadata: Metadata,
    file: MigrationFile,
    previous: str,
    variables: Mapping[str, str],
    now_ms: Callable[[], int],
) -> None:
    """Apply one file, and tell how that went.

    Raises MigrationError where a statement is refused: those before it stay, and the version is left as ERROR.
    """
    statements = checked_statements(file)
    applied = Applied(str(file.version), file.name, RUNNING, file.checksum, str(now_ms()), previous=previous)
    metadata.write(applied)
    client.properties, client.variables = {}, dict(variables)
    try:
        for each in statements:
            _carry_out(client, each.text.strip())
    except (ServerError, KeyboardInterrupt) as error:
        reason = str(error) or "interrupted"
        metadata.write(applied.ended(ERROR, now_ms(), reason[:REASON_CHARACTERS_MAX]))
        raise MigrationError(f"Failed to execute {file.path}: {reason}") from None
    metadata.write(applied.ended(MIGRATED, now_ms()))


def _carry_out(client: SqlClient, text: str) -> None:
    """Carry one statement out: those of the session here, all others by the server. Raises ServerError."""
    from ottla.sql import SqlError, parse_statement, substituted
    from ottla.sql.tree import statements as s

    try:
        shown = substituted(text, client.variables)
        statement = parse_statement(shown) if shown.split(None, 1)[0].upper() in _SESSION else None
    except SqlError as error:
        raise ServerError(f"{error}\nStatement: {text}") from None
    match statement:
        case s.SetProperty(name, value, system=False):
            client.is_valid_property(name)
            client.properties[name] = value
        case s.UnsetProperty(name):
            client.properties.pop(name, None)
        case s.DefineVariable(name, value):
            client.variables[name] = value
        case s.UndefineVariable(name):
            client.variables.pop(name, None)
        case _:
            try:
                client.execute(shown)
            except ServerError as error:
                raise ServerError(f"{error}\nStatement: {shown}") from None


_SESSION = frozenset({"SET", "UNSET", "DEFINE", "UNDEFINE"})

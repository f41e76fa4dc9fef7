"""`ottla sql migrations`: files applied once, in order, with ksqlDB's names, states and checksums."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.cli.sql_migrations.applying import Wanted, check_applied, check_not_running, latest_version, to_apply
from ottla.cli.sql_migrations.metadata import ERROR, MIGRATED, NONE, RUNNING, Applied
from ottla.cli.sql_migrations.project import MigrationError, MigrationFile, create_file, migration_files
from tests.sql_server.running import SqlProcess


def applied(version: int, state: str = MIGRATED, previous: str = NONE) -> Applied:
    return Applied(str(version), "x", state, f"sum{version}", "1", previous=previous)


def file(version: int) -> MigrationFile:
    return MigrationFile(version, "x", Path(f"V{version:06}__x.sql"), "", f"sum{version}")


FILES = [file(1), file(2), file(3), file(5)]
AFTER_2 = {"1": applied(1), "2": applied(2, previous="1"), "CURRENT": applied(2, previous="1")}


@pytest.mark.parametrize(
    ("wanted", "versions"),
    [
        (Wanted(every=True), [3, 5]),
        (Wanted(next=True), [3]),
        (Wanted(until=3), [3]),
        (Wanted(until=5), [3, 5]),
        (Wanted(version=5), [5]),
    ],
)
def test_only_files_behind_the_latest_version_are_applied(wanted: Wanted, versions: list[int]) -> None:
    assert [each.version for each in to_apply(wanted, AFTER_2, FILES)] == versions


@pytest.mark.parametrize(
    ("wanted", "said"), [(Wanted(version=2), "not newer"), (Wanted(until=4), "No migrations file found for version 4")]
)
def test_a_version_that_was_applied_or_has_no_file_is_refused(wanted: Wanted, said: str) -> None:
    with pytest.raises(MigrationError, match=said):
        to_apply(wanted, AFTER_2, FILES)


def test_a_version_that_failed_is_the_next_again() -> None:
    versions = AFTER_2 | {"3": applied(3, ERROR, "2"), "CURRENT": applied(3, ERROR, "2")}
    assert latest_version(versions) == "2"
    check_applied(versions, FILES)
    assert [each.version for each in to_apply(Wanted(next=True), versions, FILES)] == [3]


def test_a_version_that_runs_keeps_others_out() -> None:
    with pytest.raises(MigrationError, match="already a migration in progress"):
        check_not_running({"CURRENT": applied(1, RUNNING)})


@pytest.mark.parametrize(
    ("versions", "files", "said"),
    [
        (AFTER_2, [file(2)], "No migrations file found for version that is already applied: 1"),
        (AFTER_2 | {"1": applied(1, ERROR)}, FILES, "not MIGRATED: version 1"),
        ({"2": AFTER_2["2"], "CURRENT": AFTER_2["2"]}, FILES, "version 1 was applied"),
        (AFTER_2 | {"1": applied(1, previous="2")}, FILES, "stands before itself"),
    ],
)
def test_a_history_that_does_not_lead_back_to_the_first_is_refused(
    versions: Mapping[str, Applied], files: list[MigrationFile], said: str
) -> None:
    with pytest.raises(MigrationError, match=said):
        check_applied(versions, files)


def test_files_are_found_by_their_names_in_the_order_of_versions(tmp_path: Path) -> None:
    (tmp_path / "V000010__Add_users.sql").write_text("DROP STREAM s;")
    (tmp_path / "V000002__b.sql").write_text("")
    (tmp_path / "notes.txt").write_text("")
    files, said = migration_files(tmp_path)
    assert [(each.version, each.name) for each in files] == [(2, "b"), (10, "Add users")]
    assert files[1].checksum == hashlib.md5(b"DROP STREAM s;").hexdigest()
    assert len(said) == 1
    assert create_file(tmp_path, "and more", None).name == "V000011__and_more.sql"
    with pytest.raises(MigrationError, match="existing migrations file with version 2"):
        create_file(tmp_path, "x", 2)
    with pytest.raises(MigrationError, match="part of a file's name"):
        create_file(tmp_path, "../x", None)
    (tmp_path / "V000002__c.sql").write_text("")
    with pytest.raises(MigrationError, match="multiple migration files with version 2"):
        migration_files(tmp_path)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["apply", "-c", "f"], "takes one of --all"),
        (["apply", "-c", "f", "--all", "--next"], "takes one of --all"),
        (["info"], "config file required"),
        (["info", "-c", "f", "--dry-run"], "info takes no --dry-run"),
        (["create", "-c", "f"], "a DESCRIPTION"),
        (["new-project", "x"], "PATH and URL"),
    ],
)
def test_options_that_make_no_sense_are_refused(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", ["migrations", *args]) == 1
    assert said in "".join(capsys.readouterr())


class ProjectHere:
    """A project over a server, whose names are this test's own."""

    def __init__(self, sql: SqlProcess, root: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.config = root / "ksql-migrations.properties"
        assert run("sql", ["migrations", "new-project", str(root), sql.url]) == 0
        with self.config.open("a") as file:
            file.write(f"ksql.migrations.stream.name={name}_EVENTS\nksql.migrations.table.name={name}_VERSIONS\n")
        self.migrations = root / "migrations"

    def file(self, version: int, text: str) -> Path:
        path = self.migrations / f"V{version:06}__v{version}.sql"
        path.write_text(text)
        return path

    def run(self, *args: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = run("sql", ["migrations", "--config-file", str(self.config), *args])
        return code, "".join(self._capsys.readouterr())


@pytest.fixture
def project(sql: SqlProcess, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> ProjectHere:
    return ProjectHere(sql, tmp_path / "p", name, capsys)


def streams(sql: SqlProcess) -> set[str]:
    return {each["name"] for each in sql.ksql("LIST STREAMS;")[0]["streams"]}


def test_a_projects_life(sql: SqlProcess, project: ProjectHere, name: str) -> None:
    assert "not initialized" in project.run("info")[1]
    code, said = project.run("initialize-metadata")
    assert (code, f"Creating table: {name}_VERSIONS" in said) == (0, True), said
    assert "already" in project.run("initialize-metadata")[1]

    project.file(
        1,
        "DEFINE parts='1'; SET 'auto.offset.reset'='earliest';\n"
        f"CREATE STREAM {name} (k STRING KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=${{parts}});",
    )
    second = project.file(2, f"CREATE STREAM {name}_B AS SELECT * FROM {name} WHERE v > ${{least}}; -- 'it''s'\n")
    code, said = project.run("apply", "--next", "--dry-run")
    assert (code, "Applying migration version 1: v1" in said, "Dry run complete" in said) == (0, True, True), said
    assert name not in streams(sql)
    code, said = project.run("apply", "--all", "-d", "least=3")
    assert (code, said.count("Successfully migrated")) == (0, 2), said
    assert {name, f"{name}_B"} <= streams(sql)
    project.file(3, "")
    code, said = project.run("info")
    assert "Current migration version: 2" in said
    states = [[cell.strip() for cell in line.split("|")][:4] for line in said.splitlines() if " | " in line][1:]
    assert states == [
        ["1", "v1", "MIGRATED", "<none>"],
        ["2", "v2", "MIGRATED", "1"],
        ["3", "v3", "PENDING", "N/A"],
    ]
    assert project.run("validate")[0] == 0
    assert sql.rows(f"SELECT checksum FROM {name}_VERSIONS WHERE version_key='CURRENT';") == [
        [hashlib.md5(second.read_bytes()).hexdigest()]
    ]
    second.write_text("DROP STREAM x;")
    code, said = project.run("validate")
    assert (code, "does not match the checksum" in said) == (1, True)
    assert project.run("apply", "--all")[0] == 1
    code, said = project.run("destroy-metadata")
    assert (code, f"Terminating query with ID: CTAS_{name}_VERSIONS" in said) == (0, True), said
    assert f"{name}_EVENTS" not in streams(sql)


def test_a_file_that_fails_is_told_and_can_be_mended(sql: SqlProcess, project: ProjectHere, name: str) -> None:
    project.run("initialize-metadata")
    project.file(1, f"CREATE TYPE {name}_T AS STRUCT<a INT>; DROP STREAM it_is_not_there;")
    code, said = project.run("apply", "-a")
    assert (code, "IT_IS_NOT_THERE does not exist" in said) == (1, True), said
    assert "ERROR" in project.run("info")[1]
    project.file(1, "SELECT * FROM x EMIT CHANGES;")
    code, said = project.run("apply", "-a")
    assert (code, "'SELECT' statements are not supported" in said) == (1, True), said
    project.file(1, f"CREATE STREAM {name} (v {name}_T) WITH (kafka_topic='{name}', format='JSON', partitions=1);")
    assert project.run("apply", "-a")[0] == 0
    assert "No eligible migrations found." in project.run("apply", "-a")[1]


def test_ksqldbs_script_runs_it_and_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    def script(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla.cli.scripts", "ksql-migrations", *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert script("new-project", str(tmp_path / "p"), "http://127.0.0.1:1").returncode == 0
    assert script("new-project", str(tmp_path / "p"), "http://127.0.0.1:1").returncode == 1
    done = script("-c", str(tmp_path / "p" / "ksql-migrations.properties"), "info")
    assert (done.returncode, "does not answer" in done.stdout) == (1, True)

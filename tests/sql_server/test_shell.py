"""`ottla sql`: statements of a line, a file and a prompt; the tutorial and the examples, every statement of them."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.cli.commands.home import HOME
from ottla.cli.sql_shell.client import ServerError, SqlClient
from ottla.cli.sql_shell.shell import Session, UsageMistake
from ottla.cli.sql_shell.tables import Table, grid
from tests.server import Server
from tests.sql_server.running import SqlProcess, running_sql

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples" / "sql").glob("*.sql"))


def shell(sql: SqlProcess, *options: str, typed: str | None = None) -> tuple[int, str]:
    """Return the exit code, and all that was printed."""
    command = [sys.executable, "-m", "ottla.cli.main", "sql", sql.url, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, input=typed, check=False)
    return done.returncode, done.stdout + done.stderr


def test_ksqldbs_script_is_the_prompt(sql: SqlProcess) -> None:
    command = [str(HOME / "bin" / "ksql.sh"), sql.url, "-e", "LIST PROPERTIES;", "--output", "json"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert "ksql.service.id" in done.stdout


def test_statements_of_a_line_are_shown_as_tables_or_json(sql: SqlProcess, name: str) -> None:
    made = f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
    code, said = shell(sql, "-e", f"{made} DESCRIBE ${{it}};", "-d", f"it={name}")
    assert code == 0, said
    assert "Stream created" in said
    assert re.search(r"V +\| INTEGER", said)
    code, said = shell(sql, "-e", "LIST STREAMS;", "--output", "json")
    assert code == 0
    assert '"@type": "streams"' in said


def test_a_refusal_ends_it_with_one_and_its_words(sql: SqlProcess) -> None:
    code, said = shell(sql, "-e", "DROP STREAM nothing; LIST STREAMS;")
    assert code == 1
    assert "NOTHING does not exist" in said
    assert "Stream Name" not in said
    code, said = shell(sql, "-e", "LIST NOTHING;")
    assert (code, "line 1:6" in said) == (1, True)


def test_statements_are_taken_from_a_pipe_over_several_lines(sql: SqlProcess) -> None:
    code, said = shell(sql, typed="LIST\n  TYPES;\nversion\n")
    assert code == 0, said
    assert "Type Name" in said
    assert "Version: " in said
    assert shell(sql, typed="LIST TYPES")[0] == 1


def test_a_server_that_is_not_there_is_told(sql: SqlProcess) -> None:
    session = Session(SqlClient("http://127.0.0.1:1"))
    with pytest.raises(ServerError, match="does not answer"):
        session.run("LIST STREAMS;")


def on_terminal(sql: SqlProcess, typed: str, home: Path) -> tuple[int, str]:
    """Type into `ottla sql` on a terminal of its own; returns the exit code, and all that was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli.main", "sql", sql.url]
    environment = {**os.environ, "XDG_STATE_HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, typed.encode())
    shown, until, readable = b"", time.monotonic() + 100, select.poll()
    readable.register(ours, select.POLLIN)
    with suppress(OSError):  # when the terminal's other end is closed
        while time.monotonic() < until:
            if readable.poll(1000):
                shown += os.read(ours, 65536)
    if time.monotonic() >= until:
        process.kill()
    code = process.wait()
    os.close(ours)
    return code, shown.decode(errors="replace")


def test_the_prompt_takes_statements_commands_and_ends(sql: SqlProcess, tmp_path: Path) -> None:
    typed = "LIST\rTYPES;\routput JSON\rSET 'auto.offset.reset'='earliest';\rnonsense;\rhistory\rexit\r"
    code, said = on_terminal(sql, typed, tmp_path)
    assert code == 0, said
    assert "Type Name" in said
    assert "Current output format: JSON" in said
    assert "Successfully changed local property 'auto.offset.reset'" in said
    assert "Syntax Error" in said
    assert "   1  LIST TYPES;" in said
    assert "LIST" in next(tmp_path.rglob("*history*")).read_text()


def test_a_property_that_the_server_does_not_take_is_refused_at_once(sql: SqlProcess) -> None:
    session = Session(SqlClient(sql.url))
    with pytest.raises(ServerError, match="prohibited"):
        session.run("SET 'ksql.service.id' = 'other';")
    with pytest.raises(UsageMistake, match="TABULAR or JSON"):
        session.own("output xml")


def test_what_is_shown_is_copied_where_spool_says(sql: SqlProcess, tmp_path: Path) -> None:
    session = Session(SqlClient(sql.url))
    session.own(f"spool {tmp_path / 'copy'}")
    session.run("LIST TYPES;")
    session.own("spool off")
    session.run("LIST STREAMS;")
    copied = (tmp_path / "copy").read_text()
    assert "Type Name" in copied
    assert "Stream Name" not in copied


def test_tables_fit_the_width() -> None:
    shown = grid(["A", "Long"], [["1", "x" * 200], ["2", "y"]], 40)
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.count("x") == 200
    table = Table(["A", "B"], 21)
    assert table.row([None, {"K": [True, 1]}]) == "|null     |{K=[true,|\n|         | 1]}     |"
    assert table.line() == "+---------+---------+"


def test_every_statement_of_the_tutorial_runs(broker: Server, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "sql-tutorial.md").read_text()
    file = tmp_path / "tutorial.sql"
    file.write_text("\n".join(re.findall(r"```sql\n(.*?)```", text, re.DOTALL)))
    with running_sql(broker.bootstrap, overrides=("ksql.service.id=tutorial_",)) as sql:
        code, said = shell(sql, "-f", str(file))
    assert code == 0, said
    for row in (r"o2 +\|pear +\|1\.60", r"pear +\|1 +\|2", r"o2 +\|0\.60"):
        assert re.search(row, said), said


@pytest.fixture(scope="module")
def examples(broker: Server) -> object:
    with running_sql(broker.bootstrap, overrides=("ksql.service.id=examples_",)) as found:
        yield found


@pytest.mark.parametrize("path", EXAMPLES, ids=[each.stem for each in EXAMPLES])
def test_examples_give_the_rows_that_they_promise(examples: SqlProcess, path: Path) -> None:
    code, said = shell(examples, "-f", str(path))
    assert code == 0, said
    promised = re.findall(r"^-- => (.*)$", path.read_text(), re.MULTILINE)
    assert promised
    for row in promised:
        assert re.search(r" *\|".join(map(re.escape, row.split())), said), said


def test_there_are_eight_examples() -> None:
    assert len(EXAMPLES) == 8

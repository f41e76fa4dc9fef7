"""A history on a real database with two captures of it, in columns and in rows; what they tell is compared with the tables.

What a capture refuses, it refuses by name: a warning or an error of the connector that names the table takes the table out
of the comparison, and nothing else does. A capture that ends is a fault, whatever its message says.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ottla.connect import SourceColumns, SourceRecord
from ottla.connect.converters import JsonConverter
from tests.connectors.contexts import SourceContext, Store
from tests.fuzz_capture.history import History, Step
from tests.fuzz_capture.model import Model, Table, Topic, differences

__all__ = ["Capture", "Fault", "Run", "Session", "Side"]

PATIENCE_SECONDS = 60.0
"""How long the end of what was committed may take to be told."""
DDL = re.compile(r"\b(alter|create|drop|rename|truncate)\b", re.IGNORECASE)
KILLS = ("before-produce", "before-offsets", "after-offsets")
_ENDS = "ends_"


class Fault(Exception):
    """Something that a capture tells wrongly, or not at all."""


class Session(Protocol):
    """A connection to the server under test."""

    def run(self, text: str) -> bool:
        """Run a statement; false where the server refuses it, which is no fault."""

    def close(self) -> None:
        """Close it."""


class Side(Protocol):
    """A kind of server."""

    name: str
    patient_errors: tuple[type[BaseException], ...]

    def new_database(self) -> str:
        """Make an empty one."""

    def session(self, database: str) -> Session:
        """Connect."""

    def tables(self, database: str) -> Sequence[Table]:
        """Return all tables that are captured, with their rows as `values.told` has them."""

    def task(self, database: str, name: str, folder: Path, more: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
        """Return a capture that has not begun, and its settings."""

    def restart(self, *, hard: bool) -> None:
        """Stop the server, or kill it, and start it again."""

    def retain(self, database: str) -> None:
        """Have the server forget what it may."""

    def let_go(self, database: str, names: Sequence[str]) -> None:
        """Remove what captures have left on the server, and the database."""


BEFOREHAND = "what foreign keys change in it"


class Named(logging.Handler):
    """Texts of the connector's warnings: who refuses a table says so there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a text, but for what is only said beforehand: a table counts as named once foreign keys have changed it."""
        if BEFOREHAND not in (text := record.getMessage()):
            self.texts.append(text)

    def names(self, table: str) -> bool:
        """Whether a text names a table, with what it stands in."""
        word = re.compile(rf"""[\w`"]+\.[`"]?{re.escape(table)}\b""")
        return any(word.search(each) for each in self.texts)


class Capture:
    """A connector's task and the reader of its topics."""

    def __init__(self, side: Side, database: str, name: str, folder: Path, more: Mapping[str, str]) -> None:
        self.side, self.database, self.name, self.folder = side, database, name, folder
        self.more, self.store, self.model = more, Store(), Model(name)
        self.takes_columns = name.endswith("c")
        self.said: list[tuple[str, str]] = []
        """Each record as JSON: by topic, key and what is behind it."""
        self.task: Any = None

    def begin(self) -> None:
        """Begin, or begin again where the offsets say."""
        self.task, props = self.side.task(self.database, self.name, self.folder, self.more)
        context = SourceContext(self.store, props)
        context.takes_columns = self.takes_columns
        self.task.context = context
        self._guarded("begin", lambda: self.task.start(props))

    def poll(self, kill: str = "") -> int:
        """Take what there is; ends as a process that is killed at a place. Returns how many records there were."""
        found = self._guarded("poll", self.task.poll) or []
        records: list[SourceRecord] = []
        for each in [found] if isinstance(found, SourceColumns) else found:
            rows = each.records() if isinstance(each, SourceColumns) else [each]
            if isinstance(each, SourceColumns):
                self._same_as_rows(each, rows)
            records += rows
        if kill != "before-produce":
            self._guarded("what is told cannot be read: it", lambda: self.model.take(records))
            if kill != "before-offsets":
                self.store.take(records)
                self._guarded("commit", self.task.commit)
        return len(records)

    def kill(self, place: str) -> None:
        """Poll once, lose what a kill at that place loses, and begin again."""
        self.poll(place)
        self.stop()
        self.begin()

    def stop(self) -> None:
        """End."""
        if self.task is not None:
            self.task.stop()
            self.task = None

    def _guarded(self, what: str, call: Any) -> Any:
        try:
            return call()
        except Exception as error:  # whatever ends a capture is a fault
            raise Fault(f"{self.name}: {what} ended the capture: {type(error).__name__}: {error}") from error

    def _same_as_rows(self, columns: SourceColumns, rows: Sequence[SourceRecord]) -> None:
        """Compare what the converter makes of columns with what it makes of each row."""
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        made = converter.columns_from_connect(columns.topic, columns.schema, columns.values)
        if made is None:
            return
        for found, row in zip(made.to_pylist(), rows, strict=True):
            one = converter.from_connect(columns.topic, row.value_schema, row.value)
            found = found.encode() if isinstance(found, str) else found
            if found != one:
                raise Fault(f"{self.name}: in columns {found!r:.300}, by rows {one!r:.300}")


@dataclass
class Run:
    """One history under way: statements as they come, then the comparison."""

    side: Side
    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)
    done: list[Step] = field(default_factory=list)
    begin_at: int = 0

    def __post_init__(self) -> None:
        self.database = self.side.new_database()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sessions: dict[str, Session] = {}
        self.captures: list[Capture] = []
        self.ddl: dict[str, int] = {}
        self.refused = Named()
        self._fresh = 0
        self.checks = 0
        logger = logging.getLogger("ottla.connectors.cdc")
        logger.addHandler(self.refused)
        logger.propagate = False
        self.run(f"create table {_ENDS} (id int primary key, n_ bigint)", keep=False)

    # -- steps

    def take(self, step: Step) -> bool:
        """Do a step; returns whether the server took it. Raises Fault."""
        self.done.append(step)
        match step.kind:
            case "sql":
                return self.run(step.text, step.session)
            case "poll":
                for each in self.captures:
                    each.poll()
            case "kill":
                for each in self.captures:
                    each.kill(step.text)
                self._forget_loose()
            case "check":
                self.check()
            case "restart":
                self._restart(hard=step.text == "hard")
            case "retain":
                self._end_transactions()
                self.catch_up()
                self.side.retain(self.database)
            case "snapshot":
                self._ask(step.text)
        return True

    def run(self, text: str, session: str = "a", *, keep: bool = True) -> bool:
        """Run a statement of a session; returns whether the server took it."""
        if session not in self.sessions:
            self.sessions[session] = self.side.session(self.database)
        number = len(self.done)
        if keep and DDL.search(text):
            self._touch(text, number)
        return self.sessions[session].run(text.replace("{db}", self.database).replace("{n}", str(number)))

    def _touch(self, text: str, number: int) -> None:
        for word in re.findall(r"\w+", text):
            self.ddl[word.lower()] = number

    def begin(self) -> None:
        """Begin both captures, behind what was committed."""
        self._end_transactions()
        self.begin_at = len(self.done)
        for kind in "cr":
            capture = Capture(self.side, self.database, f"x{kind}", self.folder, self.more)
            self.captures.append(capture)
            capture.begin()

    def _end_transactions(self) -> None:
        for each in self.sessions.values():
            each.run("rollback")

    def _restart(self, *, hard: bool) -> None:
        for each in self.captures:
            each.stop()
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        self.side.restart(hard=hard)
        self._forget_loose()
        for each in self.captures:
            each.begin()

    def _forget_loose(self) -> None:
        """Compare no older rows of tables without a key: some may be told once more, which cannot be told apart."""
        for each in self.captures:
            self.ddl |= {name.lower(): len(self.done) for name, topic in each.model.topics.items() if topic.loose}

    def _ask(self, tables: str) -> None:
        names = ", ".join(f'"{self.side.signal_name(self.database, each)}"' for each in tables.split(","))  # type: ignore[attr-defined]
        self.run(
            f"insert into signals values ('s{len(self.done)}', 'execute-snapshot', "
            f"""'{{"data-collections": [{names}]}}')""",
            "signals",
            keep=False,
        )

    # -- comparisons

    def catch_up(self) -> None:
        """Poll until a row that was committed now is told by both captures; raises Fault where that takes too long."""
        self.checks += 1
        mark = self.checks
        if not self.run(f"insert into {_ENDS} values ({mark}, {len(self.done)})", "ends", keep=False):
            raise AssertionError("the mark could not be written")
        until = time.monotonic() + PATIENCE_SECONDS
        for each in self.captures:
            while str(mark) not in each.model.ends and not self.is_over:
                each.poll()
                if time.monotonic() > until:
                    raise Fault(
                        f"{each.name}: the mark {mark} was not told in {PATIENCE_SECONDS:.0f} s: {self.refused.texts[-3:]}"
                    )

    @property
    def is_over(self) -> bool:
        """Whether all tables are refused, those of the machine among them: nothing can be compared."""
        return self.refused.names(_ENDS)

    def check(self) -> None:
        """Compare what is told with what is there; raises Fault."""
        self._end_transactions()
        self.catch_up()
        if self.is_over:
            return
        tables = self.side.tables(self.database)
        for each in self.captures:
            self._compare(each, tables, self.ddl)
        self._rows_equal_columns()

    def _rows_equal_columns(self) -> None:
        columns, rows = (each.model.topics for each in self.captures)
        for name in columns.keys() | rows.keys():
            if self.refused.names(name):
                continue
            since = self.ddl.get(name.lower(), 0)
            left, right = (each.get(name, Topic()).since(since) for each in (columns, rows))
            if sorted(map(repr, left)) != sorted(map(repr, right)):
                other = [each for each in left if each not in right] + [each for each in right if each not in left]
                raise Fault(f"{name}: columns and rows tell different things: {other[:2]!r:.500}")

    def _compare(self, capture: Capture, tables: Sequence[Table], since: Mapping[str, int]) -> None:
        for table in tables:
            if self.refused.names(table.name) or table.name in (_ENDS, "signals"):
                continue
            topic = capture.model.topics.get(table.name, Topic())
            if found := differences(table, topic, since.get(table.name.lower(), 0)):
                raise Fault(f"{capture.name}: {'; '.join(found)}")

    def finish(self) -> None:
        """Compare at the end, then with a snapshot that begins now; raises Fault."""
        self._end_transactions()
        for table in self.side.tables(self.database):
            if "n_" in table.columns and table.name not in (_ENDS, "signals"):
                self.run(f"update {self.side.quoted(table.name)} set n_ = {len(self.done)}", "ends", keep=False)  # type: ignore[attr-defined]
        self.check()
        if self.is_over:
            return
        tables = self.side.tables(self.database)
        for kind in "cr":
            fresh = Capture(self.side, self.database, f"f{kind}", self.folder, self.more)
            self.captures.append(fresh)
            fresh.begin()
        self.catch_up()
        for each in self.captures[2:]:
            self._compare(each, tables, {})

    def close(self) -> None:
        """Take all away."""
        logging.getLogger("ottla.connectors.cdc").removeHandler(self.refused)
        for capture in self.captures:
            with contextlib.suppress(Exception):  # it has failed, perhaps, and is thrown away
                capture.stop()
        for session in self.sessions.values():
            session.close()
        self.side.let_go(self.database, [each.name for each in self.captures])


@contextlib.contextmanager
def running(side: Side, folder: Path, more: Mapping[str, str]) -> Iterator[Run]:
    """A run that is taken away at its end."""
    run = Run(side, folder, more)
    try:
        yield run
    finally:
        run.close()


def replayed(side: Side, history: History, folder: Path, more: Mapping[str, str]) -> str | None:
    """Do a history again; returns what fails, None where nothing does."""
    try:
        with running(side, folder, more) as run:
            for step in history.steps[: history.begin]:
                run.take(step)
            run.begin()
            for step in history.steps[history.begin :]:
                run.take(step)
            run.finish()
    except Fault as fault:
        return str(fault)
    return None

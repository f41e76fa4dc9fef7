"""A session: statements in, answers out; what belongs to the session itself never reaches the server."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ottla.base import ExactDecoder
from ottla.cli.sql_shell.answers import as_json, as_text
from ottla.cli.sql_shell.client import ServerError, SqlClient
from ottla.cli.sql_shell.tables import Table

__all__ = ["Limits", "Session", "UsageMistake"]

FORMS = ("TABULAR", "JSON")
WIDTH_DEFAULT = 120
HELP = """\
Statements end in a semicolon and go to the server. These are the prompt's own:
  help                          this
  exit, quit                    end
  clear                         clear the screen
  history                       what was typed before
  output [TABULAR|JSON]         how answers are shown
  server [URL]                  which server is asked
  version                       the server's version
  run script 'FILE'             carry out the statements of a file
  set cli WRAP ON|OFF           whether long values go on in the next line
  set cli COLUMN-WIDTH N        how wide columns of queries are; 0 shares the terminal
  spool FILE | spool off        copy what is shown to a file, too
Ctrl-C ends a query, Ctrl-D the prompt."""


class UsageMistake(Exception):
    """A command of the prompt that means nothing."""


@dataclass(slots=True)
class Limits:
    """When a push query is ended by the prompt: after so many rows, or seconds; None never."""

    rows: int | None = None
    seconds: float | None = None


class Session:
    """Carries out what is typed; `out` is where answers go."""

    def __init__(self, client: SqlClient, *, output: str = "TABULAR", limits: Limits | None = None) -> None:
        self.client = client
        self.output = output
        self.limits = limits or Limits()
        self.history: list[str] = []
        self._column_width, self._wraps = 0, True
        self._spool: TextIO | None = None

    def close(self) -> None:
        """Close what is copied to."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    @property
    def width(self) -> int:
        """The terminal's width."""
        return shutil.get_terminal_size((WIDTH_DEFAULT, 24)).columns

    def say(self, text: str) -> None:
        """Show a text."""
        print(text, flush=True)
        if self._spool is not None:
            self._spool.write(f"{text}\n")
            self._spool.flush()

    # -- what is typed

    def is_own(self, line: str) -> bool:
        """Whether a line is a command of the prompt's, which needs no semicolon."""
        words = line.strip().rstrip(";").lower().split()
        if not words:
            return False
        own = {"help", "exit", "quit", "clear", "history", "output", "server", "version", "spool"}
        return words[0] in own or words[:2] in (["run", "script"], ["set", "cli"], ["request", "pipelining"])

    def own(self, line: str) -> bool:
        """Carry a command of the prompt's out; returns whether the session goes on. Raises UsageMistake, ServerError."""
        text = line.strip().rstrip(";").strip()
        words = text.split()
        name, rest = words[0].lower(), words[1:]
        match name:
            case "exit" | "quit":
                return False
            case "help":
                self.say(HELP)
            case "clear":
                print("\033[2J\033[H", end="", flush=True)
            case "history":
                self.say("\n".join(f"{number:4}  {each}" for number, each in enumerate(self.history, 1)))
            case "version":
                self.say(f"Version: {self.client.info()['version']}")
            case "output":
                self._set_output(rest)
            case "server":
                self._set_server(rest)
            case "spool":
                self._set_spool(rest)
            case "run":
                self.run_file(text.split(None, 2)[2].strip("'\""))
            case "request":
                self.say("request pipelining: OFF; each statement waits for the one before it")
            case _:
                self._set_cli(rest[1:])
        return True

    def _set_output(self, rest: list[str]) -> None:
        if rest:
            if rest[0].upper() not in FORMS:
                raise UsageMistake(f"Invalid output format: {rest[0]}; TABULAR or JSON")
            self.output = rest[0].upper()
        self.say(f"Current output format: {self.output}")

    def _set_server(self, rest: list[str]) -> None:
        if rest:
            self.client.url = rest[0].rstrip("/")
            self.client.info()
        self.say(self.client.url)

    def _set_spool(self, rest: list[str]) -> None:
        if not rest:
            raise UsageMistake("spool needs a file, or off")
        self.close()
        if rest[0].lower() == "off":
            return
        try:
            self._spool = Path(rest[0]).open("a")  # noqa: SIM115  (until `spool off`, or the end)
        except OSError as error:
            raise UsageMistake(f"{rest[0]} cannot be written: {error.strerror}") from None
        self.say(f"Session will be spooled to {rest[0]}\nEnter SPOOL OFF to disable")

    def _set_cli(self, rest: list[str]) -> None:
        match [each.upper() for each in rest]:
            case ["WRAP", ("ON" | "OFF") as way]:
                self._wraps = way == "ON"
            case ["COLUMN-WIDTH", number] if number.isdecimal():
                self._column_width = int(number)
            case _:
                raise UsageMistake("set cli takes WRAP ON|OFF or COLUMN-WIDTH N")

    def run_file(self, path: str) -> None:
        """Carry out the statements of a file; raises UsageMistake, ServerError."""
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageMistake(f"{path} cannot be read: {error}") from None
        self.run(text)

    def run(self, text: str) -> None:
        """Carry statements out, one after the other; raises ServerError at the first that is refused."""
        from ottla.sql import SqlError, split_statements

        try:
            statements = split_statements(text, testing=True)
        except SqlError as error:
            raise ServerError(str(error)) from None
        for each in statements:
            self._one(each.text.strip())

    def _one(self, text: str) -> None:
        from ottla.sql import SqlError, parse_statement, substituted
        from ottla.sql.tree import statements as s

        try:
            shown = substituted(text, self.client.variables, testing=True)
            statement: Any = parse_statement(shown, testing=True)
        except SqlError as error:
            if "unknown type" not in str(error):
                raise ServerError(str(error)) from None
            shown, statement = text, None  # a type that only the server knows
        match statement:
            case s.SetProperty(name, value, system=False):
                self.client.is_valid_property(name)
                before = self.client.properties.get(name)
                self.client.properties[name] = value
                was = "" if before is None else f"from '{before}' "
                self.say(f"Successfully changed local property '{name}' {was}to '{value}'.")
            case s.UnsetProperty(name):
                before = self.client.properties.pop(name, None)
                self.say(f"Successfully unset local property '{name}' (value was '{before}').")
            case s.DefineVariable(name, value):
                self.client.variables[name] = value
            case s.UndefineVariable(name):
                self.client.variables.pop(name, None)
            case s.RunScript(file):
                self.run_file(file)
            case s.QueryStatement():
                self._query(shown)
            case s.PrintTopic():
                self._print(shown)
            case _:
                self._execute(shown)

    # -- answers

    def _execute(self, text: str) -> None:
        try:
            found = self.client.execute(text)
        except ServerError as error:
            self._show(error.entities)
            raise
        self._show(found)

    def _show(self, found: list[dict[str, Any]]) -> None:
        for each in found:
            self.say(as_json(each) if self.output == "JSON" else f"\n{as_text(each, self.width)}")

    def _query(self, text: str) -> None:
        """Show a query's rows until it ends, its limits are reached, or Ctrl-C."""
        table: Table | None = None
        count = 0
        with self.client.streamed(text) as lines, self._timed():
            try:
                for found in _objects(lines):
                    if "header" in found:
                        names = _names(found["header"]["schema"])
                        table = Table(names, self.width, column_width=self._column_width, wraps=self._wraps)
                        self.say(as_json(found) if self.output == "JSON" else table.head())
                    elif "row" in found:
                        count += 1
                        row = found["row"]["columns"]
                        self.say(as_json(found) if self.output == "JSON" or table is None else table.row(row))
                        if self.limits.rows is not None and count >= self.limits.rows:
                            break
                    elif "errorMessage" in found:
                        raise ServerError(str(found["errorMessage"].get("message")))
                    elif "finalMessage" in found and self.output != "JSON":
                        self.say(str(found["finalMessage"]))
            except KeyboardInterrupt:
                pass
        if self.output != "JSON":
            self.say("Query terminated")

    def _print(self, text: str) -> None:
        count = 0
        with self.client.streamed(text) as lines, self._timed():
            try:
                for line in lines:
                    self.say(line.rstrip("\n"))
                    count += line.startswith("rowtime")
                    if self.limits.rows is not None and count >= self.limits.rows:
                        break
            except KeyboardInterrupt:
                pass
        self.say("Topic printing ceased")

    def _timed(self) -> _Timed:
        return _Timed(self.limits.seconds)


class _Timed:
    """Interrupts the main thread, as Ctrl-C does, when a query has had its time."""

    def __init__(self, seconds: float | None) -> None:
        import _thread

        self._timer = None if seconds is None else threading.Timer(seconds, _thread.interrupt_main)

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _objects(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The objects of an array of which each stands on a line of its own."""
    for line in lines:
        text = line.strip().removeprefix("[").rstrip(",")
        text = text.removesuffix("]") if text.endswith("}]") else text
        if text:
            yield ExactDecoder(float).decode(text)


def _names(schema: str) -> list[str]:
    """The names of the columns of a header's schema: what stands in backticks outside of brackets."""
    found: list[str] = []
    depth, at = 0, 0
    while at < len(schema):
        letter = schema[at]
        depth += (letter in "<(") - (letter in ">)")
        if letter == "`":
            end = at + 1
            while end < len(schema) and (schema[end] != "`" or schema[end : end + 2] == "``"):
                end += 2 if schema[end : end + 2] == "``" else 1
            if depth == 0:
                found.append(schema[at + 1 : end].replace("``", "`"))
            at = end
        at += 1
    return found

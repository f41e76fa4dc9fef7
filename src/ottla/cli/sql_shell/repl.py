"""The prompt: several lines until a semicolon, history in a file, completion of words and of the server's names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.sql_shell.client import ServerError
from ottla.cli.sql_shell.shell import Session, UsageMistake

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

__all__ = ["carry_out", "history_file", "prompt_loop", "read_loop"]

PROMPT, CONTINUED = "sql> ", "...> "
WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT CHANGES", "EMIT FINAL", "LIMIT", "WINDOW"),
    *("TUMBLING", "HOPPING", "SESSION", "SIZE", "ADVANCE BY", "GRACE PERIOD", "JOIN", "LEFT JOIN", "WITHIN", "ON"),
    *(
        "CREATE STREAM",
        "CREATE TABLE",
        "CREATE SOURCE TABLE",
        "CREATE OR REPLACE",
        "IF NOT EXISTS",
        "AS SELECT",
        "WITH",
    ),
    *("CREATE TYPE", "CREATE SOURCE CONNECTOR", "CREATE SINK CONNECTOR", "INSERT INTO", "VALUES", "DROP STREAM"),
    *("DROP TABLE", "DELETE TOPIC", "DESCRIBE", "EXTENDED", "EXPLAIN", "LIST STREAMS", "LIST TABLES", "LIST QUERIES"),
    *("LIST TOPICS", "LIST FUNCTIONS", "LIST TYPES", "LIST PROPERTIES", "LIST CONNECTORS", "PRINT", "FROM BEGINNING"),
    *(
        "PAUSE",
        "RESUME",
        "TERMINATE",
        "SET",
        "UNSET",
        "DEFINE",
        "UNDEFINE",
        "ASSERT TOPIC",
        "kafka_topic",
        "value_format",
    ),
    *("key_format", "partitions", "PRIMARY KEY", "KEY", "STRING", "INT", "BIGINT", "DOUBLE", "DECIMAL", "TIMESTAMP"),
)


def read_loop(session: Session, lines: Iterator[str], *, stops: bool) -> int:
    """Carry out what a file or a pipe says; returns the exit code. With `stops` the first refusal ends it."""
    waiting = ""
    failed = False
    for line in lines:
        waiting = f"{waiting}{line}" if waiting.strip() else line
        if not waiting.strip():
            continue
        if not (session.is_own(waiting) or waiting.rstrip().endswith(";")):
            continue
        goes_on, was_done = _done(session, waiting)
        waiting, failed = "", failed or not was_done
        if not goes_on or (stops and failed):
            return 1 if failed else 0
    if waiting.strip():
        session.say(f"Missing semicolon: {waiting.strip()}")
        failed = True
    return 1 if failed else 0


def carry_out(session: Session, text: str) -> int:
    """Carry out statements up to the first that is refused; returns the exit code."""
    return 0 if _done(session, text)[1] else 1


def _done(session: Session, text: str) -> tuple[bool, bool]:
    """Carry out what was typed; returns whether the session goes on, and whether it was done."""
    session.history.append(" ".join(text.split()))
    try:
        if session.is_own(text):
            return session.own(text), True
        session.run(text)
        return True, True
    except (ServerError, UsageMistake) as error:
        session.say(str(error))
        return True, False


def prompt_loop(session: Session, history: Path) -> int:
    """Ask until the end; returns the exit code."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(0o600)
        kept: Any = FileHistory(str(history))
    except OSError:
        kept = InMemoryHistory()
    prompt: PromptSession[str] = PromptSession(history=kept, completer=_completer(session), complete_while_typing=False)
    while True:
        try:
            text = _asked(prompt, session)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if text.strip() and not _done(session, text)[0]:
            return 0


def _asked(prompt: Any, session: Session) -> str:
    # What the library does with an error of its loop is another prompt, in which the same error may happen, for ever.
    text = str(prompt.prompt(PROMPT, set_exception_handler=False))
    while text.strip() and not session.is_own(text) and not text.rstrip().endswith(";"):
        text += f"\n{prompt.prompt(CONTINUED, set_exception_handler=False)}"
    return text


def _completer(session: Session) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    names = _Names(session)

    class Words(Completer):
        """Words of the language, and names of streams, tables and topics."""

        def get_completions(self, document: Any, event: Any) -> Iterator[Completion]:
            """Yield what the word before the cursor may become."""
            word = document.get_word_before_cursor(WORD=True).lstrip("(,'")
            if not word:
                return
            for each in (*WORDS, *names()):
                if each.lower().startswith(word.lower()):
                    yield Completion(each, start_position=-len(word))

    return Words()


class _Names:
    """The server's names, asked for when the first word is completed after a statement."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of = -1
        self._found: list[str] = []

    def __call__(self) -> list[str]:
        typed = len(self._session.history)
        if self._of != typed:
            self._of = typed
            self._found = list(_names(self._session))
        return self._found


def _names(session: Session) -> Iterator[str]:
    parts: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("streams", lambda each: str(each["name"])),
        ("tables", lambda each: str(each["name"])),
        ("topics", lambda each: str(each["name"])),
        ("functions", lambda each: f"{each['name']}("),
    ]
    try:
        answers = session.client.execute("LIST STREAMS; LIST TABLES; LIST TOPICS; LIST FUNCTIONS;")
    except ServerError:
        return
    for (key, name), found in zip(parts, answers, strict=True):
        yield from (name(each) for each in found[key])


def history_file() -> Path:
    """Where the history is kept: in the user's state folder."""
    return Path(os.environ.get("XDG_STATE_HOME", "~/.local/state")).expanduser() / "ottla" / "sql_history"

"""Commands run inside the test's process, as `main` would run them, with what they print on both streams."""

from __future__ import annotations

import io
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ottla.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run `ottla …` from one string of arguments, with text on its standard input.

    `err` is what Python wrote to `sys.stderr`, not what came to the process's file descriptor 2: a client of librdkafka that
    a failed test before has left alive logs there, from a thread of its own, that its broker is gone.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def call(arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        errors = io.BytesIO()
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(errors, encoding="utf-8", write_through=True))
        capfdbinary.readouterr()
        try:
            code = main(shlex.split(arguments))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
        out, _ = capfdbinary.readouterr()
        return Outcome(code, out.decode(), errors.getvalue().decode())

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)

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
    """Run `ottla …` from one string of arguments, with text on its standard input."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def call(arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfdbinary.readouterr()
        try:
            code = main(shlex.split(arguments))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)

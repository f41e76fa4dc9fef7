"""The JVM that PySpark launches: it does not notice SIGTERM, and it can be ended while it starts."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ottla.spark.private_api.gateway import forget_gateway, launched_by, silence_py4j

__all__ = ["Launch"]

ORDERLY_SECONDS_MAX = 1.0
"""How long a JVM whose input has ended may take to end by itself and remove its folders."""


class Launch:
    """One start of a session; `give_up` ends it from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = False
        self._process: subprocess.Popen[Any] | None = None

    @property
    def given_up(self) -> bool:
        """Whether the session is not wanted any more."""
        return self._given_up

    @property
    def has_ended(self) -> bool:
        """Whether the JVM that was launched is gone."""
        with self._lock:
            return self._process is not None and self._process.poll() is not None

    @property
    def was_ended(self) -> bool:
        """Whether the JVM has ended, and not we have ended it; waits a moment for one that is about to be gone.

        How it ended says nothing: what a killed JVM leaves of its script exits like one that was given a wrong option.
        """
        with self._lock:
            if self._given_up or self._process is None:
                return False
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ORDERLY_SECONDS_MAX)
            return self._process.poll() is not None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the JVM that PySpark launches in the block, and let it inherit that SIGTERM is blocked.

        Supervisors send SIGTERM to all processes of a service. The worker stops its tasks in order, and then its JVM, which
        with `-Xrs` leaves the mask that it inherits as it is, as the Python processes under it do.
        """
        launch = self

        class Noted(subprocess.Popen[Any]):
            def __init__(self, *args: Any, **more: Any) -> None:
                with launch._lock:
                    if launch._given_up:
                        raise RuntimeError("the session is not wanted any more")
                    super().__init__(*args, **more)
                    launch._process = self

        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            with launched_by(Noted):
                yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def give_up(self) -> None:
        """End the JVM: in order where it reads its input by now, else at once; what waits for it fails."""
        with self._lock:
            self._given_up = True
            process = self._process
        if process is None:
            return
        silence_py4j()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(ORDERLY_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        forget_gateway()

"""The TLS of HTTP services: a server's context, and that of who asks others of its kind, made of Kafka's `ssl.*`.

Both follow their files, which a thread looks at: a store that was replaced counts for the next connection. One that is
refused, as a listener's of a broker would be, leaves the old one in place, which is said once.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ottla.background import supervise_thread
from ottla.base import KafkaError
from ottla.security import Tls, TlsSettings

__all__ = ["asking_context", "serving_context"]

log = logging.getLogger(__name__)

LOOK_SECONDS_MIN = 1.0
"""How often files are looked at, however many connect."""
LOOK_HOLDS_SECONDS_MAX = 1.0
"""How long who connects waits for a look, and the event loop with it: once, where a file system does not answer at all."""
FileState = tuple[int, int, int] | None


def serving_context(
    properties: Mapping[str, str | None], now_s: Callable[[], float] = time.monotonic
) -> Callable[[], ssl.SSLContext]:
    """Return what gives the context of the next connection; raises ConfigError for what cannot be honoured."""
    return _Following(TlsSettings.of(properties), server=True, now_s=now_s).context


def asking_context(
    properties: Mapping[str, str | None], now_s: Callable[[], float] = time.monotonic
) -> Callable[[], ssl.SSLContext]:
    """Return what gives a client's context: with the same keys, and the names of hosts checked; raises ConfigError."""
    return _Following(TlsSettings.of(properties), server=False, now_s=now_s).context


class _Following:
    """A context whose stores are read again when their files change."""

    def __init__(self, settings: TlsSettings, *, server: bool, now_s: Callable[[], float]) -> None:
        stores = (settings.key_store, settings.trust_store)
        self._files = [each.location for each in stores if each is not None and each.location is not None]
        self._now_s = now_s
        self._looked_s = now_s()
        self._read = self._states()
        self._refused: list[FileState] | None = None
        self._tls = Tls(settings, server=server)
        self._looking: threading.Thread | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context as the files are now."""
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_SECONDS_MIN and (self._looking is None or not self._looking.is_alive()):
            self._looked_s = now_s
            with suppress(RuntimeError):  # no thread can be started now
                self._looking = supervise_thread(self._look, name="look at stores", serves="HTTPS")
                self._looking.join(LOOK_HOLDS_SECONDS_MAX)
        return self._tls.context

    def _look(self) -> None:
        states = self._states()
        if states != self._read:
            self._reload(states)

    def _reload(self, states: list[FileState]) -> None:
        """Read the stores; what is refused is tried again, for it may be being written."""
        try:
            if self._tls.reload():
                log.info("HTTPS uses new stores from the next connection on: %s", ", ".join(self._files))
            self._read, self._refused = states, None
        except KafkaError as error:
            if states != self._refused:
                log.error("HTTPS keeps the stores that it has: %s", error.message)
            self._refused = states

    def _states(self) -> list[FileState]:
        return [_state(each) for each in self._files]


def _state(path: str) -> FileState:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

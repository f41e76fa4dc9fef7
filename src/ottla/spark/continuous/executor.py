"""What Spark runs for a host, on an executor: connects to the driver and runs the host until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ottla.base import why_unreached
from ottla.connect import ConnectError
from ottla.connect.tasks import Dial, RemotePort
from ottla.spark.continuous.host import STOP, Host, HostSpec, Orders

__all__ = ["HostOnExecutor", "run_host"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostOnExecutor:
    """The function that travels to the executor; plans and what protects connections come over the control channel."""

    dial: Dial

    def __call__(self, rows: Iterable[object]) -> Iterator[str]:
        """Run the host and yield how it ended."""
        yield run_host(self.dial)


def run_host(dial: Dial) -> str:
    """Run the host that the driver has at the other end of `dial`; returns when it has ended. Raises its error."""
    orders = Orders()
    try:
        port = RemotePort(dial, read_spec=HostSpec.of_message, on_order=orders.put, on_gone=lambda: orders.put(STOP))
    except OSError as error:
        return f"the driver is gone: {why_unreached(error)}"
    try:
        asyncio.run(Host(port.spec, _Port(port), orders).run())
    except ConnectionError as error:
        return f"the driver is gone: {why_unreached(error)}"
    finally:
        port.close()
    return "stopped"


class _Port:
    """A `HostPort` over TCP."""

    def __init__(self, port: RemotePort[Any]) -> None:
        self._port = port

    def note(self, op: str, /, **facts: Any) -> None:
        """See `HostPort`."""
        self._port.note(op, facts)

    def confirm(self) -> None:
        """See `HostPort`."""
        try:
            self._port.confirm()
        except ConnectError as error:
            raise ConnectionError(str(error)) from error

"""A Spark cluster as the place of tasks: the driver's address, the slots that executors have, the code that they lack."""

from __future__ import annotations

import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla import __version__
from ottla.base import ConfigError
from ottla.spark.private_api.sessions import executor_slots
from ottla.spark.sessions import register
from ottla.spark.shipping import ottla_archive

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "BIND",
    "HOST",
    "address_settings",
    "driver_address",
    "first_executor",
    "ship_ottla",
    "ship_plugins",
]

log = logging.getLogger(__name__)

HOST, BIND = "spark.driver.host", "spark.driver.bindAddress"
ANY_ADDRESS = "192.0.2.1"
"""An address for documentation (RFC 5737): the way there begins with the machine's own address. Nothing is sent."""
EXECUTOR_SECONDS_MAX = 30.0
"""How long a worker that starts waits for the first executor before it goes on without."""
LOOK_SECONDS = 0.1


def driver_address(worker: Mapping[str, str], master: str) -> str:
    """Return the address by which executors reach this machine: `spark.driver.host`, or the one on the way to the master.

    Raises ConfigError where neither is there.
    """
    if given := worker.get(HOST, "").strip():
        return given
    place = urlsplit(master.split(",")[0]) if "://" in master else urlsplit("")
    target = (place.hostname or ANY_ADDRESS, place.port or 1)
    try:
        family, kind, _, _, where = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            HOST, None, f"this machine's address for the executors of {master} ({target[0]}: {error.strerror})"
        ) from error


def address_settings(worker: Mapping[str, str], master: str) -> dict[str, str]:
    """Return the settings by which Spark's driver is at the same address as our control channel."""
    own = driver_address(worker, master)
    return {HOST: own, BIND: worker.get(BIND, "").strip() or own}


def first_executor(context: SparkContext) -> bool:
    """Wait for an executor; False where the cluster has given none for long."""
    deadline = time.monotonic() + EXECUTOR_SECONDS_MAX
    while not executor_slots(context):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def ship_ottla(spark: SparkSession) -> None:
    """Send Ottla to executors that have none, or another version; needs an executor. What it imports has to be there."""
    context = spark.sparkContext
    there = _version_there(context)
    if there == __version__:
        return
    log.info(
        "The cluster's executors have %s; they are sent Ottla %s",
        f"Ottla {there}" if there else "no Ottla",
        __version__,
    )
    context.addPyFile(str(ottla_archive()))
    register(spark)  # a source that Spark finds by its name is loaded without what was sent


def _version_there(context: SparkContext) -> str | None:
    def installed(_: Iterable[int]) -> Iterator[str | None]:  # inside, so that it travels by value
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        try:
            yield version("ottla") if find_spec("ottla") is not None else None
        except PackageNotFoundError:
            yield None  # a folder on the path: nobody knows which

    found: list[str | None] = context.parallelize([0], 1).mapPartitions(installed).collect()
    return found[0]


def ship_plugins(context: SparkContext, plugin_path: Sequence[Path]) -> tuple[str, ...]:
    """Send folders of `plugin.path` to executors, these and later ones; returns the names under which they are there."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-plugins-"))
    names = []
    for number, each in enumerate(plugin_path):
        if each.is_dir():
            name = f"ottla-plugins-{number}"
            context.addArchive(shutil.make_archive(str(folder / name), "zip", each) + f"#{name}")
            names.append(name)
    return tuple(names)

"""What a Spark cluster has to be before what a secured client reads and writes may travel through it.

Driver and executors tell each other tasks, records and results (RPC, shuffle). Where brokers are reached by TLS or a login,
these must not go in clear, nor may a stranger take part: Spark does not see to that unless it is told.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.base import ConfigError
from ottla.config import parse_properties

__all__ = ["OPT_OUT", "check_cluster", "check_source", "configured", "lacking", "secured_part"]

AUTHENTICATE, CRYPTO, TLS = "spark.authenticate", "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
OPT_OUT = "spark.ottla.unprotected.cluster.allowed"
LOCAL, CONNECT = "local", "sc://"
LOOPBACK = re.compile(r"sc://(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?(/|$)", re.IGNORECASE)
PROTOCOL = "security.protocol"
_UNPROTECTED = "secures connections to brokers, but what this application's processes tell each other on the"
_LISTENERS = ("listeners", "admin.listeners", "http.listener", "ottla.http.listeners")


def secured_part(properties: Mapping[str, str]) -> str | None:
    """Return which of a worker's or an application's properties secures something, None where none does."""
    for key, value in sorted(properties.items()):
        if key.endswith(PROTOCOL) and value.strip().upper() not in ("", "PLAINTEXT"):
            return f"{key}={value}"
        if key in _LISTENERS and "https://" in value.lower():
            return f"{key}={value}"
    return None


def check_cluster(master: str, secured: str | None, value: Callable[[str], str | None]) -> None:
    """Raise ConfigError where something is secured and this cluster's own connections are not; `value` gives its settings.

    A local master is one machine, and needs nothing.
    """
    missing = "" if secured is None else lacking(master, value)
    if missing:
        text = f"{secured} {_UNPROTECTED} {missing}"
        raise ConfigError("spark.master", master.partition(";")[0], text, text)


def lacking(master: str, value: Callable[[str], str | None]) -> str:
    """Return, as the end of a sentence, what a cluster lacks before something secured may use it; empty where nothing."""
    if master.startswith(LOCAL) or _is_true(value(OPT_OUT)):
        return ""
    missing = [] if _is_true(value(AUTHENTICATE)) else [f"{AUTHENTICATE}=true"]
    if not (_is_true(value(CRYPTO)) or _is_true(value(TLS))):
        missing.append(f"{CRYPTO}=true (or {TLS}=true)")
    if master.startswith(CONNECT) and "use_ssl=true" not in master.lower() and not LOOPBACK.match(master):
        missing.append("use_ssl=true in its address")
    if not missing:
        return ""
    return (
        f"Spark cluster {master.partition(';')[0]} would travel unprotected: it needs {' and '.join(missing)}, or, "
        f"where its network is trusted, {OPT_OUT}=true"
    )


def check_source(options: Mapping[str, str], cluster: str | None) -> None:
    """Raise ConfigError where a source's or sink's options ask for protection that its session's cluster lacks.

    `cluster` is what `lacking` has found; None where nobody has looked.
    """
    protocol = next((value for key, value in options.items() if key.lower() == f"kafka.{PROTOCOL}"), "").strip()
    if protocol.upper() in ("", "PLAINTEXT") or cluster == "":
        return
    secured = f"kafka.{PROTOCOL}={protocol}"
    if cluster is None:
        text = (
            f"{secured} secures connections to brokers, but nobody has looked whether this Spark session's cluster "
            "protects what its processes tell each other: call ottla.spark.register(spark) before"
        )
    else:
        text = f"{secured} {_UNPROTECTED} {cluster}"
    raise ConfigError(f"kafka.{PROTOCOL}", protocol, text, text)


def configured(settings: Mapping[str, str]) -> dict[str, str] | None:
    """Return what a session will be configured with, as far as it is known before it starts; None where Spark knows alone.

    Stronger are the settings given, then those of spark-submit's arguments, then Spark's file of defaults.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return None  # spark-submit has started the JVM already
    return {**_defaults(), **_submitted(), **settings}


def _defaults() -> dict[str, str]:
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else "")
    try:
        return parse_properties(Path(folder, "spark-defaults.conf").read_text()) if folder else {}
    except (OSError, ValueError, ConfigError):
        return {}


def _submitted() -> dict[str, str]:
    try:
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError:
        return {}
    pairs = (word.partition("=") for flag, word in itertools.pairwise(words) if flag in ("--conf", "-c"))
    return {key: value for key, _, value in pairs}


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"

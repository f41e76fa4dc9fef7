"""What `server start` is told, and the configuration that follows; whoever starts, formats or finds servers reads it."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING

from ottla.cli.local.log_format import FORMATS, LEVELS
from ottla.cli.options import Options, UsageError, properties_text, warn, whole_number

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

__all__ = ["console_overrides", "load_config", "start_options"]

CONSOLE_DEFAULT = "127.0.0.1:9180"


UNCONFIGURED = "group.initial.rebalance.delay.ms=0\n"
"""What holds without a file, as in the file that Kafka comes with: the first member of a group waits for nobody."""


def start_options() -> Options:
    """Return the parser of `server start`."""
    parser = Options("server start", "Run a broker and controller in this process; no configuration is needed.")
    parser.add_argument("config", nargs="?", metavar="server.properties", help="Kafka's own file")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="wins; repeatable")
    parser.add_argument(
        "--shards",
        type=whole_number,
        metavar="N",
        help="N brokers in processes of their own, on ports from the first on",
    )
    parser.add_argument(
        "--console",
        nargs="?",
        const=CONSOLE_DEFAULT,
        metavar="HOST:PORT",
        help=f"a web console beside it, at {CONSOLE_DEFAULT} where no address is given",
    )
    parser.add_argument("-daemon", "--daemon", action="store_true", help="in the background; returns when it is ready")
    parser.add_argument("--ends-with-input", action="store_true", help="stop when standard input ends")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)}; info without it")
    parser.add_argument("-name", metavar="NAME", help=argparse.SUPPRESS)  # for the JVM of Kafka's script, as -loggc
    parser.add_argument("-loggc", action="store_true", help=argparse.SUPPRESS)
    return parser


def console_overrides(address: str | None) -> list[str]:
    """Return what `--console` means as an override, nothing without it; raises UsageError for what is no address."""
    if address is None:
        return []
    if not re.fullmatch(r"\S*:\d+", address):
        raise UsageError(
            f"--console takes HOST:PORT, not {address}: write --console=HOST:PORT, or --console at the end"
        )
    return [f"ottla.console.listeners={address}"]


def load_config(path: str | None, overrides: list[str]) -> BrokerConfig:
    """Read file, environment and overrides, and print the warnings; raises ConfigError for a bad value."""
    from ottla.config import BrokerConfig

    text = UNCONFIGURED if path is None else properties_text(path)
    config = BrokerConfig.load(text, environment=os.environ, overrides=overrides)
    for warning in config.warnings:
        warn(f"warning: {warning}")
    return config

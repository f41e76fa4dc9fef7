"""`--bootstrap-server` or `--bootstrap-controller`: whom an administrator's command asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.options import Options, UsageError, open_client, properties_file

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["asks_controllers", "controller_option", "open_either"]


def controller_option(parser: Options) -> None:
    """Declare `--bootstrap-controller` beside what `Options.connection` declares (KIP-919)."""
    parser.add_argument("--bootstrap-controller", metavar="HOST:PORT,…", help="controllers to ask instead of brokers")


def asks_controllers(args: Namespace) -> bool:
    """Return whether the controllers are asked themselves; raises UsageError where both kinds are named."""
    if args.bootstrap_controller is None:
        return False
    if args.bootstrap_server is not None:
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    return True


def open_either(args: Namespace) -> BlockingClient:
    """Return a client for the brokers, or for the active one of the controllers; those do not answer Metadata."""
    of_controllers = asks_controllers(args)
    bootstrap = args.bootstrap_controller if of_controllers else args.bootstrap_server
    return open_client(bootstrap, properties_file(args.command_config), of_controllers=of_controllers)

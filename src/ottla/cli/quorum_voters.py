"""`ottla metadata-quorum add-controller` and `remove-controller`: who votes in the metadata's quorum (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.admin import ControllerEndpoint, ControllerToAdd, add_voter, remove_voter
from ottla.base import OttlaError, Uuid, parse_uuid, uuid_text
from ottla.cli.options import Options, UsageError, properties_file, whole_number

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["add_controller", "add_options", "check_add", "checked_removal", "remove_controller", "remove_options"]

NODE_ID, ROLES, CONTROLLER_LISTENERS = "node.id", "process.roles", "controller.listener.names"
METADATA_DIR, LOG_DIRS = "metadata.log.dir", "log.dirs"
QUESTION = "Is this a valid controller configuration file?"


class NotAControllerError(OttlaError):
    """A configuration that is no controller's."""


def add_options(parser: Options) -> None:
    """Declare what `add-controller` takes; the controller itself is described by the file of `--command-config`."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def remove_options(parser: Options) -> None:
    """Declare what `remove-controller` takes."""
    parser.add_argument("-i", "--controller-id", type=whole_number, metavar="ID", help="the node (required)")
    parser.add_argument(
        "-d", "--controller-directory-id", metavar="ID", help="its metadata folder, as describe shows it (required)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def check_add(args: Namespace) -> None:
    """Raise UsageError without the new controller's configuration."""
    if args.command_config is None:
        raise UsageError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )


def add_controller(client: BlockingClient, args: Namespace) -> None:
    """Let a controller vote that follows the quorum already; its configuration says who it is."""
    properties = properties_file(args.command_config)
    controller = ControllerToAdd(
        controller_id(properties), directory_id(metadata_dir(properties)), tuple(controller_endpoints(properties))
    )
    if not args.dry_run:
        add_voter(client, controller)
    done = "DRY RUN of adding" if args.dry_run else "Added"
    listed = ", ".join(map(str, controller.endpoints))
    print(
        f"{done} controller {controller.node_id} with directory id {uuid_text(controller.directory_id)} "
        f"and endpoints: {listed}"
    )


def controller_id(properties: Mapping[str, str]) -> int:
    """Return the node's id; raises NotAControllerError for a configuration without one, or of a broker."""
    if NODE_ID not in properties:
        raise NotAControllerError(f"{NODE_ID} not found in configuration file. {QUESTION}")
    found = int(properties[NODE_ID])
    if found < 0:
        raise NotAControllerError(f"{NODE_ID} was negative in configuration file. {QUESTION}")
    if "controller" not in properties.get(ROLES, ""):
        raise NotAControllerError(f"{ROLES} did not contain 'controller' in configuration file. {QUESTION}")
    return found


def metadata_dir(properties: Mapping[str, str]) -> str:
    """Return the folder of the metadata's log."""
    if METADATA_DIR in properties:
        return properties[METADATA_DIR]
    if LOG_DIRS in properties:
        return properties[LOG_DIRS].strip().split(",")[0]
    raise NotAControllerError(f"Neither {METADATA_DIR} nor {LOG_DIRS} were found. {QUESTION}")


def directory_id(folder: str) -> Uuid:
    """Return a formatted folder's identity."""
    from ottla.log import OsDisk, read_meta

    found = read_meta(OsDisk(), folder)
    if found is None:
        raise NotAControllerError(f"Unable to read meta.properties from {folder}")
    return found.directory_id


def controller_endpoints(properties: Mapping[str, str]) -> list[ControllerEndpoint]:
    """Return where the controller can be reached: as it advertises itself, else where it listens."""
    found: dict[str, ControllerEndpoint] = {}
    for key in ("listeners", "advertised.listeners"):
        for text in filter(None, (part.strip() for part in properties.get(key, "").split(","))):
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            found[name.upper()] = ControllerEndpoint(name.upper(), host.strip("[]") or "localhost", int(port))
    if CONTROLLER_LISTENERS not in properties:
        raise NotAControllerError(f"{CONTROLLER_LISTENERS} was not found. {QUESTION}")
    wanted = [name.strip().upper() for name in properties[CONTROLLER_LISTENERS].split(",")]
    for name in wanted:
        if name not in found:
            raise NotAControllerError(f"Cannot find information about controller listener name: {name}")
    return [found[name] for name in dict.fromkeys(wanted)]


def remove_controller(client: BlockingClient, args: Namespace) -> None:
    """Let a controller vote no more; it goes on to follow until it is stopped."""
    directory = checked_removal(args)
    if not args.dry_run:
        remove_voter(client, args.controller_id, directory)
    # the second space is Kafka's, and scripts may look for it
    done = "DRY RUN of removing " if args.dry_run else "Removed "
    print(f"{done} KRaft controller {args.controller_id} with directory id {uuid_text(directory)}")


def checked_removal(args: Namespace) -> Uuid:
    """Return the directory's id; raises UsageError for options that are missing or say nothing."""
    for name in ("controller-id", "controller-directory-id"):
        if getattr(args, name.replace("-", "_")) is None:
            raise UsageError(f"argument --{name}/-{'d' if 'directory' in name else 'i'} is required")
    if args.controller_id < 0:
        raise UsageError(f"Invalid negative --controller-id: {args.controller_id}")
    try:
        return parse_uuid(args.controller_directory_id)
    except ValueError as error:
        raise UsageError(f"Failed to parse --controller-directory-id: {error}") from None

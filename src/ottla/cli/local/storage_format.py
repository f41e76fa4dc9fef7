"""Formatting: every log directory of a node gets its identity before the first start (`storage format`, `server format`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.admin import METADATA_VERSION, METADATA_VERSIONS, formatted_levels, metadata_version_name
from ottla.base import ConfigError, NodeId, StorageError, parse_uuid, random_uuid, uuid_text
from ottla.cli.feature_texts import parse_features
from ottla.cli.local.server_options import load_config
from ottla.cli.local.shard_folders import refuse_hiding_shards
from ottla.cli.options import Options, UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from ottla.config import BrokerConfig
    from ottla.log import MetaProperties
    from ottla.raft import VoterSet
    from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["format_options", "format_parsed", "format_storage", "new_id"]

QUORUM_FLAGS = ("standalone", "initial_controllers", "no_initial_controllers")


def format_options(program: str) -> Options:
    """Return the parser of `server format` or `storage format`."""
    parser = Options(program, "Give every log directory its identity before the first start.")
    parser.add_argument("-c", "--config", metavar="FILE", help="server.properties (required)")
    parser.add_argument("-t", "--cluster-id", metavar="ID", help="22 characters of URL-safe base64 (required)")
    parser.add_argument("-g", "--ignore-formatted", action="store_true", help="leave formatted folders as they are")
    parser.add_argument("-r", "--release-version", metavar="VERSION", help=f"default: {METADATA_VERSIONS[-1]}")
    parser.add_argument("-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="repeatable")
    parser.add_argument(
        "-s", "--standalone", action="store_true", help="this node alone is the quorum, by its own record"
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="a first user, as SCRAM-SHA-256=[name=al,password=x]; repeatable",
    )
    parser.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="this node joins a quorum that is there already"
    )
    parser.add_argument(
        "-I", "--initial-controllers", metavar="ID@HOST:PORT:DIR,…", help="who votes at first; the same on every node"
    )
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="as of server start")
    return parser


def new_id() -> str:
    """Return a new identifier for a cluster or a directory."""
    from random import SystemRandom

    return uuid_text(random_uuid(SystemRandom()))


def format_storage(argv: list[str]) -> int:
    """Format the folders of a configuration, as `ottla server format`."""
    return format_parsed(format_options("server format").parse(argv))


def format_parsed(args: Namespace) -> int:
    """Format the folders of a configuration; 1 where one already is, unless that is to be ignored."""
    if args.config is None or args.cluster_id is None:
        raise UsageError(f"argument {'-c/--config' if args.config is None else '-t/--cluster-id'} is required")
    check_cluster_id(args.cluster_id)
    asked = parse_features(args.feature)
    if args.release_version is not None and METADATA_VERSION in asked:
        raise UsageError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    levels = dict(formatted_levels(args.release_version, asked))
    config = load_config(args.config, args.override)
    check_quorum(args, config)
    levels.pop("kraft.version", None)  # it follows from who votes
    return run(args, config, levels, users_of(args, levels))


def users_of(args: Namespace, levels: Mapping[str, int]) -> list[UserScramCredentialRecord]:
    """Return the records of the first users; raises UsageError."""
    if not args.add_scram:
        return []
    from random import SystemRandom

    from ottla.cli.local.scram_arguments import scram_records
    from ottla.metadata import SCRAM_SINCE

    users = scram_records(args.add_scram, SystemRandom().randbytes)
    if levels[METADATA_VERSION] < SCRAM_SINCE:
        raise UsageError(f"SCRAM is only supported in metadata.version {metadata_version_name(SCRAM_SINCE)} or later.")
    return users


def check_cluster_id(text: str) -> None:
    """Raise ConfigError for what is not an id."""
    try:
        parse_uuid(text)
    except ValueError as error:
        raise ConfigError("cluster.id", text, str(error)) from None


def check_quorum(args: Namespace, config: BrokerConfig) -> None:
    """Raise UsageError where who votes is said in two ways, or not at all."""
    chosen = [name for name in QUORUM_FLAGS if getattr(args, name)]
    if len(chosen) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in chosen[:2])
        raise UsageError(f"argument {first}: not allowed with argument {second}")
    if config.voters and chosen and chosen != ["no_initial_controllers"]:
        raise UsageError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    is_controller = "controller" in config.roles
    if args.standalone and not is_controller:
        raise UsageError("You can only use --standalone on a controller.")
    joins = config.settings.controller_quorum_bootstrap_servers and not config.voters
    if is_controller and joins and not chosen:
        raise UsageError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    asked = parse_features(args.feature).get("kraft.version")
    if asked == 0 and chosen:
        raise UsageError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing "
            "the --feature flag for kraft.version."
        )
    if asked and config.voters:
        raise UsageError(
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one "
            "of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
        )


def run(
    args: Namespace, config: BrokerConfig, levels: Mapping[str, int], users: Sequence[UserScramCredentialRecord]
) -> int:
    """Format what is not formatted yet; every folder must be of this cluster and node."""
    import random

    from ottla.broker import SystemClock, format_directory
    from ottla.log import LogDir, OsDisk, read_meta

    voters = voters_of(args, config)
    disk = OsDisk()
    paths = list(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))
    refuse_hiding_shards(config)
    found = {path: meta for path in paths if (meta := read_meta(disk, path)) is not None}
    for path, meta in found.items():
        check_identity(path, meta, args.cluster_id, config.node_id)
    if found and not args.ignore_formatted:
        taken = next(iter(found))
        raise StorageError(
            f"Log directory {taken} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    if len(found) == len(paths):
        print("All of the log directories are already formatted.")
        return 0
    print(f"Bootstrap metadata: {bootstrap_text(levels, users)}")
    for path in paths:
        if path in found:
            continue
        release = metadata_version_name(levels[METADATA_VERSION])
        print(f"Formatting {kind_of(path, config, voters)} {path} with metadata.version {release}.")
        log_dir = LogDir.open(disk, path)
        try:
            format_directory(
                config,
                log_dir,
                cluster_id=args.cluster_id,
                rng=random.SystemRandom(),
                now_ms=SystemClock().now_ms(),
                levels=levels,
                voters=voters,
                users=users,
            )
        finally:
            log_dir.release()
    return 0


def voters_of(args: Namespace, config: BrokerConfig) -> VoterSet | None:
    """Return who votes at first as the flags say it, nobody where the node joins a quorum; None without a flag."""
    from ottla.broker import parse_initial_controllers, standalone
    from ottla.raft import VoterSet

    if args.standalone:
        return standalone(config, parse_uuid(new_id()))
    if args.initial_controllers:
        (listener, *_) = (*config.controller_listener_names, "CONTROLLER")
        return parse_initial_controllers(args.initial_controllers, listener)
    return VoterSet() if args.no_initial_controllers else None


def check_identity(path: str, meta: MetaProperties, cluster_id: str, node_id: NodeId) -> None:
    """Raise StorageError where a formatted folder is another cluster's or another node's."""
    for name, expected, read in (("cluster.id", cluster_id, meta.cluster_id), ("node.id", node_id, meta.node_id)):
        if expected != read:
            raise StorageError(f"Invalid {name} in: {path}/meta.properties. Expected {expected}, but read {read}")


def bootstrap_text(levels: Mapping[str, int], users: Sequence[UserScramCredentialRecord] = ()) -> str:
    """Return the first records as Kafka's tool writes them, without what is kept of passwords."""
    features = [f"FeatureLevelRecord(name='{name}', featureLevel={level})" for name, level in levels.items()]
    named = [
        f"UserScramCredentialRecord(name='{each.name}', mechanism={each.mechanism}, salt=[hidden], storedKey=[hidden], "
        f"serverKey=[hidden], iterations={each.iterations})"
        for each in users
    ]
    records = ", ".join(f"ApiMessageAndVersion({each} at version 0)" for each in (*features, *named))
    level = levels["metadata.version"]
    return f"BootstrapMetadata(records=[{records}], metadataVersionLevel={level}, source=format command)"


def kind_of(path: str, config: BrokerConfig, voters: VoterSet | None) -> str:
    """Return what Kafka calls a folder: who votes is in the metadata's own folder where no voters are configured."""
    if path != config.metadata_log_dir:
        return "data directory"
    if voters is None and config.is_quorum_of_one and not config.voters:
        return "dynamic metadata voter directory"  # of itself
    if not voters:
        return "metadata directory"
    return f"dynamic metadata {'voter ' if voters.get(config.node_id) else ''}directory"

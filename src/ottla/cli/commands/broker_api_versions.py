"""`ottla broker-api-versions`: which APIs each broker offers, with the flags and texts of `kafka-broker-api-versions`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ottla.base import NodeId, OttlaError
from ottla.cli.options import Options, check_required, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["main"]


OWN_APIS_FROM = 1000
"""The first key of APIs that only Ottla has: no Kafka offers them, and its tool names none of them."""


def main(argv: list[str]) -> int:
    """Ask every broker; a broker that cannot be reached is one line, and exit code 1."""
    args = options().parse(argv)
    check_required(args, "bootstrap-server")
    failed = False
    rows: list[dict[str, Any]] = []
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            for node in nodes(client):
                name = node_text(node)
                try:
                    found = versions(client, node)
                except OttlaError as error:
                    failed = True
                    print(f"{name} -> ERROR: {error}", file=sys.stdout if args.output == "text" else sys.stderr)
                    continue
                if args.output == "text":
                    print(f"{name} -> (\n" + ",\n".join(f"\t{line(each)}" for each in found) + "\n)")
                rows += [{"broker": node.broker_id, "address": f"{node.host}:{node.port}", **each} for each in found]
    except OttlaError as error:
        print(f"ottla broker-api-versions: {error}", file=sys.stderr)
        return 1
    if args.output != "text":
        columns = {"BROKER": "broker", "API": "api", "KEY": "key", "MIN": "min", "MAX": "max", "USABLE": "usable"}
        print_answer(args.output, Answer(rows, columns, {"ADDRESS": "address"}, name="api"))
    return 1 if failed else 0


def options() -> Options:
    """Return the parser."""
    parser = Options("broker-api-versions", "Print which APIs each broker offers, and in which versions.")
    parser.connection()
    output_option(parser)
    return parser


def nodes(client: BlockingClient) -> list[Any]:
    """Return the brokers that are not fenced, in the order in which the cluster names them."""
    from ottla.wire import ApiKey
    from ottla.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest

    if ApiKey.DESCRIBE_CLUSTER in client.run(client.client.versions()):
        found: list[Any] = list(client.request(DescribeClusterRequest()).brokers)
        client.metadata(())
        return found
    known = client.metadata(()).nodes.values()
    return [
        DescribeClusterBroker(broker_id=each.node_id, host=each.address.host, port=each.address.port, rack=each.rack)
        for each in known
    ]


def node_text(node: Any) -> str:
    """Return a node as Kafka's tools print one."""
    fenced = str(node.is_fenced).lower()
    return f"{node.host}:{node.port} (id: {node.broker_id} rack: {node.rack or 'null'} isFenced: {fenced})"


def versions(client: BlockingClient, node: Any) -> list[dict[str, Any]]:
    """Return a row for each of Kafka's APIs that this version knows, and for each that the broker offers."""
    from ottla.wire import APIS

    offered = client.run(client.client.versions(NodeId(node.broker_id)))
    rows = []
    known = {key for key, spec in APIS.items() if "broker" in spec.listeners and key < OWN_APIS_FROM}
    for key in sorted({*known, *offered}):
        spec = APIS.get(key)
        low, high = offered.get(key, (None, None))
        usable = None
        if (
            spec is not None
            and low is not None
            and high is not None
            and low <= spec.max_version
            and high >= spec.min_version
        ):
            usable = min(high, spec.max_version)
        rows.append({"api": spec.name if spec else "UNKNOWN", "key": key, "min": low, "max": high, "usable": usable})
    return rows


def line(row: dict[str, Any]) -> str:
    """Return Kafka's line of one API, without the comma."""
    name = f"{row['api']}({row['key']}): "
    if row["min"] is None:
        return f"{name}UNSUPPORTED"
    offered = f"{row['min']}" if row["min"] == row["max"] else f"{row['min']} to {row['max']}"
    if row["api"] == "UNKNOWN":
        return name + offered
    if row["usable"] is not None:
        return f"{name}{offered} [usable: {row['usable']}]"
    return f"{name}{offered} [unusable: node too {'new' if row['min'] > 0 else 'old'}]"

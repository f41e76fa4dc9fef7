"""`ottla connect`: the connectors of a running worker or group of workers: look at them, create, change and remove them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.admin import RestError, Worker
from ottla.cli.actions import parse_action
from ottla.cli.options import Options, UsageError, output_option, properties_file, warn, whole_number
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "parsers"]

NOUN = "connect"
URL_DEFAULT = "http://localhost:8083"
WORST_FIRST = ("FAILED", "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING")
TRACE_LINES = 12


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    action, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    actions: Mapping[str, Callable[[Worker, Namespace], int]] = {
        "list": list_connectors,
        "describe": describe,
        "create": create,
        "pause": lambda worker, args: _each(worker, args, "PUT", "/pause", "paused"),
        "resume": lambda worker, args: _each(worker, args, "PUT", "/resume", "resumed"),
        "stop": lambda worker, args: _each(worker, args, "PUT", "/stop", "stopped"),
        "delete": lambda worker, args: _each(worker, args, "DELETE", "", "deleted"),
        "restart": restart,
        "offsets": offsets,
        "plugins": plugins,
    }
    return actions[action](Worker(args.url, properties_file(args.command_config)), args)


def parsers() -> list[Options]:
    """Return every action's parser."""
    one = {
        "pause": "Have connectors and their tasks do nothing for a while, and keep what they hold.",
        "resume": "Have paused or stopped connectors run again.",
        "stop": "Stop connectors and remove their tasks; their configurations and offsets stay.",
        "delete": "Remove connectors; source offsets and sinks' groups stay.",
    }
    return [
        _answering("list", "List all connectors with their states, the worst first."),
        _of_one("describe", "Show a connector: configuration, states, traces, topics and offsets."),
        _create_options(),
        *(_of_many(action, words) for action, words in one.items()),
        _restart_options(),
        _offset_options(),
        _plugin_options(),
    ]


def _options(action: str, words: str) -> Options:
    parser = Options(f"{NOUN} {action}", words)
    url = os.environ.get("OTTLA_CONNECT_URL", URL_DEFAULT)
    parser.add_argument(
        "--url", default=url, metavar="URL", help=f"the worker's REST interface ($OTTLA_CONNECT_URL; {URL_DEFAULT})"
    )
    parser.add_argument("--command-config", metavar="FILE", help="properties file with ssl.… for an https:// address")
    return parser


def _answering(action: str, words: str) -> Options:
    parser = _options(action, words)
    output_option(parser)
    return parser


def _of_one(action: str, words: str) -> Options:
    parser = _answering(action, words)
    parser.add_argument("connector", metavar="CONNECTOR", help="the connector's name")
    return parser


def _of_many(action: str, words: str) -> Options:
    parser = _options(action, words)
    parser.add_argument("connectors", nargs="+", metavar="CONNECTOR", help="connectors' names")
    return parser


def _create_options() -> Options:
    parser = _options("create", "Create connectors of files, or give existing ones other configurations.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="properties or JSON, as connect-standalone takes them")
    parser.add_argument("--replace", action="store_true", help="a connector of that name takes the new configuration")
    return parser


def _restart_options() -> Options:
    parser = _of_many("restart", "Restart what has failed of connectors and their tasks, or all of it.")
    parser.add_argument("--all", action="store_true", help="what runs well, too")
    parser.add_argument("--task", type=whole_number, metavar="N", help="one task, and nothing else")
    return parser


def _offset_options() -> Options:
    parser = _of_one("offsets", "Show how far a connector is; for a stopped one, set that or begin anew.")
    parser.add_argument("--reset", action="store_true", help="forget all offsets")
    parser.add_argument("--set", metavar="FILE", help="set the offsets of a JSON file, in the form that -o json prints")
    return parser


def _plugin_options() -> Options:
    parser = _answering("plugins", "List what is installed: connectors, and converters and transformations with --all.")
    parser.add_argument("--all", action="store_true", help="every kind of plugin")
    return parser


def _print(args: Namespace, answer: Answer) -> int:
    print_answer("table" if args.output == "text" else args.output, answer)
    return 0


def list_connectors(worker: Worker, args: Namespace) -> int:
    """Print all connectors, in one request."""
    found = worker.ask("GET", "/connectors?expand=status&expand=info")
    rows = [_row(name, each["status"], each["info"]) for name, each in found.items()]
    rows.sort(key=lambda row: (_rank(row["state"], row["failed"]), row["name"]))
    columns = {"CONNECTOR": "name", "TYPE": "type", "STATE": "state", "TASKS": "tasks", "RESTARTS": "restarts"}
    return _print(args, Answer(rows, columns, {"CLASS": "class", "WORKER": "worker", "FAILED": "failed"}, name="name"))


def _row(name: str, status: Any, info: Any) -> dict[str, Any]:
    tasks = status["tasks"]
    running = sum(each["state"] == "RUNNING" for each in tasks)
    return {
        "name": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": f"{running}/{len(tasks)} running",
        "failed": sum(each["state"] == "FAILED" for each in tasks),
        "restarts": sum(each.get("restarts", 0) for each in tasks),
        "class": info["config"].get("connector.class"),
        "worker": status["connector"]["worker_id"],
    }


def _rank(state: str, failed: int) -> int:
    return 0 if failed else WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def describe(worker: Worker, args: Namespace) -> int:
    """Print everything about one connector; a worker of Kafka's shows secrets, and this does not."""
    from ottla.config import shown

    name = args.connector
    info = worker.connector("GET", name)
    status = _or_none(lambda: worker.connector("GET", name, "/status"))
    document = {
        "name": name,
        "config": shown(info["config"]),
        "status": status,
        "topics": (_or_none(lambda: worker.connector("GET", name, "/topics")) or {}).get(name, {}).get("topics", []),
        "offsets": (_or_none(lambda: worker.connector("GET", name, "/offsets")) or {}).get("offsets", []),
    }
    if args.output != "text":
        parts = [status["connector"], *status["tasks"]] if status else []
        rows = [{"part": _part(each), **each} for each in parts]
        columns = {"PART": "part", "STATE": "state", "WORKER": "worker_id", "RESTARTS": "restarts"}
        print_answer(args.output, Answer(rows, columns, name="part", document=document, items=[document]))
        return 0
    print(f"Connector {name} ({info['type']})")
    for key, value in sorted(shown(info["config"]).items()):
        print(f"  {key}={value}")
    for each in [status["connector"], *status["tasks"]] if status else []:
        restarts = f", {each['restarts']} automatic restarts" if each.get("restarts") else ""
        print(f"{_part(each)}: {each['state']} on {each['worker_id']}{restarts}")
        for line in (each.get("trace") or "").splitlines()[-TRACE_LINES:]:
            print(f"    {line}")
    print(f"topics: {', '.join(document['topics']) or 'none so far'}")
    for each in document["offsets"]:
        print(f"offset: {_shown(each['partition'])} -> {_shown(each['offset'])}")
    return 0


def _or_none(ask: Callable[[], Any]) -> Any:
    """Return an answer, None where the worker refuses this part: it may be disabled, or not be known yet."""
    try:
        return ask()
    except RestError as error:
        if not error.status:
            raise
        return None


def _part(found: Mapping[str, Any]) -> str:
    return f"task {found['id']}" if "id" in found else "connector"


def _shown(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else ", ".join(f"{key}={value}" for key, value in found.items())


def create(worker: Worker, args: Namespace) -> int:
    """Create the connectors of some files, or change them."""
    from ottla.cli.commands.connect_standalone import read_connector

    for path in args.files:
        name, config, state = read_connector(path)
        if args.replace:
            worker.connector("PUT", name, "/config", config)
        else:
            body = {"name": name, "config": config, **({} if state is None else {"initial_state": state})}
            worker.ask("POST", "/connectors", body)
        print(f"{name}: {'configured' if args.replace else 'created'}")
    return 0


def _each(worker: Worker, args: Namespace, method: str, rest: str, done: str) -> int:
    """Ask the same of several connectors; 1 where any is refused."""
    failed = False
    for name in args.connectors:
        try:
            worker.connector(method, name, rest)
            print(f"{name}: {done}")
        except RestError as error:
            warn(f"{name}: {error}")
            failed = True
            if not error.status:
                break
    return 1 if failed else 0


def restart(worker: Worker, args: Namespace) -> int:
    """Restart connectors with their tasks; by default only what has failed."""
    if args.task is not None:
        return _each(worker, args, "POST", f"/tasks/{args.task}/restart", f"task {args.task} restarted")
    failed_only = "false" if args.all else "true"
    done = "restarted" if args.all else "what had failed is restarted"
    return _each(worker, args, "POST", f"/restart?includeTasks=true&onlyFailed={failed_only}", done)


def offsets(worker: Worker, args: Namespace) -> int:
    """Print, set or reset a connector's offsets."""
    name = args.connector
    if args.reset and args.set:
        raise UsageError("--reset and --set do not go together")
    if args.reset:
        print(worker.connector("DELETE", name, "/offsets")["message"])
        return 0
    if args.set:
        with open(args.set, encoding="utf-8") as file:
            body = json.load(file)
        print(
            worker.connector("PATCH", name, "/offsets", body if isinstance(body, dict) else {"offsets": body})[
                "message"
            ]
        )
        return 0
    found = worker.connector("GET", name, "/offsets")
    rows = [{"partition": each["partition"], "offset": each["offset"]} for each in found["offsets"]]
    return _print(args, Answer(rows, {"PARTITION": "partition", "OFFSET": "offset"}, document=found))


def plugins(worker: Worker, args: Namespace) -> int:
    """Print what is installed on the worker."""
    rows = worker.ask("GET", f"/connector-plugins?connectorsOnly={'false' if args.all else 'true'}")
    return _print(args, Answer(rows, {"CLASS": "class", "TYPE": "type", "VERSION": "version"}, name="class"))

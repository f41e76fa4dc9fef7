"""`ottla`: finds the noun's module, runs it, and turns every error into one line and exit code 1."""

from __future__ import annotations

from ottla.cli import quiet_start

# isort: split
import os
import sys
from importlib import import_module
from io import TextIOWrapper

from ottla import __version__
from ottla.base import UMASK, UMASK_DEFAULT, OttlaError, UnwritableError, bring_extra, parse_umask
from ottla.cli.build_kind import build_kind, why_pure
from ottla.cli.kafka_names import SCRIPTS

quiet_start.is_over()

__all__ = ["main"]

NOUNS = {
    "server": "start or stop a broker, or format its folders first",
    "topics": "create, list, describe, alter and delete topics",
    "consume": "print records, from anywhere to anywhere",
    "produce": "write records: lines, a format, or JSON lines",
    "acls": "say who may do what: add, list and remove ACLs",
    "configs": "describe and alter configurations and quotas",
    "console-producer": "write lines from standard input to a topic",
    "console-consumer": "print a topic's records",
    "get-offsets": "print partitions' offsets, by time too",
    "consumer-groups": "list, describe and delete consumer groups, and reset their offsets",
    "groups": "list the groups of every kind",
    "transactions": "list, describe, find and abort transactions",
    "delegation-tokens": "make, print, renew and end logins to hand on",
    "delete-records": "drop the records before an offset",
    "reassign-partitions": "move partitions between brokers and disks",
    "leader-election": "have partitions led by another of their copies",
    "log-dirs": "print what lies in the brokers' data folders",
    "cluster": "run a cluster on this machine, stop and break its nodes; print a cluster's id and endpoints",
    "broker-api-versions": "print which APIs each broker offers",
    "metadata-quorum": "describe the quorum that keeps the cluster's metadata",
    "features": "describe and change which features are on",
    "storage": "format log directories, and print their identities",
    "security": "make an authority and certificates, to try security with",
    "context": "keep clusters under names, and choose the current one",
    "doctor": "examine a cluster from here, and say what to do",
    "completion": "print what teaches bash, zsh or fish to complete commands",
    "producer-perf-test": "measure how fast records are written",
    "consumer-perf-test": "measure how fast records are read",
    "e2e-latency": "measure how long a record takes from producer to consumer",
    "verifiable-producer": "write integers, and print an event for each",
    "verifiable-consumer": "read as a member of a group, and print every event",
    "dump-log": "print what is in a partition's files",
    "run-class": "run what one of Kafka's Java classes is for",
    "generate": "print a Grafana dashboard, Prometheus alert rules or a scrape job",
    "examples": "list, find and copy the programs that the pages tell of",
    "home": "print the folder for KAFKA_HOME, with bin and config",
    "registry": "run a schema registry; list, show, register, check, delete and move schemas",
    "console": "show a cluster in the browser, look into its topics, and change it",
    "sql": "type ksqlDB's SQL, run its server, test statements without a broker",
    "connect-distributed": "run one of a group of Connect workers",
    "connect": "look at connectors, create, pause, restart and remove them",
    "connect-mirror-maker": "mirror clusters: topics, groups' offsets, entries of access (MirrorMaker 2)",
    "connect-standalone": "run one Connect worker, with the connectors of some files",
    "streams": "run a Streams application on Spark, look at its plan, ask its stores",
    "streams-application-reset": "have a Streams application process its input anew",
    "word-count": "count words on Spark, from topic to topic, until stopped",
    "dev": "run broker, registry, Connect, SQL and console here, with sample data",
    "demo": "count the words of real text on Spark, from topic to topic",
    "plan": "show what an action would change, and run it by its hash",
}
"""Every noun, with what it does; its module is of the same name."""

SECTIONS = {
    "To begin with": (
        "server",
        "topics",
        "produce",
        "consume",
        "console",
        "doctor",
        "security",
        "context",
        "completion",
        "dev",
        "demo",
    ),
    "Administration, as Kafka's tools do it": (),
    "Files, measurements and scripts": (
        *("dump-log", "producer-perf-test", "consumer-perf-test", "e2e-latency"),
        *("verifiable-producer", "verifiable-consumer", "generate", "run-class", "home", "examples", "word-count"),
    ),
}
"""How `ottla --help` groups the nouns; those that are named nowhere stand in the second section."""

KEEPING = frozenset(
    {
        *(
            "server",
            "cluster",
            "storage",
            "security",
            "context",
            "registry",
            "console",
            "sql",
            "streams",
            "dev",
            "demo",
        ),
        *("connect", "connect-distributed", "connect-standalone", "connect-mirror-maker", "word-count"),
    }
)
"""Nouns that keep what others' rights or secrets are about: data, states, logs, sockets."""

EXTRAS = {
    **dict.fromkeys(("pyspark", "pyarrow", "numpy", "pandas", "sqlglot", "google"), "spark"),
    **dict.fromkeys(("sqlalchemy", "psycopg", "pymysqlreplication", "pymysql", "boto3", "fastavro"), "connect"),
    **dict.fromkeys(("cryptography", "joserfc"), "security"),
    **dict.fromkeys(("jsonschema", "referencing", "grpc_tools", "httpx2", "authlib", "cachetools"), "registry"),
    **dict.fromkeys(("h2", "h11", "prompt_toolkit"), "sql"),
    **dict.fromkeys(("msgpack", "cbor2"), "console"),
    "gssapi": "kerberos",
}
"""Which extra brings a package that not every installation has, by the name that it is imported by."""

INTERRUPTED = 130
"""The exit code after SIGINT, as shells have it."""
USAGE = "usage: ottla NOUN [options]     (ottla NOUN --help says more)"


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code, 0 where the reader of its output has gone (`| head`)."""
    _open_closed()
    try:
        try:
            return chosen(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except OSError as error:
        # what is still buffered must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"ottla: standard output: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _open_closed() -> None:
    """Open what this process was begun without (`2>&-`): errors would go to standard output, or to the next file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 for as long as the process runs


def chosen(args: list[str]) -> int:
    """Find out what is asked for, and do it; returns the exit code."""
    match args:
        case [] | ["-h" | "--help" | "help", *_]:
            print(help_text())
            return 0 if args else 1
        case ["--version" | "-v" | "-V" | "version", *_]:
            print(f"ottla {__version__} ({build_kind()})")
            if reason := why_pure():
                print(reason, file=sys.stderr)
            return 0
        case ["__complete", *words]:
            return run("complete", words)
        case [noun, *rest] if noun in NOUNS:
            return run(noun, rest)
        case [option, *rest] if option.startswith("-"):
            noun = next((word for word in rest if word in NOUNS), "NOUN")
            print(f"ottla: {option} comes behind the noun: `ottla {noun} {option} …`", file=sys.stderr)
            return 1
    print(f"ottla: {args[0]} is not a noun; {nearest(args[0])}`ottla --help` lists them", file=sys.stderr)
    return 1


def nearest(word: str) -> str:
    """Return a question for the noun that may have been meant, or nothing."""
    from difflib import get_close_matches

    script = word.removesuffix(".sh")
    if script in SCRIPTS:
        noun = " ".join(SCRIPTS[script])
        return (
            f"Kafka's script is `ottla {noun}` here; "
            if SCRIPTS[script][0] in NOUNS
            else "this version has nothing like it; "
        )
    found = get_close_matches(word, NOUNS, 1)
    return f"did you mean {found[0]}? " if found else ""


def run(noun: str, args: list[str]) -> int:
    """Run a noun and end as a program in a pipe should, whatever happens."""
    from ottla.cli.options import UsageError

    print_any_text()
    try:
        if noun in KEEPING:
            keep_private()
        code: int = import_module(f"ottla.cli.commands.{noun.replace('-', '_')}").main(args)
        return code
    except UsageError as error:
        hint = f"{error.hint} " if error.hint else ""
        print(f"{error}\n{hint}`ottla {noun} --help` lists the options.", file=sys.stderr)
        return 1
    except OttlaError as error:
        print(f"ottla {noun}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise  # `main` knows what to do
    except OSError as error:
        print(f"ottla {noun}: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        words = f"it needs the Python package {package}, which is not installed: {bring_extra(EXTRAS[package])}"
        print(f"ottla {noun}: {words}", file=sys.stderr)
        return 1
    except UnwritableError as error:
        print(f"ottla {noun}: a value is beyond what the protocol carries: {error}", file=sys.stderr)
        return 1
    except UnicodeEncodeError as error:
        print(f"ottla {noun}: {error.object[:100]!a} is no text: it has bytes that are not UTF-8", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def keep_private() -> None:
    """Create no file from here on that others may read, unless the environment says which they may."""
    mask = parse_umask(os.environ.get(UMASK, ""))
    if mask is None:
        mask = os.umask(UMASK_DEFAULT) | UMASK_DEFAULT
    os.umask(mask)


def print_any_text() -> None:
    """See to it that a terminal which is not UTF-8 shows what it lacks as `?`, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


def help_text() -> str:
    """Return what `ottla --help` prints."""
    width = max(map(len, NOUNS))
    named = {noun for nouns in SECTIONS.values() for noun in nouns}
    lines = [USAGE]
    for title, nouns in SECTIONS.items():
        lines += ["", f"{title}:"]
        shown = nouns or [noun for noun in NOUNS if noun not in named]
        lines += [f"  {noun:<{width}}  {NOUNS[noun]}" for noun in shown if noun in NOUNS]
    return "\n".join([*lines, "", f"  {'--version':<{width}}  print the version, and `compiled` or `pure`"])


if __name__ == "__main__":
    sys.exit(main())

"""The steps of `make nightly`, what each proves, and the record of their last runs in `docs/proofs.json`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "proofs.json"
PYTHON = ".venv/bin/python"
IN_COMPAT = (
    "tests/streams/test_java_live.py",
    "tests/spark/test_query_kills.py",
    "tests/connect/distributed/test_kill.py",
)
"""Tests that `make compat` runs although they stand in other folders."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its command, why it is not in every run, and the folders whose changes make its last run old."""

    name: str
    reason: str
    command: tuple[str, ...]
    proves: tuple[str, ...]

    def is_named(self, name: str) -> bool:
        """Tell whether a name means this step: its own, or its family's, which is what stands before the slash."""
        return name in (self.name, self.name.partition("/")[0])


@dataclass(frozen=True, slots=True)
class Ran:
    """A step's last run: the day (UTC), the commit (with + where the tree had changes), real seconds, and what it said."""

    day: str
    commit: str
    seconds: int
    passed: bool
    said: str


def read() -> dict[str, Ran]:
    """Return the record: for each step that ever ran, its last run."""
    return {name: Ran(**each) for name, each in json.loads(RECORD.read_text()).items()} if RECORD.exists() else {}


def write(name: str, ran: Ran) -> None:
    """Put a step's run into the record, and the page of the record anew."""
    from gen_proofs import PAGE, page

    record = read() | {name: ran}
    for path, text in ((RECORD, text_of(record)), (PAGE, page(record))):
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.write_text(text)
        new.replace(path)


def text_of(record: Mapping[str, Ran]) -> str:
    """Return the record as it stands in the file: one line a step."""
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(record[name]))}" for name in sorted(record))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make(*words: str) -> tuple[str, ...]:
    """Return the command of a target."""
    return ("make", "--no-print-directory", *words)


def _slow() -> list[Step]:
    """Return a step for each folder with slow tests, without what `make compat` and `make wheels` run."""
    tests = ROOT / "tests"
    texts = ((path.relative_to(tests), path.read_text()) for path in sorted(tests.rglob("test_*.py")))
    found = {path.parts[0] for path, text in texts if len(path.parts) > 1 and re.search(r"\bmark\.slow\b", text)}
    return [_slow_of(folder) for folder in sorted(found - {"compat", "packaging"})]


def _slow_of(folder: str) -> Step:
    own = ROOT / "src" / "ottla" / folder
    command = (PYTHON, "-m", "pytest", "-q", "-m", "slow and not peer", f"tests/{folder}")
    return Step(
        f"slow/{folder}",
        "each takes a minute or more, and what they find has seldom been broken by a small change",
        (*command, *(f"--ignore={each}" for each in IN_COMPAT)),
        (f"src/ottla/{folder}" if own.is_dir() else "src/ottla", f"tests/{folder}"),
    )


def _compat() -> list[Step]:
    """Return a step for each file of `make compat`, and one for the slow comparisons with Apache Kafka."""
    own = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "compat").glob("test_*.py"))
    strange = "clients and tools that nobody here wrote start slowly, and only a change of the protocol breaks them"
    proves = ("src/ottla/wire", "src/ottla/broker", "src/ottla/cli")
    each = [
        Step(
            f"compat/{Path(file).stem.removeprefix('test_')}",
            strange,
            make("compat-files", f"FILES={file}"),
            (*proves, file),
        )
        for file in [*own, *IN_COMPAT]
    ]
    return [
        *each,
        Step("compat/peer", "Apache Kafka itself starts slowly", make("compat-peer"), (*proves, "tests/peer")),
    ]


def _mutations(name: str, module: str, room: str, *words: str) -> Step:
    reason = "they ask whether the tests would find a fault, which changes only as tests do; the longest steps by far"
    return Step(f"mutations/{name}", reason, (PYTHON, "-m", module, *words), (room,))


BROKER = ("broker", "log", "raft", "replica", "groups", "transactions")
STREAMS = ("streams", "spark/streams", "spark/continuous")
CONNECT = ("connect", "spark/connect", "connectors")


def _rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"src/ottla/{each}" for each in names)


def steps() -> list[Step]:
    """Return all steps in their order; those of one family share the name before the slash."""
    spark = "each round starts a Spark session"
    return [
        *_slow(),
        *_compat(),
        Step(
            "wheels",
            "each Python needs a build and a Spark of its own",
            make("wheels"),
            ("setup.py", "tests/packaging"),
        ),
        Step(
            "fuzz", "a thousand examples of each property take an hour; every run draws fifty", make("fuzz"), _rooms("")
        ),
        Step(
            "fuzz-doors",
            "a test run has a few damaged statements and schemas, not thousands",
            make("fuzz-doors", "SECONDS=600"),
            _rooms("sql_server", "registry", "sql", "schemas"),
        ),
        Step(
            "fuzz-jdbc",
            "a test run has two dozen histories of tables that are altered while they are read and written",
            make("fuzz-jdbc", "SECONDS=3600"),
            ("src/ottla/connectors/jdbc", "tests/connectors/jdbc"),
        ),
        *(
            Step(
                f"fuzz-capture/{server}",
                "a test run has a few histories; what is left is found in hours",
                make("fuzz-capture", f"SERVER={server}", "SECONDS=3600"),
                ("src/ottla/connectors/cdc", "tests/fuzz_capture"),
            )
            for server in ("postgresql", "mariadb")
        ),
        Step(
            "fuzz-mirror",
            "a test run has a hundred schedules; this looks for an hour for one that loses a record",
            make("fuzz-mirror", "SECONDS=3600"),
            _rooms("mirror"),
        ),
        Step(
            "fuzz-registry",
            "a test run has some hundred runs; this looks for an hour for one that changes what an id means",
            make("fuzz-registry", "SECONDS=3600"),
            _rooms("registry/core"),
        ),
        Step("cost", "every API is asked in every version, twice", make("cost"), _rooms("broker", "sql", "schemas")),
        Step(
            "faults",
            "half an hour of system calls that fail, one after the other",
            make("faults"),
            _rooms("log", "broker"),
        ),
        Step(
            "sim",
            "a test run has worlds enough for a change; this looks for an hour for what nobody thought of",
            make("sim", "SECONDS=3600"),
            _rooms(*BROKER),
        ),
        _mutations("faults", "tests.faults.mutations", "tests/faults"),
        _mutations("named", "tests.sim.named_mutations", "tests/sim"),
        _mutations("sim", "tests.sim.mutations", "tests/sim"),
        _mutations("mirror", "tests.mirror.machine", "tests/mirror", "--mutations"),
        _mutations("registry", "tests.registry.machine", "tests/registry", "--mutations"),
        Step(
            "chaos",
            "real processes under load take a minute for each fault",
            make("chaos", "ROUNDS=30"),
            _rooms(*BROKER),
        ),
        Step("chaos-streams/micro-batch", spark, make("chaos-streams", "ROUNDS=100"), _rooms(*STREAMS)),
        Step(
            "chaos-streams/continuous", spark, make("chaos-streams", "MODE=continuous", "ROUNDS=100"), _rooms(*STREAMS)
        ),
        Step(
            "chaos-streams/model",
            "each failure at every step, in a model",
            make("chaos-streams", "MODEL=1"),
            _rooms(*STREAMS),
        ),
        Step(
            "chaos-connect",
            "two workers on Spark, a database and a store have to start, and to start again",
            make("chaos-connect", "ROUNDS=50"),
            _rooms(*CONNECT),
        ),
        Step(
            "connect-cases",
            "every failure at every step of the plainest connectors, and a real database: the sample has seldom missed one",
            make("chaos-connect", "MODEL=1"),
            _rooms(*CONNECT),
        ),
        Step(
            "soak",
            "one broker under everything at once shows leaks only in time",
            make("soak", "SECONDS=1800"),
            _rooms(*BROKER),
        ),
    ]

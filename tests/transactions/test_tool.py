"""`ottla transactions` beside Kafka's own tool, and a hanging transaction found and aborted."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator

import pytest

from ottla.cli.main import main
from tests import peer
from tests.server import Server, running_server
from tests.transactions.talker import Talker, transactional_batch

KAFKAS = "org.apache.kafka.tools.TransactionsCommand"


def ottla(server: Server, *args: str) -> tuple[int, str, str]:
    """Return exit code, output and error output of our command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["transactions", "--bootstrap-server", server.bootstrap, *args])
    return code, out.getvalue(), err.getvalue()


def kafkas(server: Server, *args: str) -> tuple[int, str, str]:
    """Return the same of Kafka's tool."""
    done = peer.tool(KAFKAS, "--bootstrap-server", server.bootstrap, *args)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def unverified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker that takes what clients write without asking, as brokers before KIP-890 did."""
    settings = ["transaction.partition.verification.enable=false"]
    with running_server(tmp_path_factory.mktemp("unverified"), overrides=settings) as running:
        yield running


@pytest.fixture(scope="module")
def begun(unverified: Server) -> Server:
    """The broker with one open transaction, and a producer without one."""
    with Talker(unverified.port) as talker:
        talker.create("tool", 2)
        talker.coordinate("tool")
        _, producer_id, epoch = talker.init("tool")
        for index in (0, 1):
            batch = transactional_batch(producer_id, epoch, 0, b"x")
            assert talker.produce("tool", "tool", batch, index=index) == 0
    return unverified


def test_listings_can_be_filtered(begun: Server) -> None:
    code, out, _ = ottla(begun, "list", "-o", "json")
    (found,) = json.loads(out)
    assert (code, found["transactionalId"], found["state"]) == (0, "tool", "Ongoing")
    assert "tool" in ottla(begun, "list", "--transactional-id-pattern", "t.*l")[1]
    assert "tool" not in ottla(begun, "list", "--transactional-id-pattern", "x.*")[1]
    assert "tool" not in ottla(begun, "list", "--duration-filter", "3600000")[1]
    code, _, err = ottla(begun, "list", "--transactional-id-pattern", "(")
    assert (code, "INVALID_REGULAR_EXPRESSION" in err) == (1, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["describe"], 'Missing required argument "[transactional-id]"'),
        (["find-hanging"], "requires either --topic or --broker-id"),
        (["find-hanging", "--partition", "1"], "The --partition argument requires --topic"),
        (["abort", "--topic", "tool", "--partition", "0"], "must be identified either with --start-offset"),
        (
            ["abort", "--topic", "tool", "--partition", "0", "--start-offset", "7"],
            "Could not find any open transactions",
        ),
        (["describe", "--transactional-id", "nope"], "failed because the ID could not be found"),
        (["describe-producers", "--topic", "tool"], 'Missing required argument "[partition]"'),
        (["nonsense"], "choose from list, describe"),
    ],
)
def test_mistakes_are_told_in_one_sentence(begun: Server, args: list[str], said: str) -> None:
    code, out, err = ottla(begun, *args)
    assert (code, out) == (1, "")
    assert said in err


def test_a_hanging_transaction_is_found_and_aborted(unverified: Server) -> None:
    with Talker(unverified.port) as talker:
        talker.create("hangs")
        batch = transactional_batch(4711, 3, 0, b"nobody knows this")
        assert talker.produce("unknown", "hangs", batch, version=9) == 0
        assert talker.end_offset("hangs") == 0
        search = ("find-hanging", "--topic", "hangs", "-o", "json", "--max-transaction-timeout")
        assert json.loads(ottla(unverified, *search, "1000")[1]) == []  # too young
        (found,) = json.loads(ottla(unverified, *search, "0")[1])
        assert (found["producerId"], found["producerEpoch"], found["startOffset"]) == (4711, 3, 0)
        abort = ("abort", "--topic", "hangs", "--partition", "0", "--start-offset", "0")
        assert ottla(unverified, *abort, "--dry-run")[1] == "would abort the transaction of producer 4711 in hangs-0\n"
        assert talker.end_offset("hangs") == 0
        assert ottla(unverified, *abort) == (0, "", "")
        assert talker.end_offset("hangs") == 2
        assert json.loads(ottla(unverified, *search, "0")[1]) == []


def test_an_open_transaction_that_its_coordinator_knows_does_not_hang(begun: Server) -> None:
    search = ("find-hanging", "--topic", "tool", "--max-transaction-timeout", "0", "-o", "json")
    assert json.loads(ottla(begun, *search)[1]) == []


def test_a_transactional_id_can_be_terminated(unverified: Server) -> None:
    with Talker(unverified.port) as talker:
        talker.create("ended")
        talker.coordinate("ended")
        _, producer_id, epoch = talker.init("ended")
        assert talker.produce("ended", "ended", transactional_batch(producer_id, epoch, 0, b"x")) == 0
        assert ottla(unverified, "forceTerminateTransaction", "--transactional-id", "ended") == (0, "", "")
        assert talker.end_offset("ended") == 2
        assert talker.end("ended", producer_id, epoch, commit=True)[0] != 0


@pytest.mark.peer
@pytest.mark.xdist_group("peer")
@pytest.mark.skipif(bool(peer.missing()), reason=peer.missing() or "")
@pytest.mark.parametrize(
    "args",
    [
        ["list"],
        ["describe", "--transactional-id", "tool"],
        pytest.param(["describe", "--transactional-id", "nope"], marks=pytest.mark.slow),
        pytest.param(["describe-producers", "--topic", "tool", "--partition", "1"], marks=pytest.mark.slow),
        pytest.param(["find-hanging", "--topic", "tool"], marks=pytest.mark.slow),
        ["abort", "--topic", "tool", "--partition", "0", "--start-offset", "7"],
    ],
)
def test_kafkas_tool_prints_the_same(begun: Server, args: list[str]) -> None:
    assert plain(ottla(begun, *args)) == plain(kafkas(begun, *args))


def plain(found: tuple[int, str, str]) -> tuple[int, str, str]:
    """Leave out what the time changes, and the order in which Kafka's tool names partitions."""
    code, out, err = found
    return code, re.sub(r"tool-1,tool-0", "tool-0,tool-1", re.sub(r"(\t)\d{3,5} +(?=\t)", r"\1-\t", out)), err.strip()

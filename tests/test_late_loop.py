"""Tests of services run on a loop whose order is drawn from the run's seed, and which is asyncio's in all else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.late_loop import ROOMS, late_loops

ROOT = Path(__file__).resolve().parent.parent
CLAIM = """
import asyncio

def test_two_tasks_run_in_order():
    async def main():
        seen = []
        async def note(name, come):
            await come
            seen.append(name)
        for _ in range(50):
            comes = [asyncio.get_running_loop().create_future() for _ in "ab"]
            notes = asyncio.gather(*map(note, "ab", comes))
            await asyncio.sleep(0.001)
            for come in comes:
                come.set_result(None)
            await notes
        assert "".join(seen) == "ab" * 50
    asyncio.run(main())
"""


def order(seed: str) -> str:
    """Return in which order tasks run of which each has what it awaits, all at once."""
    seen: list[str] = []

    begun: list[str] = []

    async def note(name: str, comes: asyncio.Future[None]) -> None:
        begun.append(name)
        await comes
        seen.append(name)

    async def main() -> None:
        futures: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in "abcdefgh"]
        notes = asyncio.gather(*map(note, "abcdefgh", futures))
        while len(begun) < len(futures):  # noqa: ASYNC110  # it counts turns
            await asyncio.sleep(0)
        for each in futures:
            each.set_result(None)
        await notes

    with late_loops(seed):
        asyncio.run(main())
    assert sorted(seen) == list("abcdefgh")
    return "".join(seen)


def test_a_seed_draws_one_order_and_seeds_draw_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.late_loop.WAITS", (0.0, 0.0)
    )  # the machine says which turn is so many milliseconds later
    orders = [order(str(seed)) for seed in range(20)]
    assert len(set(orders)) > 5
    assert orders == [order(str(seed)) for seed in range(20)]


def test_a_loop_that_a_test_makes_itself_has_its_own_order_again_afterwards() -> None:
    with late_loops("1"):
        late = asyncio.new_event_loop()
    quiet = asyncio.new_event_loop()
    try:
        assert type(late) is not type(quiet)
        assert isinstance(late, asyncio.SelectorEventLoop)
    finally:
        late.close()
        quiet.close()


def test_sockets_threads_and_timers_work_as_ever() -> None:
    async def main() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.readline():
                writer.write(data)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for number in range(200):
            line = b"%d\n" % number
            writer.write(line)
            assert await reader.readline() == line
        assert await asyncio.gather(*(asyncio.to_thread(int, each) for each in "0123")) == [0, 1, 2, 3]
        writer.close()
        server.close()

    with late_loops("sockets"):
        asyncio.run(main())


def test_every_room_that_is_named_has_tests() -> None:
    assert all(any((ROOT / "tests" / room).glob("test_*.py")) for room in ROOMS)


def test_what_holds_in_one_order_only_is_found_and_found_again_by_its_seed(tmp_path: Path) -> None:
    room = tmp_path / "tests" / "broker"
    room.mkdir(parents=True)
    (room / "test_it.py").write_text(CLAIM)
    script = (
        "import sys, pytest, tests.late_loop as it; from pathlib import Path; "
        f"it.__file__ = {str(tmp_path / 'tests' / 'late_loop.py')!r}; "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    options = ["-p", "no:xdist", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    said = [
        subprocess.run(
            [sys.executable, "-c", script, *options, "--hypothesis-seed=5", str(room)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            cwd=tmp_path,
        )
        for _ in range(2)
    ]
    shown = [[line for line in each.stdout.splitlines() if line.startswith("E ")] for each in said]
    assert all(each and "AssertionError" in each[0] for each in shown), said[0].stdout + said[0].stderr
    assert "loops their orders, with --hypothesis-seed=5" in said[0].stdout

"""A batch is written once and seen whole, wherever its writer dies."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.base import Offset, OffsetRange, TopicPartition
from ottla.connect import ConnectError
from ottla.connectors.filesystem.commits import Commits, Move
from tests.connectors.filesystem.local_files import DiedError, LocalFiles, TurnFiles, Turns, VolatileFiles

PARTITION = TopicPartition("t", 0)
FILES_A_BATCH = 3
BATCHES = 3


class Writer:
    """A sink and the group behind it: writes numbers into files, and commits how far it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.group: tuple[int, str | None] = (0, None)
        self.runs = 0

    def run(self, files: LocalFiles, batches: int) -> None:
        """Start as a worker does, and write until so many batches are written in all."""
        self.runs += 1
        token = f"run {self.runs}"
        commits = Commits(files, str(self.folder / "_ottla/c"))
        recovered = commits.recover()
        start = self.group[0]
        if recovered is not None:
            start = recovered.positions({PARTITION: (Offset(start), self.group[1])})[PARTITION]
        commits.begin(token, {PARTITION: start})
        files.work()
        self.group = start, token
        for batch in range(start // FILES_A_BATCH, batches):
            first = batch * FILES_A_BATCH
            folder = Path(commits.staging, f"{token}-{batch}")
            for number in range(first, first + FILES_A_BATCH):
                files.work()
                folder.mkdir(parents=True, exist_ok=True)  # as Spark's tasks do, one after another
                (folder / f"part-{number}").write_text(f"{number}\n")
            moves = [
                Move(path, f"{self.folder}/t+0+{path.rpartition('-')[2]}.txt", 2) for path in files.sizes(str(folder))
            ]
            commits.commit(token, [OffsetRange(PARTITION, Offset(first), Offset(first + FILES_A_BATCH))], moves)
            files.work()
            self.group = first + FILES_A_BATCH, token

    def seen(self) -> list[str]:
        """Return what a reader finds."""
        return sorted(path.read_text() for path in self.folder.glob("*.txt"))


def all_numbers() -> list[str]:
    return sorted(f"{number}\n" for number in range(BATCHES * FILES_A_BATCH))


@pytest.mark.parametrize("torn", [False, True])
def test_every_record_is_there_once_wherever_the_writer_dies(tmp_path: Path, torn: bool) -> None:
    whole = LocalFiles()
    Writer(tmp_path / "whole").run(whole, BATCHES)
    for step in range(1, whole.changes + 1):
        writer = Writer(tmp_path / f"{step}-{torn}")
        with pytest.raises(DiedError):
            writer.run(LocalFiles(dies_at=step, torn=torn), BATCHES)
        assert set(writer.seen()) <= set(all_numbers()), f"a reader saw half a file after step {step}"
        writer.run(LocalFiles(), BATCHES)
        assert writer.seen() == all_numbers(), f"died at step {step}"
        assert not list((tmp_path / f"{step}-{torn}" / "_ottla/c/staging").rglob("part-*")), "nothing is left staged"


@pytest.mark.parametrize("torn", [False, True])
def test_every_record_is_there_once_when_the_recovery_dies_as_well(tmp_path: Path, torn: bool) -> None:
    for second in range(1, 6):
        writer = Writer(tmp_path / f"{second}-{torn}")
        with pytest.raises(DiedError):
            writer.run(LocalFiles(dies_at=4), BATCHES)
        with pytest.raises(DiedError):
            writer.run(LocalFiles(dies_at=second, torn=torn), BATCHES)
        writer.run(LocalFiles(), BATCHES)
        assert writer.seen() == all_numbers(), f"the recovery died at step {second}"


def test_every_record_is_there_once_wherever_the_power_fails(tmp_path: Path) -> None:
    whole = VolatileFiles({})
    Writer(tmp_path / "whole").run(whole, BATCHES)
    for step in range(1, whole.changes + 2):  # the last one fails after all is done
        folder = tmp_path / str(step)
        writer, disk = Writer(folder), VolatileFiles({}, dies_at=step)
        if step <= whole.changes:
            with pytest.raises(DiedError):
                writer.run(disk, BATCHES)
        else:
            writer.run(disk, BATCHES)
        disk.lose_power(folder)
        again = VolatileFiles(disk.durable)
        writer.run(again, BATCHES)
        assert writer.seen() == all_numbers(), f"the power failed at step {step}"
        again.lose_power(folder)
        assert writer.seen() == all_numbers(), f"the power failed at step {step}, and once more after the recovery"


def test_offsets_that_an_operator_sets_back_are_written_again_into_the_same_files(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.run(LocalFiles(), BATCHES)
    writer.group = 0, None
    writer.run(LocalFiles(), BATCHES)
    assert writer.seen() == all_numbers()


def test_of_two_workers_that_run_the_same_connector_one_gives_way(tmp_path: Path) -> None:
    one, other = (Commits(LocalFiles(), str(tmp_path)) for _ in range(2))
    one.recover(), other.recover()
    one.begin("a", {})
    with pytest.raises(ConnectError, match="another worker runs the same connector"):
        other.begin("b", {})


def test_a_run_that_was_replaced_decides_nothing_of_which_files_were_cleared_away(tmp_path: Path) -> None:
    """It stood still while Spark wrote: the files from before are gone, those from after are all that it finds."""
    writer, batch = Writer(tmp_path), OffsetRange(PARTITION, Offset(0), Offset(FILES_A_BATCH))
    replaced = Commits(LocalFiles(), str(tmp_path / "_ottla/c"))
    replaced.recover()
    replaced.begin("replaced", {PARTITION: 0})
    newer = Commits(LocalFiles(), str(tmp_path / "_ottla/c"))
    newer.recover()
    newer.begin("newer", {PARTITION: 0})
    left = Path(replaced.staging, "part-2")
    left.parent.mkdir(parents=True)
    left.write_text("2\n")
    with pytest.raises(ConnectError, match="another worker runs the same connector"):
        replaced.commit("replaced", [batch], [Move(str(left), f"{tmp_path}/t+0+2.txt", 2)])
    writer.run(LocalFiles(), BATCHES)
    assert writer.seen() == all_numbers()


@pytest.mark.parametrize(("batches", "every"), [(1, 3), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_every_record_is_there_once_wherever_two_runs_take_turns(tmp_path: Path, batches: int, every: int) -> None:
    """The first stands still at each of its steps, the second at each of its own, and both go on where they were."""
    steps_max = 1000
    alone = TurnFiles(Turns([]), "alone")
    Writer(tmp_path / "alone").run(alone, batches)
    for first in range(1, alone.changes + 1):
        for second in range(1 + first % every, alone.changes + 1, every):
            writer = Writer(tmp_path / f"{first}-{second}")
            turns = Turns([("first", first), ("second", second), ("first", steps_max), ("second", steps_max)])
            ends = [_ending(writer, TurnFiles(turns, name), batches) for name in ("first", "second")]
            for each in ends:
                each.join()
            writer.run(LocalFiles(), BATCHES)
            assert writer.seen() == all_numbers(), f"the first stood still at step {first}, the second at {second}"
            shutil.rmtree(tmp_path / f"{first}-{second}")


def _ending(writer: Writer, files: TurnFiles, batches: int) -> threading.Thread:
    """Run in a thread that ends with the run, in whatever way."""

    def run() -> None:
        try:
            with suppress(ConnectError, OSError):
                writer.run(files, batches)
        finally:
            files.end()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_commit_files_do_not_grow_in_number_without_end(tmp_path: Path) -> None:
    commits = Commits(LocalFiles(), str(tmp_path))
    for number in range(120):
        commits.recover()
        commits.begin("a", {PARTITION: number})
    assert len(list((tmp_path / "commits").iterdir())) == 100
    for number in range(120):
        commits.commit("a", [OffsetRange(PARTITION, Offset(number), Offset(number + 1))], [])
    assert len(list((tmp_path / "commits").iterdir())) == 100
    recovered = Commits(LocalFiles(), str(tmp_path)).recover()
    assert recovered is not None and recovered.ends == {PARTITION: 120}

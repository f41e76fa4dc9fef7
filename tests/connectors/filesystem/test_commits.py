"""A batch is written once and seen whole, wherever its writer dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import Offset, OffsetRange, TopicPartition
from ottla.connect import ConnectError
from ottla.connectors.filesystem.commits import Commits, Move
from tests.connectors.filesystem.local_files import DiedError, LocalFiles, VolatileFiles

PARTITION = TopicPartition("t", 0)
FILES_A_BATCH = 3
BATCHES = 3


class Writer:
    """A sink and the group behind it: writes numbers into files, and commits how far it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.group: tuple[int, str] = (0, "")
        self.runs = 0

    def run(self, files: LocalFiles, batches: int) -> None:
        """Start as a worker does, and write until so many batches are written in all."""
        self.runs += 1
        commits = Commits(files, str(self.folder / "_ottla/c"))
        recovered = commits.recover()
        start, token = self.group
        if recovered is not None and recovered.token == token:
            start = max(start, recovered.ends[PARTITION])
        token = f"run {self.runs}"
        self.group = start, token
        for batch in range(start // FILES_A_BATCH, batches):
            first = batch * FILES_A_BATCH
            moves = []
            for number in range(first, first + FILES_A_BATCH):
                staged = Path(commits.staging, f"{token}-{batch}", f"part-{number}")
                staged.parent.mkdir(parents=True, exist_ok=True)
                staged.write_text(f"{number}\n")
                moves.append(Move(str(staged), str(self.folder / f"t+0+{number}.txt"), 2))
            commits.commit(token, [OffsetRange(PARTITION, Offset(first), Offset(first + FILES_A_BATCH))], moves)
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
    writer.group = 0, ""
    writer.run(LocalFiles(), BATCHES)
    assert writer.seen() == all_numbers()


def test_of_two_workers_that_run_the_same_connector_one_gives_way(tmp_path: Path) -> None:
    one, other = (Commits(LocalFiles(), str(tmp_path)) for _ in range(2))
    one.recover(), other.recover()
    one.commit("a", [OffsetRange(PARTITION, Offset(0), Offset(1))], [])
    with pytest.raises(ConnectError, match="another worker runs the same connector"):
        other.commit("b", [OffsetRange(PARTITION, Offset(0), Offset(1))], [])


def test_commit_files_do_not_grow_in_number_without_end(tmp_path: Path) -> None:
    commits = Commits(LocalFiles(), str(tmp_path))
    commits.recover()
    for number in range(120):
        commits.commit("a", [OffsetRange(PARTITION, Offset(number), Offset(number + 1))], [])
    assert len(list((tmp_path / "commits").iterdir())) == 100
    recovered = Commits(LocalFiles(), str(tmp_path)).recover()
    assert recovered is not None and recovered.ends == {PARTITION: 120}

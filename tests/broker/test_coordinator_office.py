"""A coordinator's office: when it is taken, what can be asked of it, and what the clock does in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, StorageError
from ottla.broker.coordinators.rounds import rounds
from ottla.broker.coordinators.shard import RunningShard, ShardState
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from tests.broker.group_script import (
    Teller,
    commit_request,
    fetch_request,
    heartbeat_request,
    join_request,
    sync_request,
)
from tests.broker.hooked_disk import HookedDisk, broken, gone
from tests.broker.node_client import NodeClient, parts, run, running_node
from tests.broker.test_coordinator import SETTINGS, Copied, code, copied, read
from tests.waiting import until_async

SHORT = (*SETTINGS, "group.min.session.timeout.ms=1")


async def joined(client: NodeClient, group_id: str, session_ms: int = 30_000) -> str:
    """Let one member join a group, and have its generation begin; return its id."""
    await Teller(client, lambda: NodeClient.connect(client.node)).ready(group_id)
    required = await client.ask(join_request(group_id, session_ms=session_ms), 9)
    answer = await client.ask(join_request(group_id, required.member_id, session_ms=session_ms), 9)
    member_id: str = answer.member_id
    synced = await client.ask(sync_request(member_id, 1, member_id, group_id=group_id), 5)
    assert (answer.error_code, synced.error_code) == (0, 0)
    return member_id


def held(client: NodeClient) -> LocalPartition:
    found = parts(client.node).partitions.get("__consumer_offsets", 0)
    assert found is not None
    return found


async def commit(client: NodeClient) -> OffsetCommitResponse:
    """Commit an offset of a group without members."""
    answer: OffsetCommitResponse = await client.ask(commit_request(5, group_id="g"), 9)
    return answer


async def offset_of(client: NodeClient, group_id: str = "g") -> tuple[int, int]:
    """Return the code of an OffsetFetch, and what is committed for `t`-0."""
    group = (await client.ask(fetch_request(9, group_id, partitions=(0,)), 9)).groups[0]
    return group.error_code, -1 if group.error_code else group.topics[0].partitions[0].committed_offset


def test_a_coordinator_whose_directory_is_offline_answers_for_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await client.create("t")
            member_id = await joined(client, "g")
            assert code(await client.ask(commit_request(5, group_id="g", member_id=member_id, generation=1), 9)) == 0
            node: Any = client.node
            parts(node).partitions.get("__consumer_offsets", 0).go_offline()
            assert (await offset_of(client))[0] == ErrorCode.NOT_COORDINATOR
            assert (await client.ask(heartbeat_request(member_id, 1))).error_code == ErrorCode.NOT_COORDINATOR
            assert not (await client.ask(ListGroupsRequest(), 4)).groups

    run(test)


def test_a_coordinator_under_min_isr_takes_office_and_only_reads(tmp_path: Path) -> None:
    """Its log has all that was ever acknowledged, and nobody can commit more; Kafka's coordinator serves then, too."""

    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            partition = await copied(client)
            member_id = ""
            client.send(commit_request(5, group_id="g"), 9)
            while not partition.held.log.log_end_offset:
                await read(client)
            replica = partition.held.replica
            partition.held.min_insync_replicas = replica.min_insync_replicas = 2
            partition.follow()
            assert code(await client.receive(commit_request(5, group_id="g"), 9)) is ErrorCode.NOT_COORDINATOR
            partition._become(replica.leader_epoch + 1, client.node.config.node_id, in_sync=1)
            partition._tell()
            assert replica.high_watermark == 0
            while (found := await offset_of(client))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert found == (0, 5)
            assert code(await client.ask(commit_request(6, group_id="g"), 9)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await offset_of(client) == (0, 5)
            unknown = await client.ask(heartbeat_request(member_id, 1))
            assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID, "an answer that writes nothing does not wait"
            partition._become(replica.leader_epoch, client.node.config.node_id)
            partition.fetch()
            client.send(commit_request(7, group_id="g"), 9)
            while partition.held.log.log_end_offset < 2:
                await read(client)
            partition.fetch()
            assert code(await client.receive(commit_request(7, group_id="g"), 9)) is ErrorCode.NONE
            assert await offset_of(client) == (0, 7)

    run(test)


def test_a_shard_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("ottla.broker.coordinators.coordinator.LOAD_RETRY_S", 0.01)
        async with running_node(tmp_path, *SETTINGS) as client:
            await client.create("t")
            await Teller(client, lambda: NodeClient.connect(client.node)).ready("g")
            assert code(await client.ask(commit_request(5, group_id="g"), 9)) is ErrorCode.NONE
            node: Any = client.node
            groups, held = parts(node).groups, parts(node).partitions.get("__consumer_offsets", 0)
            failures = [StorageError("Too many open files"), ValueError("a mistake of ours")]
            replay = groups._replay

            async def failing(running: Any) -> int:
                if failures:
                    await replay(running)  # what was taken in before the failure must not count twice
                    raise failures.pop()
                return int(await replay(running))

            groups._replay = failing
            groups._unload(0)
            groups._load(0, held)
            while (found := await offset_of(client))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert found == (0, 5)
            assert not failures

    run(test)


def test_a_decision_that_cannot_be_appended_stops_no_other_and_comes_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SHORT) as client:
            members = {group_id: await joined(client, group_id) for group_id in ("a", "b")}
            node: Any = client.node
            groups = parts(node).groups
            running = groups._shards[0]
            groups._timer.cancel()
            append, refused = groups._append, []

            def refused_once(running: Any, decision: Any) -> None:
                if not refused:
                    refused.append(decision)
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")
                append(running, decision)

            groups._append = refused_once
            now_ms = groups.now_ms() + 60_000
            groups.now_ms = lambda: Millis(now_ms)
            groups._heed_deadlines(running)
            assert refused
            assert [bool(running.shard.groups[each].members) for each in members] == [True, False]
            now_ms += 1000
            groups._heed_deadlines(running)
            assert not any(running.shard.groups[each].members for each in members)

    run(test)


def test_whose_session_has_ended_is_gone_before_the_next_request(tmp_path: Path) -> None:
    """The timer itself may come a moment later, since the loop has other work."""

    async def test() -> None:
        async with running_node(tmp_path, *SHORT) as client:
            await joined(client, "g", 30_000)
            node: Any = client.node
            groups = parts(node).groups
            groups._timer.cancel()
            deadline_ms = max(groups._shards[0].shard.timers._due.values())
            deleted = (await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0]
            assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP
            groups.now_ms = lambda: Millis(deadline_ms)
            deleted = (await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0]
            assert deleted.error_code == ErrorCode.NONE

    run(test)


def test_a_timer_comes_within_the_millisecond_in_which_it_is_due(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await joined(client, "g")
            node: Any = client.node
            groups = parts(node).groups
            deadline_ms = groups._shards[0].shard.next_deadline()
            groups._set_timer(deadline_ms)
            for _ in range(1000):  # whatever fraction of a second the broker has started at
                groups._started_s += 0.000_123_456_7
                groups._timer.cancel()
                groups._timer = None
                groups._set_timer(deadline_ms)
                at_s = groups._timer_s
                found_ms = groups._started_ms + int((at_s - groups._started_s) * 1000)
                assert found_ms == deadline_ms
                assert at_s - groups._started_s < (deadline_ms - groups._started_ms) / 1000 + 0.001

    run(test)


def test_commits_say_when_they_were_made_by_the_wall_clock_as_it_is_now(tmp_path: Path) -> None:
    """A broker that starts with a wrong clock would else write it into records for as long as it runs."""

    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await client.create("t")
            member_id = await joined(client, "g")
            node: Any = client.node
            groups = parts(node).groups
            later_ms = groups._clock.now_ms() + 400 * 86_400_000

            class Corrected:
                def now_ms(self) -> Millis:
                    return Millis(later_ms)

            groups._clock = Corrected()
            request = commit_request(5, group_id="g", member_id=member_id, generation=1)
            assert code(await client.ask(request, 9)) is ErrorCode.NONE
            shard = groups._shards[0].shard
            assert shard.offsets.get("g", "t", 0).commit_ms == later_ms
            assert (await client.ask(heartbeat_request(member_id, 1))).error_code == 0, "no session ended by that"
            groups._heed_deadlines(groups._shards[0])
            assert shard.groups["g"].members

    run(test)


LEGAL = {("LOADING", "ACTIVE"), ("LOADING", "FAILED"), ("FAILED", "LOADING")} | {
    (state, "UNLOADED") for state in ("LOADING", "FAILED", "ACTIVE")
}


@pytest.mark.parametrize("before", ShardState)
@pytest.mark.parametrize("after", ShardState)
def test_a_shard_takes_office_only_after_loading_and_never_once_it_was_let_go(
    before: ShardState, after: ShardState
) -> None:
    partition: Any = SimpleNamespace(key="__consumer_offsets-0")
    shard: RunningShard[Any] = RunningShard(partition, 1, None, None, state=before)
    if (before.name, after.name) in LEGAL:
        shard.become(after)
        assert shard.is_active == (after is ShardState.ACTIVE)
    else:
        with pytest.raises(AssertionError):
            shard.become(after)


def test_a_group_about_which_nothing_could_be_appended_at_loading_gets_its_timers_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *SETTINGS) as client:
            await joined(client, "g")
            node: Any = client.node
            groups, partition = parts(node).groups, Copied(client)
            running = groups._shards[0]
            running.shard.timers.change([(timer, None) for timer in list(running.shard.timers._due)])
            append, failed = groups._append, []

            def refused_once(running: Any, decision: Any) -> None:
                if not failed:
                    failed.append(decision)
                    running.partition.check_writable(-1)
                append(running, decision)

            partition.held.min_insync_replicas = 2
            partition.shrink()
            groups._append = refused_once
            running.state = ShardState.LOADING
            groups._activate(running)
            assert failed
            assert [timer.kind for timer in running.shard.timers._due] == ["loaded"]
            partition.held.min_insync_replicas = 1
            groups.now_ms = lambda: Millis(running.shard.next_deadline())
            groups._heed_deadlines(running)
            assert [timer.kind for timer in running.shard.timers._due] == ["classic-heartbeat"]

    run(test)


@pytest.mark.parametrize("failure", [broken, gone])
def test_what_a_coordinator_meets_while_it_is_loaded_costs_what_it_costs_anybody(
    tmp_path: Path, failure: Callable[[str], StorageError]
) -> None:
    """A dead disk, or files that are gone: the cluster has to hear of it, since another copy can be loaded."""

    async def test() -> None:
        async with running_node(tmp_path / "a", *SETTINGS, f"log.dirs={tmp_path}/a,{tmp_path}/b") as client:
            await client.create("t")
            await Teller(client, lambda: NodeClient.connect(client.node)).ready("g")
            assert code(await commit(client)) == 0
            path = str(held(client).log.segments[0].paths()[0])
        disk = HookedDisk()

        def fail(call: str, at: str) -> None:
            if call == "pread" and at == path and threading.current_thread() is not threading.main_thread():
                Path(path).unlink(missing_ok=True)
                raise failure(at)

        disk.hook = fail
        async with running_node(tmp_path / "a", *SETTINGS, f"log.dirs={tmp_path}/a,{tmp_path}/b", disk=disk) as client:
            await until_async(lambda: held(client).is_offline)
            assert held(client).is_lost is (failure is gone)
            assert (await offset_of(client))[0] == ErrorCode.NOT_COORDINATOR

    run(test)


def test_a_round_that_fails_does_not_end_the_rounds() -> None:
    async def test() -> None:
        done: list[int] = []
        over = asyncio.Event()

        async def work() -> None:
            done.append(len(done))
            if len(done) == 1:
                raise RuntimeError("a fault of our own")
            over.set()

        task = asyncio.ensure_future(rounds("A test", lambda: 0, work))
        await over.wait()
        task.cancel()
        assert len(done) >= 2

    run(test)

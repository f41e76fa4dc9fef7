"""A node asks the active controller, which is itself where it leads the quorum alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.broker.node_client import parts, run, running_node


def test_the_controller_is_asked_in_process_where_the_node_leads_the_quorum(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            assert services.controller.is_here
            epoch = services.quorum.image.brokers[services.node_id].epoch
            message = AllocateProducerIdsRequest(broker_id=services.node_id, broker_epoch=epoch)
            first = await services.controller.ask(message)
            second = await services.controller.ask(message)
            assert first.error_code == second.error_code == 0
            assert second.producer_id_start == first.producer_id_start + first.producer_id_len
            stale = await services.controller.ask(message.replace(broker_epoch=epoch - 1))
            assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    run(test)


def test_a_question_ends_with_its_time_and_with_the_node(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            services = parts(client.node)
            message = AllocateProducerIdsRequest(broker_id=services.node_id, broker_epoch=0)
            with pytest.raises(KafkaError) as late:
                await services.controller.ask(message, timeout_ms=0)
            assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
            await services.controller.close()
            with pytest.raises(KafkaError) as closed:
                await services.controller.ask(message)
            assert closed.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(test)

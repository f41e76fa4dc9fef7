"""Producers of a simulated cluster: idempotent ones that send again as librdkafka does, and plain ones that never do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from ottla.base import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.sim.batches import ProducerIdentity, batch_of, values_of
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients, Link
from tests.sim.cluster.ledger import Promises
from tests.sim.ledger import Violation

__all__ = ["produce_idempotently", "produce_in_bursts", "produce_plainly"]

IN_FLIGHT_MAX = 5
BURST_MAX = 12
SEVERAL_SHARE = 0.4
"""Of the bursts, with batches of several partitions in each request."""
RETRY_S = 0.1


def _batch(clients: Clients, values: list[bytes], **identity: Unpack[ProducerIdentity]) -> bytes:
    return bytes(batch_of(clients.rng, clients.style, clients.now_ms(), values, **identity))


def produce_request(clients: Clients, topic: str, index: int, acks: int, records: bytes) -> ProduceRequest:
    """Return the request for one batch."""
    return several_request(clients, acks, {(topic, index): records})


def several_request(clients: Clients, acks: int, batches: dict[tuple[str, int], bytes]) -> ProduceRequest:
    """Return the request for batches of several partitions, each named with its topic."""
    topics = [
        TopicProduceData(
            name=topic,
            topic_id=clients.ledger.topics[topic].topic_id,
            partition_data=[PartitionProduceData(index=index, records=records)],
        )
        for (topic, index), records in batches.items()
    ]
    return ProduceRequest(acks=acks, timeout_ms=1500, topic_data=topics)


async def produce_plainly(
    clients: Clients, name: str, acks: int, keys: Sequence[tuple[str, int]], stop: asyncio.Event
) -> None:
    """Send batches one by one, each once: whatever no answer came for may be there or not."""
    application = Application(clients, name)
    number = 0
    while not stop.is_set():
        topic, index = clients.rng.choice(keys)
        number += 1
        try:
            link = await application.leader(topic, index)
            await _send_once(clients, link, (topic, index), acks, values_of(clients.rng, clients.style, name, number))
        except NoAnswer:
            application.forget(topic, index)
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(0.4 * clients.rng.random())
    application.close()


async def _send_once(clients: Clients, link: Link, key: tuple[str, int], acks: int, values: list[bytes]) -> None:
    connection = link.connection
    request = produce_request(clients, *key, acks, _batch(clients, values))
    version = connection.version_of(0)
    future = connection.send(request, version, answered=acks != 0)
    if acks == 0:
        return
    answer = _only(await connection.receive(ProduceResponse, future, 0, version))
    code = ErrorCode(answer.error_code)
    if code in MOVING:
        raise NoAnswer(code.name)
    if code is not ErrorCode.NONE:
        raise Violation(f"a plain batch for {key} was refused: {code.name}")
    if acks == -1:
        clients.ledger.partitions[key].acknowledge(answer.base_offset, values, answer.log_append_time_ms)
        clients.trace.note(f"acked {key} {answer.base_offset} {len(values)}")


async def produce_in_bursts(clients: Clients, name: str, keys: Sequence[tuple[str, int]], stop: asyncio.Event) -> None:
    """Send several requests by one write to a leader, each batch once; some have batches of all partitions that it leads."""
    burst = _Burst(clients, name)
    while not stop.is_set():
        key = clients.rng.choice(keys)
        try:
            link = await burst.application.leader(*key)
            led = [key]
            if clients.rng.random() < SEVERAL_SHARE:
                led = [each for each in keys if (await burst.application.leader(*each)).node == link.node]
            await burst.exchange(link, led)
        except NoAnswer:
            for each in keys:
                burst.application.forget(*each)
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(0.4 * clients.rng.random())
    burst.application.close()


class _Burst:
    """A producer that sends several requests at a time, and never one again."""

    def __init__(self, clients: Clients, name: str) -> None:
        self.application = Application(clients, name)
        self.clients = clients
        self.name = name
        self.number = 0

    async def exchange(self, link: Link, keys: list[tuple[str, int]]) -> None:
        """Send some requests by one write, each with a batch of every partition, and hear their answers."""
        clients, connection = self.clients, link.connection
        version, acks = connection.version_of(0), clients.rng.choice((-1, -1, 1))
        connection.cork()
        sent = []
        for _ in range(1 + clients.rng.randrange(BURST_MAX)):
            values: dict[tuple[str, int], list[bytes]] = {}
            for key in keys:
                self.number += 1
                values[key] = values_of(clients.rng, clients.style, self.name, self.number)
            request = several_request(clients, acks, {key: _batch(clients, each) for key, each in values.items()})
            sent.append((connection.send(request, version), values))
        connection.uncork()
        moved = False
        for future, values in sent:
            answer = await connection.receive(ProduceResponse, future, 0, version)
            for place, key in enumerate(values):
                moved |= not self._heard(answer.responses[place].partition_responses[0], key, acks, values[key])
        if moved:
            raise NoAnswer("a leader has moved")

    def _heard(self, answer: PartitionProduceResponse, key: tuple[str, int], acks: int, values: list[bytes]) -> bool:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE and acks == -1:
            self.clients.ledger.partitions[key].acknowledge(answer.base_offset, values, answer.log_append_time_ms)
            self.clients.trace.note(f"acked {key} {answer.base_offset} {len(values)} {self.name}")
        if code is not ErrorCode.NONE and code not in MOVING:
            raise Violation(f"a plain batch of {self.name} for {key} was refused: {code.name}")
        return code is ErrorCode.NONE


async def produce_idempotently(clients: Clients, name: str, topic: str, index: int, stop: asyncio.Event) -> None:
    """Keep several batches in flight to one partition and send them again, in order, until all are acknowledged."""
    session = _Session(clients, name, topic, index)
    while not stop.is_set() or session.unacknowledged:
        try:
            await session.run(stop)
        except NoAnswer:
            session.application.forget(topic, index)
            await asyncio.sleep(RETRY_S)
    session.application.close()


class _Session:
    """An idempotent producer's state: its id, its next sequence, and the batches that are not acknowledged."""

    def __init__(self, clients: Clients, name: str, topic: str, index: int) -> None:
        self.application = Application(clients, name)
        self.clients = clients
        self.name = name
        self.topic = topic
        self.index = index
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = 0
        self.number = 0
        self.sent_again = 0
        self.unacknowledged: list[tuple[int, list[bytes], bytes]] = []

    @property
    def promises(self) -> Promises:
        """Those of the partition written to."""
        return self.clients.ledger.partitions[self.topic, self.index]

    async def run(self, stop: asyncio.Event) -> None:
        """Produce to one leader until it fails or the work is done."""
        rng = self.clients.rng
        if self.producer_id < 0:
            await self._begin()
        link = await self.application.leader(self.topic, self.index)
        connection = link.connection
        version = connection.version_of(0)
        sent = [self._send(link, version, records) for _, _, records in self.unacknowledged]
        self.sent_again = len(sent)
        while connection.is_open or (sent and sent[0].done()):  # what has come before the end is heard
            while connection.is_open and not stop.is_set() and len(sent) < 1 + rng.randrange(IN_FLIGHT_MAX):
                sent.append(self._send(link, version, self._next()))
            if not sent:
                connection.close()
                return
            led_in = self.clients.leads(link.node, self.topic, self.index)
            answer = _only(await connection.receive(ProduceResponse, sent.pop(0), 0, version))
            if not self._heard(answer, link.node, led_in):
                connection.close()
                raise NoAnswer(ErrorCode(answer.error_code).name)
            await asyncio.sleep(self.clients.style.thinking_s * rng.random())

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        connection = await self.application.anyone()
        answer = await self.application.ask(connection, request, InitProducerIdResponse)
        if answer.error_code:
            if ErrorCode(answer.error_code) not in MOVING:
                raise Violation(f"no producer id: {ErrorCode(answer.error_code).name}")
            self.application.leave_any()
            raise NoAnswer("no producer id")
        owner = self.clients.producer_ids.setdefault(answer.producer_id, self.name)
        if owner != self.name:
            raise Violation(f"producer id {answer.producer_id} was given to {owner} and to {self.name}")
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def _next(self) -> bytes:
        self.number += 1
        values = values_of(self.clients.rng, self.clients.style, self.name, self.number)
        records = _batch(
            self.clients,
            values,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
        )
        self.sequence += len(values)
        self.unacknowledged.append((self.number, values, records))
        return records

    def _send(self, link: Link, version: int, records: bytes) -> asyncio.Future[bytes]:
        request = produce_request(self.clients, self.topic, self.index, -1, records)
        return link.connection.send(request, version)

    def _is_forgotten(self, node: int, led_in: int) -> bool:
        """Say whether a leader may not know the oldest batch in flight, or not take it any more.

        Where it has not led all the time since it was waited for, its log may be another by now, and nobody can tell.
        """
        if not 0 <= led_in == self.clients.leads(node, self.topic, self.index):
            return True
        return self.clients.cannot_place(node, self.topic, self.index, self.unacknowledged[0][2])

    def _heard(self, answer: PartitionProduceResponse, node: int, led_in: int) -> bool:
        """Take in one answer; False where everything must be sent again, to whoever leads now."""
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            _, values, _ = self.unacknowledged.pop(0)
            offset = answer.base_offset if code is ErrorCode.NONE else -1
            if code is ErrorCode.NONE and offset < 0:
                raise Violation(f"{self.promises.name}: acknowledged with offset {offset}")
            self.promises.acknowledge(offset, values, answer.log_append_time_ms)
            self.clients.trace.note(f"acked {self.promises.name} {offset} {len(values)} {self.name}")
            return True
        if code in MOVING:
            return False
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.sent_again and self._is_forgotten(node, led_in):
            # A snapshot of the producers' states has the last batch of each, as Kafka's: what was in flight when its broker
            # ended may be in the log and not be known again. Clients give up here, or begin anew.
            self.clients.trace.note(f"{self.name} begins anew")
            self.producer_id = -1
            self.unacknowledged.clear()
            return False
        raise Violation(f"{self.promises.name}: an idempotent batch of {self.name} was refused: {code.name}")


def _only(answer: ProduceResponse) -> PartitionProduceResponse:
    return answer.responses[0].partition_responses[0]

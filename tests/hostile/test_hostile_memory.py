"""What clients cost a real process that ask for much and read nothing, or announce much and send little: its memory."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from time import monotonic, sleep

import psutil
import pytest

from ottla.wire import APIS, Message, encode_request, read_response
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node_client import batch
from tests.server import Server, running_server

PARTITIONS, RECORD_BYTES, READERS = 800, 60_000, 30
SLOW_CLIENTS = 500
MIB = 1 << 20
FETCH_VERSION = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("memory")) as running:
        yield running


class Client:
    """A blocking connection."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(encode_request(request, version, 1, "test"))

    def ask(self, request: Message, version: int) -> Message:
        self.send(request, version)
        frame = self.exactly(*struct.unpack(">i", self.exactly(4)))
        assert request.API_KEY is not None
        message: Message = read_response(APIS[request.API_KEY].response, frame, request.API_KEY, version)[1]
        return message

    def exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self.socket.recv_into(view)
            assert count, "the broker hung up"
            view = view[count:]
        return data


def resident(server: Server) -> int:
    """Return the broker's resident memory once it has come to rest."""
    process = psutil.Process(server.process.pid)
    size, until_s = 0, monotonic() + 20
    while (now := process.memory_info().rss) != size and monotonic() < until_s:
        size = now
        sleep(0.3)
    return size


def produce_request(index: int, records: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="wide", partition_data=data)])


def fetch_request() -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=RECORD_BYTES + 1000)
        for index in range(PARTITIONS)
    ]
    topics = [FetchTopic(topic="wide", partitions=wanted)]
    return FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 30, session_epoch=-1, topics=topics)


def test_thirty_clients_that_do_not_read_cost_little_and_hold_up_nobody(server: Server) -> None:
    """They were 1.4 GiB: 46 MiB each."""
    if (hard := resource.getrlimit(resource.RLIMIT_NOFILE)[1]) < 4 * PARTITIONS:
        pytest.skip(f"a process may open {hard} files here (ulimit -Hn)")
    client = Client(server)
    created = client.ask(
        CreateTopicsRequest(
            topics=[CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=60_000
        ),
        5,
    )
    assert isinstance(created, CreateTopicsResponse) and created.topics[0].error_code == 0
    records = batch(b"x" * RECORD_BYTES)
    for index in range(PARTITIONS):
        client.ask(produce_request(index, records), 11)
    before = resident(server)
    readers = [Client(server) for _ in range(READERS)]
    for reader in readers:
        reader.send(fetch_request(), FETCH_VERSION)
        reader.send(fetch_request(), FETCH_VERSION)
    assert resident(server) - before < 100 * MIB
    client.ask(produce_request(0, batch(b"more")), 11)
    client.ask(HeartbeatRequest(group_id="none", member_id="none"), 4)
    (size,) = struct.unpack(">i", readers[-1].exactly(4))
    readers[-1].exactly(size)
    assert size > PARTITIONS * RECORD_BYTES
    for reader in readers:
        reader.socket.close()


def test_hundreds_of_clients_that_announce_much_and_send_little_cost_little(server: Server) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, SLOW_CLIENTS + 500)), hard))
    before = resident(server)
    clients = [Client(server) for _ in range(SLOW_CLIENTS)]
    for each in clients:
        each.socket.sendall(struct.pack(">i", 100 * MIB) + b"x" * 100)
    assert resident(server) - before < SLOW_CLIENTS * 16 * 1024
    for each in clients:
        each.socket.close()

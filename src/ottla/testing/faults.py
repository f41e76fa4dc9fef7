"""`KafkaFaults`: a broker of a test's own that fails as the test says, for any client.

Errors and lost answers are made between the client and the broker, a kill is a kill of its process, and a full disk is the
broker's own door to the disk. Nothing of the broker is another code than in production.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ottla.base import ErrorCode, OttlaError
from ottla.testing.brokers import broker_folder, overrides_of
from ottla.testing.error_answers import answers_with_error, api_named, error_answer, is_incremental, topics_of
from ottla.testing.kafka import Kafka
from ottla.testing.own_client import CLIENT_ID
from ottla.testing.processes import READY_SECONDS, ChildProcess
from ottla.testing.proxy import CUT, FORWARD, FORWARD_UNANSWERED, LOSE, Decision, Proxy
from ottla.wire import APIS, ApiKey, RequestHeader, decode

__all__ = ["Fault", "KafkaFaults", "running_faults"]

LISTENER = "PLAINTEXT://127.0.0.1:0"
ADVERTISED = "advertised.listeners"


class Fault:
    """What shall fail, and how often it has."""

    def __init__(
        self, apis: frozenset[ApiKey], code: ErrorCode | None, *, topic: str | None, times: int | None
    ) -> None:
        """`times` is None for a fault that each client meets until it has asked for metadata again."""
        self.apis = apis
        self.code = code
        """The error that is answered; None where the request is carried out and its answer is lost."""
        self.topic = topic
        self.topic_id: bytes | None = None
        self.left = times
        """How often it will be met yet; None for until metadata."""
        self.met = 0
        """How often it has been met."""
        self._heard: set[str] = set()
        """Clients that have met it."""
        self._knows: set[str] = set()
        """Those of them that have asked for metadata since."""

    def __repr__(self) -> str:
        what = "lost answer" if self.code is None else self.code.name
        return f"Fault({what}, met {self.met} times, {'until metadata' if self.left is None else f'{self.left} left'})"

    def is_open(self, api: ApiKey, client: str) -> bool:
        """Return whether it would meet a client's request of its topic."""
        return api in self.apis and (client not in self._knows if self.left is None else self.left > 0)

    def meets(self, api: ApiKey, client: str, request: Any) -> bool:
        """Return whether it meets a request, which counts."""
        if api is ApiKey.METADATA and client in self._heard:
            self._knows.add(client)
        if not self.is_open(api, client) or not self._names(api, request):
            return False
        self._heard.add(client)
        self.left = None if self.left is None else self.left - 1
        self.met += 1
        return True

    def _names(self, api: ApiKey, request: Any) -> bool:
        """Return whether a request is of the topic that is meant."""
        if self.topic is None:
            return True
        return any(name == self.topic or (key and key == self.topic_id) for name, key in topics_of(api, request))


class KafkaFaults:
    """A broker that fails as a test says. The tests' own requests (`kafka`) meet no errors, only kills and the disk."""

    def __init__(self, folder: Path, settings: Mapping[str, object], *, ready_seconds: float = READY_SECONDS) -> None:
        """Start it; raises StartError where it does not get ready."""
        if ADVERTISED in settings:
            raise ValueError(f"{ADVERTISED}: clients reach a broker with faults by an address of its own")
        self._folder, self._settings, self._ready_seconds = folder, dict(settings), ready_seconds
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._proxy = Proxy(self._decide)
        self._process: ChildProcess | None = None
        self._printed: list[str] = []
        self._dropped = 0
        """Lines that were printed before those, and are not kept."""
        self.kafka = Kafka(self._proxy.address, log_lines=self._log_lines, log_dropped=self._log_dropped)
        """The broker for the test's own hand: topics, records, groups."""
        self.bootstrap_servers = self.kafka.bootstrap_servers
        try:
            self.start()
        except BaseException:
            self._proxy.close()
            raise

    # -- errors

    def fail_next(self, api: str, error: str | ErrorCode, *, topic: str | None = None, times: int = 1) -> Fault:
        """Have the next requests of an API answered with an error, and not carried out; `topic` says only those of it.

        All that the request asks for fails. `error` is Kafka's name, as `NOT_ENOUGH_REPLICAS`. Raises ValueError for a name
        that is none, or an API whose answer cannot say an error.
        """
        key = api_named(api)
        if not answers_with_error(key):
            raise ValueError(f"{api}: its answer has no error of the whole")
        return self._add(Fault(frozenset({key}), _code(error), topic=topic, times=times))

    def fail_produce(self, error: str | ErrorCode, *, topic: str | None = None, times: int = 1) -> Fault:
        """Have the next Produce requests answered with an error, and nothing appended; see `fail_next`."""
        return self.fail_next("Produce", error, topic=topic, times=times)

    def lose_answer(self, api: str = "Produce", *, topic: str | None = None, times: int = 1) -> Fault:
        """Have the next requests of an API carried out, and the connection cut in the place of the answer."""
        return self._add(Fault(frozenset({api_named(api)}), None, topic=topic, times=times))

    def move_leader(self, topic: str) -> Fault:
        """Answer NOT_LEADER_OR_FOLLOWER to Produce and Fetch of a topic until the client has asked for metadata again.

        That is what a client meets whose leader has moved. Clients are told apart by their client id.
        """
        apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
        return self._add(Fault(apis, ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=topic, times=None))

    def clear(self) -> None:
        """Take back all errors that have not been met, and give the disk its room."""
        with self._lock:
            self._faults.clear()
        if self.is_running:
            self._order("room")

    def _add(self, fault: Fault) -> Fault:
        self._identify(fault)
        with self._lock:
            self._faults.append(fault)
        return fault

    def _identify(self, fault: Fault) -> None:
        """Learn the id of a fault's topic, by which newer requests name it; it may not be there yet."""
        if fault.topic is not None and fault.topic_id is None:
            found = self.kafka.client.metadata([fault.topic]).topics.get(fault.topic)
            fault.topic_id = None if found is None or not any(found.topic_id) else bytes(found.topic_id)

    # -- the process and its disk

    @property
    def is_running(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.is_running

    def kill(self) -> None:
        """End the broker as `kill -9` does; who connects is refused until it is started again."""
        process = self._process
        if process is None:
            raise RuntimeError("the broker does not run: start() starts it")
        process.kill()
        self._proxy.shut()
        self._dropped += process.dropped
        self._printed += process.lines
        self._process = None

    def start(self) -> None:
        """Start the broker, again on the same data and the same address; raises StartError where it does not get ready."""
        if self.is_running:
            raise RuntimeError("the broker runs already")
        if self._process is not None:  # it has ended by itself, as where its disk fails
            self.kill()
        settings = {**self._settings, ADVERTISED: f"PLAINTEXT://{self._proxy.address}"}
        arguments = overrides_of(settings, data=self._folder / "data", listener=LISTENER)
        process = ChildProcess(
            "ottla.testing.faulted_broker", arguments, folder=self._folder, ready_seconds=self._ready_seconds
        )
        host, _, port = process.address.rpartition("/")[2].rpartition(":")
        self._process = process
        self._proxy.open((host, int(port)))

    def restart(self) -> None:
        """Kill the broker and start it again on the same data."""
        self.kill()
        self.start()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Have no room on the broker's disk inside of the block; what is deleted gives some."""
        self._order("full")
        try:
            yield
        finally:
            if self.is_running:
                self._order("room")

    def close(self) -> None:
        """Stop the broker and give its address back."""
        self.kafka.close()
        self._proxy.close()
        if self._process is not None:
            self._process.stop()

    def _order(self, line: str) -> None:
        if self._process is None:
            raise RuntimeError("the broker does not run: start() starts it")
        self._process.ask(line)

    def _log_lines(self) -> list[str]:
        return [*self._printed, *(self._process.lines if self._process is not None else ())]

    def _log_dropped(self) -> int:
        return self._dropped + (self._process.dropped if self._process is not None else 0)

    # -- in the proxy's threads

    def _decide(self, header: RequestHeader, frame: bytes, body: int) -> Decision:
        spec = APIS.get(header.api_key)
        needed = self._faults or header.api_key == ApiKey.PRODUCE
        if spec is None or not needed or not spec.min_version <= header.api_version <= spec.max_version:
            return FORWARD
        api = ApiKey(header.api_key)
        request: Any = decode(spec.request, frame, header.api_version, body)[0]
        if header.client_id != CLIENT_ID and any(any(topic_id) for _, topic_id in topics_of(api, request)):
            self._identify_late(api)
        unanswered = api is ApiKey.PRODUCE and request.acks == 0
        code = self._met(api, header.client_id or "", request) if header.client_id != CLIENT_ID else ErrorCode.NONE
        if code is ErrorCode.NONE:
            return FORWARD_UNANSWERED if unanswered else FORWARD
        if unanswered:  # Kafka tells such a producer of an error by the connection's end
            return CUT
        if code is None:
            return LOSE
        answer = error_answer(api, request, code, version=header.api_version, correlation_id=header.correlation_id)
        return Decision(forward=False, answer=answer)

    def _identify_late(self, api: ApiKey) -> None:
        """Learn the ids of topics that have come to be since their faults were said."""
        with self._lock:
            unknown = [each for each in self._faults if each.topic_id is None and api in each.apis]
        for each in unknown:
            with suppress(OttlaError):  # the broker was killed meanwhile
                self._identify(each)

    def _met(self, api: ApiKey, client: str, request: Any) -> ErrorCode | None:
        """Return what a request fails with, NONE for nothing, and None where its answer is lost."""
        with self._lock:
            for fault in self._faults:
                if fault.meets(api, client, request):
                    return fault.code
            incremental = api is ApiKey.FETCH and is_incremental(request)
            if incremental and any(each.is_open(api, client) for each in self._faults):
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # so that the client names all that it fetches
        return ErrorCode.NONE


def _code(error: str | ErrorCode) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    try:
        return ErrorCode[error.upper()]
    except KeyError:
        raise ValueError(f"{error!r} is no error of Kafka's, as NOT_ENOUGH_REPLICAS is") from None


@contextmanager
def running_faults(
    settings: Mapping[str, object] | None = None, *, folder: Path | None = None, ready_seconds: float = READY_SECONDS
) -> Iterator[KafkaFaults]:
    """Run a broker that fails as it is told, until the block ends; its data is gone then, unless the folder was given."""
    with broker_folder(folder) as data:
        faults = KafkaFaults(data, settings or {}, ready_seconds=ready_seconds)
        try:
            yield faults
        finally:
            faults.close()

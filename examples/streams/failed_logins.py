"""Complex event processing: three failed log-ins of a user within a minute, with none that succeeded in between."""

from dataclasses import dataclass

from ottla.streams import Processor, ProcessRecord, PunctuationType, Serdes, Stores, StreamsBuilder

MINUTE_MS, TIMES = 60_000, 3


@dataclass(frozen=True)
class Login:
    """An attempt of the user that is the record's key."""

    ok: bool
    address: str


class Guard(Processor[str, Login, str, str]):
    """Remembers the times of each user's last failures."""

    def init(self, context):
        super().init(context)
        self.failures = context.get_state_store("failures")
        context.schedule("10m", PunctuationType.STREAM_TIME, self.forget)

    def process(self, record: ProcessRecord[str, Login]) -> None:
        before = self.failures.get(record.key) or []
        times = [] if record.value.ok else [at for at in before if at > record.timestamp - MINUTE_MS]
        times += [] if record.value.ok else [record.timestamp]
        if len(times) == TIMES:
            self.context.forward(record.with_value(f"{TIMES} failures, the last from {record.value.address}"))
            times = []
        self.failures.put(record.key, times or None)

    def forget(self, now_ms: int) -> None:
        for user, times in list(self.failures.all()):
            if times[-1] <= now_ms - MINUTE_MS:
                self.failures.delete(user)

    @staticmethod
    def stores():
        return [Stores.key_value_store("failures", str, Serdes.list(int))]


builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
builder.stream("logins", value_serde=Login).process(Guard).to("alarms")

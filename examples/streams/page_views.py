"""Page views per minute: events count in the minute in which they happened, though they arrive late.

Within the grace of 30 seconds a late event overwrites the result under the same key; later ones are dropped, and counted as
such. With `stream.time=partition` time advances record by record, as in Kafka Streams; without it by Spark's watermark,
batch by batch, which is quicker.
"""

from ottla.streams import StreamsBuilder, TimeWindows, Windowed

settings = {"stream.time": "partition"}
builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")


def in_words(window: Windowed[str], views: int) -> tuple[str, int]:
    """Return page and minute as one readable key."""
    return f"{window.key} at minute {window.start_ms // 60_000}", views


(
    builder.stream("page-views")  # key: page
    .group_by_key()
    .windowed_by(TimeWindows.of_size(minutes=1, grace="30s"))
    .count(materialized="views")
    .to_stream()
    .map(in_words, key_serde="string", value_serde="long")
    .to("views-per-minute")
)

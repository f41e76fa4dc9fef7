"""Word count: Kafka's WordCountDemo. Every step is a column expression, so no Python function sees a record."""

from ottla.streams import StreamsBuilder

builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
(
    builder.stream("streams-plaintext-input")
    .flat_map_values(r"split(lower(value), r'\W+')")
    .filter("value <> ''")
    .group_by("value")
    .count(materialized="counts")
    .to_stream()
    .to("streams-wordcount-output", value_serde="long")
)

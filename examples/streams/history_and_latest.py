"""History against latest: the same events twice, in full and as the last word on each key.

Make `price-history` with `retention.ms` as long as you want to look back, and `price-latest` with
`cleanup.policy=compact`: who only needs the prices of now reads that one, however long the history is.
"""

from ottla.streams import StreamsBuilder

builder = StreamsBuilder(default_key_serde="string", default_value_serde="double")
changes = builder.stream("price-changes")
changes.to("price-history")  # every change, with its time
latest = changes.to_table(materialized="prices")  # null takes a product off the list
latest.to_stream().to("price-latest")

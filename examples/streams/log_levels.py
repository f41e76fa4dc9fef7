"""Log aggregation: lines of many services in one topic; errors go to a topic of their own, and each level is counted.

A line looks as `2026-11-22T05:00:00 ERROR payments: card refused`; what has no level is left alone.
"""

from ottla.streams import StreamsBuilder

LINE = r"^\\S+ (TRACE|DEBUG|INFO|WARN|ERROR) (\\S+): (.*)$"

builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
lines = builder.stream("log-lines").filter(f"value rlike '{LINE}'")

errors = lines.filter(f"regexp_extract(value, '{LINE}', 1) = 'ERROR'")
errors.map(f"regexp_extract(value, '{LINE}', 3)", key=f"regexp_extract(value, '{LINE}', 2)").to("errors")

levels = lines.group_by(f"regexp_extract(value, '{LINE}', 1)")
levels.count(materialized="lines-by-level").to_stream().to("log-levels", value_serde="long")

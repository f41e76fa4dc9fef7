"""Write `described.txt` anew: `python -m tests.streams.dsl`, with Kafka's jars (`make peer`)."""

from __future__ import annotations

from tests.streams.dsl.test_describe import java_texts, write

write(java_texts())

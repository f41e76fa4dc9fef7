"""Applications of Kafka Streams on Spark: their queries, states, delivery, supervision and lookups."""

"""Connect's REST interface: against Apache Kafka Connect's own answers, and what is ours."""

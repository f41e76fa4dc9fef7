"""Several nodes as one cluster, in one process: on the simulated network, and on loopback beside real Kafka."""

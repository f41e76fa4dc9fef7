"""What is sampled of a cluster and made of it: figures, their history, lineage and cost; all but `sampler`, `sampling` and
`history_topic` are pure."""

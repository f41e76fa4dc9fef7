"""Random requests of every mode to the registry's decisions, with compaction and restarts: what an id means stays."""

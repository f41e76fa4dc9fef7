"""One file per noun of `ottla`: its options, its words, and its exit codes."""

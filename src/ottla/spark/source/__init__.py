"""Topics as DataFrames: `format("ottla")`, what reads and what writes."""

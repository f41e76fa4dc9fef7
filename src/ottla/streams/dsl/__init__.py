"""What users write: streams, tables, groups, windows and joins, each step checked where it is made."""

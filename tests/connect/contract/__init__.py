"""The contract of connectors, held by ours."""

"""JSON Schema: documents, what they mean, and how they may change."""

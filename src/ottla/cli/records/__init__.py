"""Records as text, and text as records: formats, readers, formatters, and what prints them until a limit."""

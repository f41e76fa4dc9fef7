"""The command line: `ottla NOUN …`, one file per noun, with Kafka's flags and texts, and JSON where a program reads.

Nouns are imported only when they are called and import other packages inside functions, so that `ottla --help` costs no more
than Python's own start. Each noun's module has `main(argv) -> exit code`.
"""

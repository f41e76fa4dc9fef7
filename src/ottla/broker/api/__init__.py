"""One module per Kafka API, each with its `HANDLER`; `broker/handlers.py` finds them."""

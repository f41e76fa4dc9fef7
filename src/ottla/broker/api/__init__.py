"""One module per Kafka API, each with its `HANDLER`; `broker/requests/handlers.py` finds them."""

"""The version that the stock plugins show: Kafka's, whose behaviour they have."""

__all__ = ["STOCK_VERSION"]

STOCK_VERSION = "4.3.0"

"""Metrics as Prometheus reads them: the text format 0.0.4, one family after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.meters import LATENCY_BUCKETS, bucket_limit_us
from ottla.broker.monitoring.families import FAMILIES, METER_ALIASES, Family, prometheus_name

__all__ = ["CONTENT_TYPE", "Page", "quantile_us", "tags"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = (0.5, 0.95, 0.99, 0.999)
HISTOGRAM_LIMITS_US = tuple(1 << bits for bits in range(6, 26))
"""Where the histograms' buckets end: powers of two from 64 µs to half a minute, so that no bucket is split."""
US_PER_S = 1_000_000
US_PER_MS = 1000


def tags(**labels: object) -> str:
    """Return labels as they stand behind a name; "" for none."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Page:
    """The samples of one scrape, by family."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def lines(self, family: str) -> list[str]:
        """Return a family's lines so far, to be added to."""
        return self._lines.setdefault(family, [])

    def add(self, family: str, value: float, labels: str = "") -> None:
        """Add a sample; that of a meter is added under both of its names."""
        self.lines(family).append(f"{family}{labels} {value}")
        alias = METER_ALIASES.get(family)
        if alias is not None:
            self.lines(alias).append(f"{alias}{labels} {value}")

    def add_bean(self, name: str, value: float) -> None:
        """Add a value of the registry, named `Type.Name` with `,tag=value` behind it."""
        path, *given = name.split(",")
        kind, _, attribute = path.partition(".")
        labels = {tag.partition("=")[0]: tag.partition("=")[2] for tag in given}
        self.add(prometheus_name(kind, attribute), value, tags(**labels))

    def add_summary(self, family: str, labels: Mapping[str, str], recent: list[int], count: int, total_us: int) -> None:
        """Add quantiles of recent times in milliseconds, and the count and sum of all."""
        for quantile in QUANTILES:
            value = round(quantile_us(recent, quantile) / US_PER_MS, 6)
            self.add(family, value, tags(**labels, quantile=quantile))
        lines = self.lines(family)
        lines.append(f"{family}_sum{tags(**labels)} {total_us / US_PER_MS}")
        lines.append(f"{family}_count{tags(**labels)} {count}")

    def add_histogram(self, family: str, labels: Mapping[str, str], buckets: list[int], total_us: int) -> None:
        """Add cumulated buckets in seconds."""
        lines = self.lines(family)
        seen, at = 0, 0
        for limit_us in HISTOGRAM_LIMITS_US:
            while at < LATENCY_BUCKETS and bucket_limit_us(at) <= limit_us:
                seen += buckets[at]
                at += 1
            lines.append(f"{family}_bucket{tags(**labels, le=limit_us / US_PER_S)} {seen}")
        count = sum(buckets)
        lines.append(f"{family}_bucket{tags(**labels, le='+Inf')} {count}")
        lines.append(f"{family}_sum{tags(**labels)} {total_us / US_PER_S}")
        lines.append(f"{family}_count{tags(**labels)} {count}")

    def parts(self) -> Iterator[str]:
        """Yield the page family by family; those without a sample too, so that it says what there can be."""
        for name in [*FAMILIES, *(name for name in self._lines if name not in FAMILIES)]:
            family = FAMILIES.get(name, Family("gauge", name))
            yield f"# HELP {name} {family.text}\n# TYPE {name} {family.kind}\n"
            lines = self._lines.get(name)
            if lines:
                lines.append("")
                yield "\n".join(lines)


def quantile_us(buckets: list[int], fraction: float) -> float:
    """Return the microseconds below which this fraction of the times is, evenly spread inside a bucket; 0 for none."""
    wanted = fraction * sum(buckets)
    seen = 0
    for index, count in enumerate(buckets):
        if count and seen + count >= wanted:
            low = bucket_limit_us(index - 1) if index else 0
            return low + (bucket_limit_us(index) - low) * (wanted - seen) / count
        seen += count
    return 0.0

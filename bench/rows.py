"""What the benchmark reports: rows, how they are made of rounds, and the table at the end."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Case", "Metric", "Rounds", "Row", "number", "page_of", "print_table", "write_rows"]


@dataclass(frozen=True)
class Metric:
    """One figure: its unit, and the target for Ottla.

    A target on the ratio Ottla / Kafka is `at_least` or `at_most`; `absolute` holds Ottla's own value to it instead.
    """

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False

    @property
    def target(self) -> str | None:
        """The target as text."""
        suffix = f" {self.unit}" if self.absolute else " x Kafka"
        if self.at_least is not None:
            return f">= {self.at_least:g}{suffix}"
        return None if self.at_most is None else f"<= {self.at_most:g}{suffix}"

    def met(self, value: float | None, ratio: float | None) -> bool | None:
        """Return whether the target is met; None where there is none, or nothing to hold against it."""
        measured = value if self.absolute else ratio
        if measured is None or (self.at_least is None and self.at_most is None):
            return None
        return measured >= self.at_least if self.at_least is not None else measured <= (self.at_most or 0)


@dataclass(frozen=True)
class Row:
    """One line of the result: medians over the rounds."""

    metric: str
    unit: str
    ottla: float | None
    kafka: float | None
    ratio: float | None
    target: str | None
    met: bool | None
    rounds: int
    mode: str
    others: float | None = None
    """Processors that others had meanwhile, where that was looked at."""
    system_share: float | None = None
    kafka_system_share: float | None = None
    """Which part of a broker's processor time was the kernel's, where that was looked at."""
    load: float | None = None
    """The machine's load when rounds began, their median."""
    marked: int = 0
    """Rounds whose share of system time is far off the others'."""


@dataclass
class Rounds:
    """Values of every metric, by system, in the order of the rounds."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, system: str, metric: str, value: float) -> None:
        """Note one round's value."""
        self.values.setdefault(metric, {}).setdefault(system, []).append(value)

    def rows(self, metrics: list[Metric], modes: list[str]) -> list[Row]:
        """Return a row per metric and mode, its ratio the median of the rounds' ratios."""
        found = []
        for metric in metrics:
            systems = self.values.get(metric.name, {})
            theirs = systems.get("kafka", [])
            for mode in modes:
                ours = systems.get(mode, [])
                if not ours and not theirs:
                    continue
                ratios = [one / other for one, other in zip(ours, theirs, strict=False) if other]
                ratio = median(ratios) if ratios else None
                value = median(ours) if ours else None
                met = metric.met(value, ratio)
                kafka = median(theirs) if theirs else None
                rounds = max(len(ours), len(theirs))
                found.append(Row(metric.name, metric.unit, value, kafka, ratio, metric.target, met, rounds, mode))
        return found


@dataclass(frozen=True)
class Case:
    """One measurement: `run(system)` returns the values of its metrics for one round on one system."""

    name: str
    metrics: list[Metric]
    run: Callable[[object], dict[str, float]]


def write_rows(rows: list[Row], path: Path) -> None:
    """Write the rows as JSON, one per line."""
    path.write_text("[\n" + ",\n".join(" " + json.dumps(asdict(row)) for row in rows) + "\n]\n")


def print_table(rows: list[Row]) -> None:
    """Print the rows for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table("metric", "mode")
    for title in ("Ottla", "Kafka", "ratio", "target", "met"):
        table.add_column(title, justify="right")
    for row in rows:
        numbers = [number(row.ottla, row.unit), number(row.kafka, row.unit), number(row.ratio)]
        met = "" if row.met is None else "yes" if row.met else "NO"
        table.add_row(row.metric, row.mode, *numbers, row.target or "", met)
    Console(width=150).print(table)


def number(value: float | None, unit: str = "") -> str:
    """Return a value as people read it, with its unit."""
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def page_of(introduction: str, peer: str, rows: list[dict[str, Any]]) -> str:
    """Return a page in Markdown: what was measured and how, the machine, and a table of rows as `write_rows` wrote them."""
    if not rows:
        return introduction
    machine = f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}"
    lines = [introduction, f"Measured with {machine}.\n"]
    lines.append(f"| metric | mode | Ottla | {peer} | ratio | target | met |")
    lines.append("|---|---|---:|---:|---:|---:|---|")
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        values = [number(row["ottla"], row["unit"]), number(row["kafka"], row["unit"]), number(row["ratio"])]
        cells = [row["metric"], row["mode"], *values, row["target"] or "", met]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"

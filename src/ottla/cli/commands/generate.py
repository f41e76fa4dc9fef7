"""`ottla generate grafana|prometheus-rules|prometheus-config`: what monitoring needs to know of Ottla."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.options import Options

__all__ = ["main", "options"]

FOLDER = Path(__file__).parents[1] / "monitoring"
FILES = {"grafana": "grafana.json", "prometheus-rules": "prometheus-rules.yml"}
CONFIG = "prometheus-config"
SCRAPE = """\
# A job for prometheus.yml. Each node serves metrics where its ottla.http.listeners says.
scrape_configs:
  - job_name: ottla
    scrape_interval: 15s
    static_configs:
      - targets: [{targets}]
"""


def options() -> Options:
    """Return the parser."""
    parser = Options("generate", "Print a Grafana dashboard, Prometheus alert rules, or a scrape job for Prometheus.")
    parser.add_argument("what", choices=(*FILES, CONFIG), help="grafana, prometheus-rules or prometheus-config")
    parser.add_argument(
        "--target",
        action="append",
        metavar="HOST:PORT",
        help="for prometheus-config: a node's HTTP address, 127.0.0.1:9404 without it; repeatable",
    )
    return parser


def main(argv: list[str]) -> int:
    """Print what the first argument names."""
    parser = options()
    args = parser.parse(argv)
    if args.what == CONFIG:
        targets = args.target or ["127.0.0.1:9404"]
        print(SCRAPE.format(targets=", ".join(f'"{each}"' for each in targets)), end="")
        return 0
    if args.target:
        parser.error("--target goes with prometheus-config only")
    print((FOLDER / FILES[args.what]).read_text(), end="")
    return 0

"""What watches an instance asks: numbers for Prometheus, whether it is well, and whether there is a primary."""

from __future__ import annotations

from collections import Counter

from ottla.background import failure_counts
from ottla.http import Reply, Request, json_reply, text_reply
from ottla.registry.service import Registry

__all__ = ["Watching"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Watching:
    """The addresses for who watches; those of health are open to everybody, as probes log in nowhere."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._answers: Counter[tuple[str, int]] = Counter()

    def count(self, method: str, status: int) -> None:
        """Count an answer."""
        self._answers[method, status] += 1

    async def metrics(self, request: Request) -> Reply:
        """Return the page for Prometheus."""
        store, election = self._registry.store, self._registry.election
        subjects = store.state.subjects()
        versions = [each for name in subjects for each in store.state.versions(str(name)).values()]
        kinds = Counter((each.schema_type, str(each.deleted).lower()) for each in versions)
        lines = [
            *_family("subjects", "gauge", "Subjects, those with deleted versions only among them.", len(subjects)),
            *_family(
                "own_failures_total",
                "counter",
                "Mistakes of the instance's own, which its log tells.",
                sum(failure_counts().values()),
            ),
            *_family("primary", "gauge", "1 where this instance is the primary.", int(election.is_held)),
            *_family("primary_known", "gauge", "1 where the primary is known.", int(election.holder is not None)),
            *_family("elections_total", "counter", "How often this one has become the primary.", election.times_taken),
            *_family("records_unreadable_total", "counter", "Records passed over.", store.unreadable),
            *_family("records_offset", "gauge", "The offset behind the last record that was read.", store.offset),
            *_head("versions", "gauge", "Versions, by format."),
            *(
                f'ottla_registry_versions{{type="{kind}",deleted="{deleted}"}} {count}'
                for (kind, deleted), count in sorted(kinds.items())
            ),
            *_head("answers_total", "counter", "Answers, by method and status."),
            *(
                f'ottla_registry_answers_total{{method="{method}",status="{status}"}} {count}'
                for (method, status), count in sorted(self._answers.items())
            ),
        ]
        return text_reply("\n".join(lines) + "\n", content_type=CONTENT_TYPE)

    async def health(self, request: Request) -> Reply:
        """Return 200 where this instance follows the topic and knows the primary, 503 else, and both in words.

        It is asked without a login, and so it names nobody.
        """
        store, election = self._registry.store, self._registry.election
        well = store.is_followed and election.holder is not None
        found = {
            "status": "well" if well else "unwell",
            "follows_topic": store.is_followed,
            "is_primary": election.is_held,
            "primary_known": election.holder is not None,
        }
        return json_reply(found, status=200 if well else 503)

    async def primary(self, request: Request) -> Reply:
        """Return whether there is a primary, as Karapace says it."""
        known = self._registry.election.holder is not None
        return json_reply({"master_available": known})


def _family(name: str, kind: str, words: str, value: int) -> list[str]:
    return [*_head(name, kind, words), f"ottla_registry_{name} {value}"]


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP ottla_registry_{name} {words}", f"# TYPE ottla_registry_{name} {kind}"]

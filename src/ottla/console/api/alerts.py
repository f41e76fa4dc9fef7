"""What the page of alerts asks: rules with how they stand, figures that conditions may ask for, tests of targets."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.console.alerts.keeper import AlertKeeper
from ottla.console.alerts.rules import AlertError, rule_of
from ottla.console.api.endpoints import Endpoint, body, need
from ottla.console.figures.measures import FIGURES_SAID
from ottla.console.places import Place
from ottla.console.records.requests import object_of
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["alert_endpoints"]

CHECK_BODY: Mapping[str, object] = {"condition": {"type": "string"}}


def alert_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    test = "Tell an alert's targets that this is a test"
    return [
        Endpoint("GET", "/alerts", "Alerts, how each stands, and what conditions may ask for", _alerts, Who.SESSION),
        Endpoint(
            "POST",
            "/alerts/check",
            "Whether a condition is understood and holds now",
            _check,
            Who.SESSION,
            body=CHECK_BODY,
        ),
        Endpoint("POST", "/alerts/{alert}/test", test, _test, Who.SESSION, body={}, changes=True),
    ]


def _keeper(place: Place) -> AlertKeeper:
    if place.alerts is None or not place.alerts.topic:
        raise HttpError(404, "No alerts are kept here: ottla.console.alerts.topic is empty")
    return place.alerts


async def _alerts(place: Place, request: Request) -> Reply:
    allowed = await place.allowed()
    need(place, allowed, "DESCRIBE")
    keeper = place.alerts
    seen = await place.sampler.seen()
    rows = [] if keeper is None else keeper.rows(seen)
    return json_reply(
        {
            "sampled_at": seen.sample.at_ms,
            "period_s": place.sampler.period_s,
            "partial": list(seen.sample.partial),
            "error": place.sampler.error,
            "operations": sorted(allowed.cluster),
            "kept": keeper is not None and bool(keeper.topic),
            "trouble": "" if keeper is None else keeper.error,
            "targets": []
            if keeper is None
            else [{"name": each.name, "kind": each.kind} for each in keeper.notices.targets.values()],
            "figures": [{"name": name, "text": text} for name, text in FIGURES_SAID.items()],
            "broken": [] if keeper is None else [{"name": name, "why": why} for name, why in keeper.broken.items()],
            "items": [
                {
                    **row.rule.kept(),
                    "state": row.state.is_,
                    "since_ms": row.state.since_ms or None,
                    "silenced_until_ms": row.silenced_until_ms if row.silenced_until_ms > seen.sample.at_ms else None,
                    "told": row.state.told,
                    "values": dict(row.values),
                    "errors": dict(row.errors),
                }
                for row in rows
            ],
        }
    )


async def _check(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "DESCRIBE")
    asked = object_of(await body(request))
    try:
        rule = rule_of({"name": "check", "condition": asked.get("condition")})
    except AlertError as error:
        return json_reply({"error": str(error), "holds": None, "values": {}})
    seen = await place.seen()
    return json_reply({"error": "", "holds": rule.measured.evaluate(seen), "values": rule.values(seen)})


async def _test(place: Place, request: Request) -> Reply:
    need(place, await place.allowed(), "ALTER")
    name = request.match_info["alert"]
    found = await _keeper(place).test(name, await place.sampler.seen())
    if found is None:
        raise HttpError(404, f"There is no alert {name}")
    return json_reply({"errors": found})

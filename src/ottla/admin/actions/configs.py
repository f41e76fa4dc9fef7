"""Settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.admin.actions.connectors import HIDDEN, hidden_names
from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, command, settings, text
from ottla.admin.configs import ConfigEntity, alter_config, describe_config, plan_config_change
from ottla.admin.errors import AdminError

__all__ = ["CONFIGS"]


def _alter_config(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.config import hidden

    client = reach.client
    entity = ConfigEntity(text(arguments, "type"), str(arguments.get("name", "")))
    added = settings(arguments, "set")
    dropped = arguments.get("delete") or []
    if (
        not isinstance(dropped, Sequence)
        or isinstance(dropped, str)
        or not all(isinstance(each, str) for each in dropped)
    ):
        raise AdminError("delete is a list of names of settings")
    if entity.type not in ("topics", "brokers", "groups"):
        raise AdminError("type is topics, brokers or groups")
    if not added and not dropped:
        raise AdminError("Nothing would change: set or delete something")
    known = {each.name: each for each in describe_config(client, entity)}
    change = plan_config_change(client, entity, added, dropped)
    alter_config(client, change, validate_only=True)
    named = hidden_names((*added, *dropped))  # of what the broker does not know
    secret = {name for name in (*added, *dropped) if (known[name].sensitive if name in known else name in named)}
    secret |= {name for name in added if hidden(name, added[name]) != added[name]}
    own = {name: each.value for name, each in known.items() if each.is_set_for(entity) and each.value is not None}
    shown = {name: HIDDEN if name in secret else value for name, value in added.items()}
    words = ["configs", "--alter", "--entity-type", entity.type]
    words += ["--entity-name", entity.name] if entity.name else ["--entity-default"]
    words += ["--add-config", ",".join(f"{key}={_bracketed(value)}" for key, value in shown.items())] if added else []
    words += ["--delete-config", ",".join(dropped)] if dropped else []
    before = {name: known[name].value if name in known else None for name in (*added, *dropped)}
    undo = Undo(
        "alter-config",
        {
            "type": entity.type,
            "name": entity.name or "",
            "set": {name: own[name] for name in (*added, *dropped) if name in own},
            "delete": [name for name in added if name not in own],
        },
    )
    what = entity.singular if entity.name else f"all {entity.type}"
    return ActionPlan(
        "alter-config",
        {**arguments, "set": {name: HIDDEN if name in secret else each for name, each in added.items()}},
        tuple(
            Difference(
                f"{what} {entity.name or ''}/{name}".replace(" /", "/"),
                HIDDEN if name in secret else before[name],
                HIDDEN if name in secret else added.get(name),
            )
            for name in (*added, *dropped)
        ),
        command(*words),
        effects=("It holds at once, and after restarts.",),
        undo=None if secret else undo,
        pinned=dict(arguments) if secret else None,
        run=lambda each: alter_config(each.client, change),
    )


def _bracketed(value: str) -> str:
    return f"[{value}]" if "," in value else value


CONFIGS: Mapping[str, Planner] = {"alter-config": _alter_config}

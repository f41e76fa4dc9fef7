"""What is changed, each as a plan that says first what would change: for whoever shows plans to people.

`plan_action` makes a plan by the action's name and its arguments, which are JSON's values. The console runs it by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.admin.actions.access import ACCESS, acl_fields
from ottla.admin.actions.alerts import ALERTS
from ottla.admin.actions.configs import CONFIGS
from ottla.admin.actions.connectors import CONNECTORS, hidden_names, shown_value
from ottla.admin.actions.dead_letters import DEAD_LETTERS
from ottla.admin.actions.groups import GROUPS
from ottla.admin.actions.moves import MOVES
from ottla.admin.actions.plan import ActionPlan, AlertRules, Arguments, Difference, Planner, Reach, Replayer, Undo
from ottla.admin.actions.replays import REPLAYS
from ottla.admin.actions.schemas import SCHEMAS, compatibility_messages
from ottla.admin.actions.sql import SQL
from ottla.admin.actions.streams import STREAMS
from ottla.admin.actions.topics import TOPICS
from ottla.admin.actions.transactions import TRANSACTIONS
from ottla.admin.errors import AdminError

__all__ = [
    "ACTIONS",
    "OF_SERVICES",
    "ActionPlan",
    "AlertRules",
    "Difference",
    "Reach",
    "Replayer",
    "Undo",
    "acl_fields",
    "compatibility_messages",
    "hidden_names",
    "plan_action",
    "shown_value",
]

ACTIONS: Mapping[str, Planner] = {
    **TOPICS,
    **CONFIGS,
    **GROUPS,
    **DEAD_LETTERS,
    **ACCESS,
    **TRANSACTIONS,
    **MOVES,
    **CONNECTORS,
    **SCHEMAS,
    **SQL,
    **STREAMS,
    **ALERTS,
    **REPLAYS,
}
OF_SERVICES = frozenset({*CONNECTORS, *SCHEMAS, *SQL, *STREAMS, *ALERTS})
"""Those that Connect, the registry, a SQL server, Streams or who watches does, and not the brokers."""


def plan_action(reach: Reach, action: str, arguments: Arguments) -> ActionPlan:
    """Return the plan of an action; raises AdminError for one that makes no sense, KafkaError in the broker's words."""
    planner = ACTIONS.get(action)
    if planner is None:
        raise AdminError(f"There is no action {action}: there are {', '.join(sorted(ACTIONS))}")
    return planner(reach, arguments)

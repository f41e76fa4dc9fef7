"""A herder's decisions over Connect's folds: what becomes a record, what is refused and why, and what is shown. Pure.

A decision reads a `View` and returns records for the configuration, status or offsets topic, or raises the error that the
REST interface answers. Nothing here runs a connector or a task.
"""

from ottla.connect.decisions.changes import (
    PATCH_TRIES,
    ConnectorChange,
    RestartPlan,
    View,
    check_modifiable,
    create_or_replace,
    named_config,
    patched,
    pause_or_resume,
    refuse_invalid,
    remove,
    restart_plan,
    reversed_tasks,
    set_tasks,
    stop,
    tasks_changed,
)
from ottla.connect.decisions.offsets import altered, check_pairs, outcome, plain_pairs, reset_pairs, source_offsets
from ottla.connect.decisions.progress import (
    STALL_MS_DEFAULT,
    STALL_SETTING,
    Progress,
    progress_metrics,
    shown_progress,
    stalled,
)
from ottla.connect.decisions.shown import (
    completed,
    connector_info,
    connector_status,
    connector_type,
    plugin_keys,
    shown_config,
    task_infos,
    task_status,
    topics_of,
)
from ottla.connect.decisions.signature import Signature, check_signature, sign

__all__ = [
    "PATCH_TRIES",
    "STALL_MS_DEFAULT",
    "STALL_SETTING",
    "ConnectorChange",
    "Progress",
    "RestartPlan",
    "Signature",
    "View",
    "altered",
    "check_modifiable",
    "check_pairs",
    "check_signature",
    "completed",
    "connector_info",
    "connector_status",
    "connector_type",
    "create_or_replace",
    "named_config",
    "outcome",
    "patched",
    "pause_or_resume",
    "plain_pairs",
    "plugin_keys",
    "progress_metrics",
    "refuse_invalid",
    "remove",
    "reset_pairs",
    "restart_plan",
    "reversed_tasks",
    "set_tasks",
    "shown_config",
    "shown_progress",
    "sign",
    "source_offsets",
    "stalled",
    "stop",
    "task_infos",
    "task_status",
    "tasks_changed",
    "topics_of",
]

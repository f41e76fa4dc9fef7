"""An interrupt that comes while modules are still being imported ends the command, and shows nobody a traceback.

The command's main module imports this one before all others, and calls `is_over` behind them.
"""

from __future__ import annotations

import signal
import threading

__all__ = ["is_over"]

_is_ours = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _is_ours:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def is_over() -> None:
    """Let an interrupt be KeyboardInterrupt again, which commands take for an end."""
    global _is_ours
    if _is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _is_ours = False

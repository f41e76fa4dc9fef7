"""What is done about records that fail, and about values that stand elsewhere; decisions only. Pure."""

from ottla.connect.error_policy.dead_letters import ErrorContext, context_headers, error_log_line
from ottla.connect.error_policy.secrets import concealed, masked
from ottla.connect.error_policy.tolerance import Decision, Fail, Processing, Retry, Skip, Tolerance, restart_delay_ms

__all__ = [
    "Decision",
    "ErrorContext",
    "Fail",
    "Processing",
    "Retry",
    "Skip",
    "Tolerance",
    "concealed",
    "context_headers",
    "error_log_line",
    "masked",
    "restart_delay_ms",
]

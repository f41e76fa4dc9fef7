"""A small project of somebody else's, whose tests pytest runs with the plugin in a process of its own."""

from __future__ import annotations

from importlib.metadata import entry_points
from textwrap import dedent

import pytest

__all__ = ["PLUGIN", "run_project"]

PLUGIN = "ottla.testing.plugin"


def run_project(pytester: pytest.Pytester, tests: str, *arguments: str, conftest: str = "") -> pytest.RunResult:
    """Run a project's tests, with its conftest; returns what pytest has said."""
    pytester.makepyfile(test_orders=dedent(tests))
    if conftest:
        pytester.makeconftest(dedent(conftest))
    installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", PLUGIN)  # a checkout that was installed before the plugin came to be
    return pytester.runpytest_subprocess(*plugin, "-p", "no:cacheprovider", "--timeout=300", *arguments)

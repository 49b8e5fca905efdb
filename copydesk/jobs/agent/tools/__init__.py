"""The agent's tools: a few functions with typed arguments, and no shell."""

from copydesk.jobs.agent.tools.check_tools import Check, CheckTools
from copydesk.jobs.agent.tools.finish_tools import MAX_SUMMARY_CHARS, Finished, Question
from copydesk.jobs.agent.tools.toolbox import TOOLS, RunTool, Toolbox, build_toolset, run_in_process

__all__ = [
    "MAX_SUMMARY_CHARS",
    "TOOLS",
    "Check",
    "CheckTools",
    "Finished",
    "Question",
    "RunTool",
    "Toolbox",
    "build_toolset",
    "run_in_process",
]

"""The agent's tools: a few functions with typed arguments, and no shell."""

from copydesk.jobs.agent.tools.toolbox import (
    MAX_SUMMARY_CHARS,
    TOOLS,
    Finished,
    RunTool,
    Toolbox,
    build_toolset,
    run_in_process,
)

__all__ = ["MAX_SUMMARY_CHARS", "TOOLS", "Finished", "RunTool", "Toolbox", "build_toolset", "run_in_process"]

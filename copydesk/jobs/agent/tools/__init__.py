"""The agent's hands: few, sharp, typed tools, and no shell."""

from copydesk.jobs.agent.tools.toolbox import LONGEST_SUMMARY, TOOLS, Finished, RunTool, Toolbox, run_here, toolset

__all__ = ["LONGEST_SUMMARY", "TOOLS", "Finished", "RunTool", "Toolbox", "run_here", "toolset"]

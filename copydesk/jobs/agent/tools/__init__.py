"""The agent's hands: few, sharp, typed tools, and no shell."""

from copydesk.jobs.agent.tools.toolbox import TOOLS, Finished, Toolbox

__all__ = ["TOOLS", "Finished", "Toolbox"]

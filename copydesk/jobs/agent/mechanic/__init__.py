"""The mechanic: the built-in model, which needs no network and no key, and never guesses.

It does work that needs no language model, and says when a prompt needs one.
"""

from copydesk.jobs.agent.mechanic.model import Mechanic

__all__ = ["Mechanic"]

"""The mechanic: the built-in model, which needs no network and no key, and never guesses.

It does work that needs no language model, and says when a prompt needs one.
"""

from copydesk.jobs.agent.mechanic.model import NOT_UNDERSTOOD_TITLE, Mechanic

__all__ = ["NOT_UNDERSTOOD_TITLE", "Mechanic"]

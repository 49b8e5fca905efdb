"""The embedded model: no network, no key, no guess. It carries out what needs no language model, and says what does."""

from copydesk.jobs.agent.mechanic.model import Mechanic

__all__ = ["Mechanic"]

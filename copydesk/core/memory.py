"""How often Python looks for garbage in cycles."""

import gc

SELDOM = (20_000, 20, 20)
"""New objects from which cycles are looked for, where Python's own is 700: a batch of views is thousands, and none of
them is in a cycle."""


def settle() -> None:
    """What is loaded by now stays: going through it again and again cost requests up to 0.4 s now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)

"""The agent's own instructions, which are for the model: a change that repeats them was not made for its readers."""

from functools import cache

from copydesk.jobs.agent.models.messages import system_prompt

LONG_ENOUGH = 60


@cache
def instruction_lines() -> tuple[str, ...]:
    """Lines that nobody else would write, so that one of them tells."""
    lines = (line.strip().removeprefix("- ") for line in system_prompt().splitlines())
    return tuple(line for line in lines if len(line) >= LONG_ENOUGH)

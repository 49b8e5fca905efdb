"""The agent's own instructions, which are for the model: a change that repeats them was not made for its readers."""

from functools import cache

from copydesk.jobs.agent.models.messages import load_system_prompt

MIN_LINE_CHARS = 60


@cache
def list_prompt_lines() -> tuple[str, ...]:
    """Lines that nobody else would write, so that one of them tells."""
    lines = (line.strip().removeprefix("- ") for line in load_system_prompt().splitlines())
    return tuple(line for line in lines if len(line) >= MIN_LINE_CHARS)

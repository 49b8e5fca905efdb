"""Lines of the agent's system prompt, which must not appear in published changes."""

from functools import cache

from copydesk.jobs.agent.models.messages import load_system_prompt

MIN_LINE_CHARS = 60


@cache
def list_prompt_lines() -> tuple[str, ...]:
    """Returns the long lines of the system prompt. Each one is unlikely to appear in other text."""
    lines = (line.strip().removeprefix("- ") for line in load_system_prompt().splitlines())
    return tuple(line for line in lines if len(line) >= MIN_LINE_CHARS)

"""Posts a comment on a pull request once, although a crash may hide whether it was posted."""

from copydesk.core.clock import HOUR
from copydesk.jobs.publish.forges.forge import Forge

CLOCK_SKEW_MS = HOUR
"""How far the forge's clock may differ from ours."""


def add_comment_once(forge: Forge, number: int, text: str, marker: str, *, since: int, may_exist: bool) -> None:
    """Adds a comment with this hidden marker, unless there is one since this time, in milliseconds.

    `may_exist` says that an earlier attempt may have added it. Otherwise the forge is not asked.
    """
    hidden_marker = f"<!-- copydesk:{marker} -->"
    if may_exist and forge.has_comment(number, hidden_marker, since - CLOCK_SKEW_MS):
        return
    forge.add_comment(number, f"{text}\n\n{hidden_marker}")

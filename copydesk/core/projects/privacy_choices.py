"""How long a project recognizes a visitor, and what each choice means, in words for the person who decides."""

from typing import Literal, NamedTuple

PrivacyName = Literal["lasting", "daily", "monthly"]
DEFAULT_PRIVACY: PrivacyName = "lasting"


class PrivacyChoice(NamedTuple):
    name: PrivacyName
    title: str
    consequence: str


PRIVACY_CHOICES = (
    PrivacyChoice(
        "daily",
        "For one day",
        "Each visitor gets a new code every day (UTC). The stored data does not show who came back on another day. "
        "In the numbers of a month, a person who comes on 20 days counts as 20 visitors.",
    ),
    PrivacyChoice(
        "monthly",
        "For one month",
        "Each visitor gets a new code every month (UTC). Within a month, a person counts once. A person who comes back "
        "in a later month counts again, so the numbers of a year are too high.",
    ),
    PrivacyChoice(
        "lasting",
        "Without a limit",
        "Each visitor keeps the same code. A person counts once in any period, and the stored data shows on which days "
        "the same visitor read which pages, until you delete it.",
    ),
)
"""From the shortest to the longest."""
PRIVACY_INTRODUCTION = (
    "Copydesk stores a code in place of each visitor: a hash that cannot be reversed without the project's key. "
    "It stores no IP address and no browser name. Choose how long a visitor keeps the same code."
)
PRIVACY_CHANGE_NOTE = (
    "You can change this later. A change applies to new views only: past views keep their codes, and visitors who come "
    "before and after the change count twice in a period that includes it."
)

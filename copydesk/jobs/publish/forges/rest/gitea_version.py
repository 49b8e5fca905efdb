"""The versions of Gitea and Forgejo servers, and what each one offers."""

import re
from dataclasses import dataclass

NumberPair = tuple[int, int]

MIN_VERSION: NumberPair = (1, 16)
PERMISSIONS_SINCE: NumberPair = (1, 17)
"""Since when the permission of a user can be looked up."""
LOOKUP_BY_BRANCH_SINCE: NumberPair = (1, 22)
"""Since when a pull request can be looked up by its branches. Forgejo has it since 7.0, its first own number."""


@dataclass(frozen=True)
class ServerVersion:
    text: str
    numbers: NumberPair | None
    """None if the text has no numbers, as on a server that was built from source."""

    @classmethod
    def parse(cls, text: str) -> "ServerVersion":
        """Parses the text of `/version`, such as `1.24.7`, `1.21.11-2` or `12.0.4+gitea-1.22.0`."""
        match = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
        return cls(text, (int(match[1]), int(match[2])) if match else None)

    @property
    def is_supported(self) -> bool:
        return self.numbers is None or self.numbers >= MIN_VERSION

    def offers(self, since: NumberPair) -> bool:
        """Returns whether the server certainly has what this version introduced."""
        return self.numbers is not None and self.numbers >= since

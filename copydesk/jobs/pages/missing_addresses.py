"""Addresses that readers opened and that have no page. They are made up by visitors, so they are checked first."""

import re

ADDRESS_PATTERN = re.compile(r"/[\w./~-]{1,300}")
"""Letters, digits and the marks that pages use. Wildcards and placeholders of redirect files, quotes, blanks and
control characters do not match."""


def is_safe_address(address: str) -> bool:
    """Returns whether a redirect from this address is safe: a plain path within the site, not a pattern."""
    if not ADDRESS_PATTERN.fullmatch(address) or "//" in address:
        return False
    return not any(segment in (".", "..") for segment in address.split("/"))


def build_redirect_prompt(address: str) -> str:
    """Returns the prompt of a job that adds a redirect for a missing page. The mechanic understands it, too."""
    return f'Add a redirect for the missing page "{address}".'

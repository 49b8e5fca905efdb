"""Reads a repository's token from an environment variable."""

import os

from copydesk.jobs.job import RepositoryFailed


def read_token_variable(name: str) -> str:
    """Returns the token in this environment variable. Raises RepositoryFailed if the variable is not set."""
    token = os.environ.get(name, "").strip()
    if not token:
        raise RepositoryFailed(f"The environment variable {name}, which holds the token, is not set.")
    return token

"""githubkit for the tests of the fake GitHub."""

from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.support.forges import github

TOKEN, BRANCH = "github_pat_copydesk", "copydesk/job_1"
NEW_PULL = {"owner": "acme", "repo": "docs", "head": BRANCH, "base": "main", "title": "A guide"}


def connect_github(fake: github, auth: Any = TOKEN) -> Any:
    """Connects githubkit. Keep a reference: its parts do not outlive it."""
    return GitHub(auth, base_url=fake.api, auto_retry=False, http_cache=False)


def catch_refusal(call: Any, *args: Any, **about: Any) -> tuple[int, Any, Any]:
    with pytest.raises(RequestFailed) as failure:
        call(*args, **about)
    answer = failure.value.response
    return answer.status_code, answer.json(), answer.headers

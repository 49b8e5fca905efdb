"""Fake forges for tests: real HTTP, real git, and every call held against what the forge publishes.

    with github(tmp_path) as fake:
        fake.add_token("a-token")
        fake.commit("feature", {"guide.md": b"# Guide"})    # or push to fake.repository_url("acme/docs")
        fake.faults.lose_answer(where="POST .*/pulls$")     # what goes wrong
        ...                                                 # something calls fake.api
        fake.merge(1)                                       # what people do
        assert fake.violations == []                        # nothing was asked that is not published

Leaving the block fails the test when the fake itself said something that the forge would not.
"""

from tests.support.forges.gitea import Forgejo as forgejo  # noqa: N813
from tests.support.forges.gitea import Gitea as gitea  # noqa: N813
from tests.support.forges.github import GitHub as github  # noqa: N813
from tests.support.forges.gitlab import GitLab as gitlab  # noqa: N813

__all__ = ["forgejo", "gitea", "github", "gitlab"]

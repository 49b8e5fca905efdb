"""Fake forges for tests: real HTTP, real git, and every call checked against the forge's published schema.

    with github(tmp_path) as fake:
        fake.add_token("a-token")
        fake.commit("feature", {"guide.md": b"# Guide"})    # or push to fake.repository_url("acme/docs")
        fake.faults.lose_answer(where="POST .*/pulls$")     # a fault
        ...                                                 # something calls fake.api
        fake.merge(1)                                       # an action of a person
        assert fake.violations == []                        # all requests match the schema

Leaving the block fails the test if a response of the fake does not match the schema.
"""

from tests.support.forges.gitea import Forgejo as forgejo  # noqa: N813
from tests.support.forges.gitea import Gitea as gitea  # noqa: N813
from tests.support.forges.github import GitHub as github  # noqa: N813
from tests.support.forges.gitlab import GitLab as gitlab  # noqa: N813

__all__ = ["forgejo", "gitea", "github", "gitlab"]

"""Each remote forge in turn: a fake that checks every call against the published schema, and our adapter for it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project
from copydesk.jobs.publish.forges.forge import Credentials, Forge, Proposal
from copydesk.jobs.publish.forges.pull_requests import PublishedPull, create_or_update_pull
from copydesk.jobs.publish.forges.registry import create_forge
from tests.jobs.publish.forges.extra_calls import DISTINCT_FORGES, OLDEST_GITEA, VERSION_MATRIX, forge_kind
from tests.support.drills import mark_drills

TOKEN = "token-of-the-desk-4711"
BRANCH = "copydesk/job_1"
HOUR_AGO_MS = int((time.time() - 3600) * 1000)


def make_project(kind: str, repository: str, **about: Any) -> Project:
    fields: dict[str, Any] = {
        "id": "proj_1",
        "site_id": "site_1",
        "name": "Docs",
        "repository": repository,
        "ref": "main",
        "root": "",
        "forge": kind,
        "model": None,
        "token_env": None,
        "allow_private": True,
        "policy": Policy(),
        "collecting": CollectionOptions(),
        "created_at": 0,
    }
    return Project(**{**fields, **about})


@dataclass
class ForgeBench:
    """The parts of a job that publishes. Its pauses are recorded and skipped."""

    kind: str
    fake: Any
    forge: Forge
    pauses: list[float] = field(default_factory=list)

    def pause(self, seconds: float, why: str) -> None:
        assert why
        self.pauses.append(seconds)
        time.sleep(min(seconds, 0.02))

    def publish(
        self,
        title: str = "Fix the links",
        body: str = "Three links were broken.",
        *,
        known: int | None = None,
        asked_at: int = HOUR_AGO_MS,
        guard: Callable[[], None] = lambda: None,
        seconds: float = 600,
        **about: Any,
    ) -> PublishedPull:
        proposal = Proposal(branch=BRANCH, base="main", title=title, body=body, **about)
        deadline = time.monotonic() + seconds
        return create_or_update_pull(
            self.forge,
            proposal,
            known_number=known,
            requested_at=asked_at,
            before_change=guard,
            pause=self.pause,
            deadline=deadline,
        )

    def forge_with_token(self, token: str) -> Forge:
        return create_forge(make_project(self.kind, self.fake.repository_url("acme/docs")), Credentials(token=token))


@pytest.fixture(params=mark_drills(VERSION_MATRIX, default=(*DISTINCT_FORGES, OLDEST_GITEA)))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForgeBench]:
    """A repository with a branch that a job has pushed, without faults."""
    kind = forge_kind(request.param)
    with VERSION_MATRIX[request.param](tmp_path) as fake:
        fake.add_token(TOKEN)
        forge = create_forge(make_project(kind, fake.repository_url("acme/docs")), Credentials(token=TOKEN))
        fake.commit(BRANCH, {"docs/index.md": b"# Hello\n"})
        yield ForgeBench(kind, fake, forge)
        forge.close()
        assert fake.violations == []

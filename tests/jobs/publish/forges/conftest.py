"""Each remote forge in turn: a fake that holds every call against what the forge publishes, and our adapter for it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.projects.collection_options import Collecting
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import Project
from copydesk.jobs.publish.forges.forge import Credentials, Forge, Proposal
from copydesk.jobs.publish.forges.pull_requests import Published, publish_pull
from copydesk.jobs.publish.forges.registry import forge_for
from tests.jobs.publish.forges.extra_calls import FAKES, UNLIKE
from tests.support.drills import drills

TOKEN = "token-of-the-desk-4711"
BRANCH = "copydesk/job_1"
HOUR_AGO = int((time.time() - 3600) * 1000)


def project_on(kind: str, repository: str, **about: Any) -> Project:
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
        "collecting": Collecting(),
        "created_at": 0,
    }
    return Project(**{**fields, **about})


@dataclass
class Desk:
    """What a job has at hand when it publishes. Its pauses are noted and cut short."""

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
        asked_at: int = HOUR_AGO,
        guard: Callable[[], None] = lambda: None,
        seconds: float = 600,
        **about: Any,
    ) -> Published:
        proposal = Proposal(branch=BRANCH, base="main", title=title, body=body, **about)
        deadline = time.monotonic() + seconds
        return publish_pull(
            self.forge, proposal, known=known, asked_at=asked_at, guard=guard, pause=self.pause, deadline=deadline
        )

    def with_token(self, token: str) -> Forge:
        return forge_for(project_on(self.kind, self.fake.repository_url("acme/docs")), Credentials(token=token))


@pytest.fixture(params=drills(FAKES, but=UNLIKE))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A repository with a branch that a job has pushed, and nothing wrong so far."""
    with FAKES[request.param](tmp_path) as fake:
        fake.add_token(TOKEN)
        forge = forge_for(project_on(request.param, fake.repository_url("acme/docs")), Credentials(token=TOKEN))
        fake.commit(BRANCH, {"docs/index.md": b"# Hello\n"})
        yield Desk(request.param, fake, forge)
        forge.end()
        assert fake.violations == []

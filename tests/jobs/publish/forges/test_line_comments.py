"""A comment on a line becomes a follow-up that the mechanic does on that line."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.publish.forges.stage import WEBHOOK_SECRET, create_project, fake_forge, read_file_on_branch
from tests.support.repositories import make_repository
from tests.support.service import serve

FILES = {"docs/index.md": b"# Hello\n\nThe colour.\n\nThe colour, too.\n", "docs/other.md": b"# Other\n\nA flavour.\n"}


@pytest.mark.deep
@pytest.mark.parametrize("way", ["github", "gitlab", "gitea"])
def test_mechanic_follows_a_comment_on_a_line(way: str, tmp_path: Path) -> None:
    local = make_repository(tmp_path / "docs.git", FILES)
    with (
        fake_forge(way, tmp_path / "forge", FILES) as fake,
        serve(tmp_path / "data", repository=local) as service,
    ):
        project = create_project(service.desk, way, fake)
        key = service.desk.keys.create(project.id, actor="test")[1]
        client = replace(service, project=project, key=key).client
        fake.webhooks.add(f"{service.url}/webhooks/{project.id}", WEBHOOK_SECRET)
        job = client.wait(client.create_job("Replace flavour with flavor.")["id"])
        assert job["status"] == "completed", job["message"]
        fake.comment(1, "@copydesk replace colour with color here.", file="docs/index.md", line=5)
        fake.webhooks.flush()
        again = client.wait(job["id"])
        assert (again["status"], again["prLink"]) == ("completed", job["prLink"]), again["message"]
        body = read_file_on_branch(fake, job["branch"], "docs/index.md")
        assert body == b"# Hello\n\nThe colour.\n\nThe color, too.\n"

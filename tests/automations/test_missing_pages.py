"""From a request for a page that moved to a pull request with its redirect, without a language model."""

from pathlib import Path

import pygit2
import pytest

from tests.support.repositories import commit, make_repository
from tests.support.service import serve

GUIDE = b"# Set up\n\n" + b"".join(b"Step %d of the guide.\n" % number for number in range(20))
CONFIG = b'{\n  "navigation": {\n    "pages": ["index", "start/setup"]\n  }\n}\n'
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


def move_page(repository: pygit2.Repository, old: str, new: str) -> None:
    index = pygit2.Index()
    head = repository[repository.head.target].peel(pygit2.Commit)
    index.read_tree(head.tree)
    entry = index[old]
    index.remove(old)
    index.add(pygit2.IndexEntry(new, entry.id, entry.mode))
    signature = pygit2.Signature("Ada", "ada@example.com", 1, 0)
    tree = index.write_tree(repository)
    repository.create_commit("refs/heads/main", signature, signature, "Move", tree, [head.id])


@pytest.mark.deep
def test_missing_pages_become_redirects_in_a_pull_request(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs.json": CONFIG, "index.md": b"# Home\n", "setup.md": GUIDE})
    repository = pygit2.Repository(str(path))
    move_page(repository, "setup.md", "start/setup.md")
    commit(repository, {"index.md": b"# Home again\n"})
    with serve(tmp_path / "data", repository=path) as service:
        events = [
            {"path": missing, "status": 404, "ip": f"192.0.2.{number}", "userAgent": BROWSER}
            for missing in ("/setup", "/no/such/page", "/setup/*")
            for number in range(3)
        ]
        assert service.client.send_events(events)["accepted"] == 9
        fields = {"kind": "missing_pages", "trigger": {"type": "api"}}
        automation = service.desk.automations.create(service.project, fields, actor="test")
        fired = service.desk.automations.run_now(service.project, automation.id, actor="Ada")
        job = service.client.wait(fired.job_id)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert job["prLink"]
        diff = service.client.diff(fired.job_id).decode()
        assert '+      "source": "/setup",' in diff
        assert '+      "destination": "/start/setup"' in diff
        assert diff.count("+++ ") == 1
        assert "/no/such/page" not in (job["summary"] or "")
        started = service.client.create_job('Add a redirect for the missing page "/no/such/page".')
        assert service.client.wait(started["id"])["reason"] == "no_changes"

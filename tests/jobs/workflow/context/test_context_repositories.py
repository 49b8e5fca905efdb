"""Jobs read context repositories at a pinned commit, and can neither change them nor publish their secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pygit2
import pytest
from pygit2.enums import ObjectType

from copydesk.core.errors import InvalidRequest
from copydesk.jobs.agent.conversation import Conversation, Reply, ToolResults
from copydesk.jobs.projects.context_mirrors import ContextAccess
from copydesk.jobs.projects.context_repositories import (
    MAX_CONTEXT_REPOSITORIES,
    ContextExists,
    ContextNotFound,
    NewContext,
    TooManyContexts,
)
from copydesk.jobs.workflow.maintenance import delete_unused_context_mirrors
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.people import signed_in_client
from tests.support.repositories import commit, list_branches, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

DOCS = {"index.md": b"# Tool\n\nRun it with `--try-run`.\n"}
MODEL = "openai:scripted"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
CODE = {
    "cli.py": b'import os\n\nparser.add_argument("--dry-run", help="Change nothing.")\n',
    "config.py": f'TOKEN = "{TOKEN}"\n'.encode(),
    ".env": b"DATABASE_PASSWORD=correct-horse-battery\n",
    "src/deploy.key": b"not to be read\n",
}


@contextmanager
def open_service(folder: Path, *script: Turn, code: dict[str, bytes] = CODE) -> Iterator[tuple[Service, ScriptedModel]]:
    """Serves a project with the context repository `code`."""
    model = ScriptedModel(list(script))
    make_repository(folder / "code.git", code)
    repository = make_repository(folder / "docs.git", DOCS)
    with serve(folder / "data", repository=repository, model=lambda _name: model, models=[MODEL]) as service:
        service.desk.contexts.add(service.project, NewContext("code", str(folder / "code.git")), actor="test")
        yield service, model


def run_job(service: Service, prompt: str = "Fix the flag.", **options: object) -> dict[str, Any]:
    created = service.http.post(
        f"/v2/agent/{service.project.id}/job", json={"prompt": prompt, "model": MODEL, **options}
    )
    assert created.status_code == 201, created.text
    return dict(service.client.wait(created.json()["id"]))


def read_results(model: ScriptedModel, request: int = 1) -> str:
    """Returns the results of all tools that the model saw in one of its requests."""
    entries = [entry for entry in model.requests[request] if isinstance(entry, ToolResults)]
    return "\n".join(result.text for entry in entries for result in entry.results)


@pytest.mark.deep
def test_tools_read_a_context_repository(tmp_path: Path) -> None:
    look = calls(
        ("list", {"repository": "code"}),
        ("search", {"repository": "code", "pattern": "add_argument"}),
        ("read", {"repository": "code", "path": "cli.py"}),
        ("log", {"repository": "code"}),
    )
    with open_service(tmp_path, look, edit("index.md", "--try-run", "--dry-run"), finish()) as (service, model):
        job = run_job(service)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        seen = read_results(model)
        assert '\n3: parser.add_argument("--dry-run"' in seen
        assert "lines 1 to 4 of 4" in seen
        assert "Ada: Change\n    .env, cli.py, config.py, src/deploy.key" in seen
        assert set(list_branches(tmp_path / "code.git")) == {"main"}, "nothing was pushed there"


@pytest.mark.deep
def test_show_displays_a_commit_and_only_those_before_the_pinned_one(tmp_path: Path) -> None:
    with open_service(tmp_path) as (service, model):
        repository = pygit2.Repository(str(tmp_path / "code.git"))
        renamed = commit(repository, {"cli.py": b'parser.add_argument("--check")\n'}, message="Rename the flag")
        other = commit(repository, {"cli.py": b"unpublished\n"}, branch="other", message="Not on main")
        model.script = [
            calls(("show", {"repository": "code", "commit": renamed[:12]}), ("log", {"repository": "code"})),
            calls(("show", {"repository": "code", "commit": other})),
            finish(),
        ]
        run_job(service)
        assert '+parser.add_argument("--check")' in read_results(model)
        assert "Rename the flag" in read_results(model)
        assert f"There is no commit {other}" in read_results(model, 2)
        assert "unpublished" not in read_results(model, 2)


def test_secrets_of_a_context_repository_reach_neither_the_model_nor_a_page(tmp_path: Path) -> None:
    look = calls(
        ("list", {"repository": "code"}),
        ("read", {"repository": "code", "path": "config.py"}),
        ("read", {"repository": "code", "path": ".env"}),
        ("search", {"repository": "code", "pattern": "PASSWORD|TOKEN|not to be"}),
    )
    with open_service(tmp_path) as (service, model):
        head = list_branches(tmp_path / "code.git")["main"]
        model.script = [look, calls(("show", {"repository": "code", "commit": head})), finish()]
        run_job(service)
        seen = read_results(model, 2)
        assert "TOKEN = " in seen
        for secret in (TOKEN, "correct-horse-battery", "not to be read"):
            assert secret not in seen
        assert "There is no file .env" in seen


def test_context_repository_cannot_be_written(tmp_path: Path) -> None:
    attempts = calls(
        ("write", {"repository": "code", "path": "cli.py", "content": "x"}),
        ("edit", {"repository": "code", "path": "cli.py", "hash": "0" * 12, "replacements": []}),
        ("delete", {"repository": "code", "path": "cli.py"}),
        ("move", {"repository": "code", "path": "cli.py", "to": "x.py"}),
    )
    with open_service(tmp_path, attempts, finish()) as (service, model):
        before = list_branches(tmp_path / "code.git")
        job = run_job(service)
        assert job["reason"] == "no_changes"
        assert read_results(model).count("Extra inputs are not permitted") == 4
        assert list_branches(tmp_path / "code.git") == before


@pytest.mark.deep
def test_run_reads_the_pinned_commit_although_the_branch_moves(tmp_path: Path) -> None:
    def move_branch(_conversation: Conversation, _workspace: Workspace) -> Reply:
        commit(pygit2.Repository(str(tmp_path / "code.git")), {"cli.py": b"moved\n"})
        return calls(("list", {}))

    read = calls(("read", {"repository": "code", "path": "cli.py"}))
    with open_service(tmp_path, move_branch, read, finish()) as (service, model):
        run_job(service)
        assert "--dry-run" in read_results(model, 2)


@pytest.mark.deep
def test_job_reads_only_the_repositories_that_it_names(tmp_path: Path) -> None:
    read = calls(("read", {"repository": "code", "path": "cli.py"}))
    with open_service(tmp_path, read, finish()) as (service, model):
        run_job(service, context=[])
        assert "There is no tool" in read_results(model) or "This job has: none." in read_results(model)
        refused = service.http.post(service.at("/job"), json={"prompt": "x", "context": ["nope"]})
        assert refused.status_code == 400
        assert refused.json()["error"] == "This project has no context repository 'nope'. It has code."


def test_unreadable_context_repository_fails_the_job_before_the_model_is_asked(tmp_path: Path) -> None:
    with open_service(tmp_path, finish()) as (service, model):
        (tmp_path / "code.git").rename(tmp_path / "gone.git")
        job = run_job(service)
        assert (job["status"], job["reason"]) == ("failed", "repository_error")
        assert job["message"].startswith("The context repository code cannot be read.")
        assert model.requests == []


@pytest.mark.deep
def test_unknown_flag_is_found_and_a_flag_of_the_context_is_known(tmp_path: Path) -> None:
    for flag, findings in (("--dry-run", 0), ("--dry-runs-only", 1)):
        folder = tmp_path / flag.strip("-")
        folder.mkdir()
        with open_service(folder, edit("index.md", "--try-run", flag), *[finish()] * 5) as (service, _):
            checks = run_job(service, "Fix the flag.")["checks"]
            [names] = [check for check in checks if check["name"] == "unknown-name"]
            assert len(names["findings"]) == findings, checks


@pytest.mark.deep
def test_evidence_is_verified_and_refuted_evidence_is_sent_back(tmp_path: Path) -> None:
    def cite(lines: str, quote: str) -> Reply:
        source = {"repository": "code", "path": "cli.py", "lines": lines, "quote": quote}
        citation = {"path": "index.md", "line": 3, "statement": "The flag is --dry-run.", "source": source}
        return calls(("finish", {"title": "Flag", "summary": "Done.", "evidence": [citation]}))

    change = edit("index.md", "--try-run", "--dry-run")
    with open_service(tmp_path, change, cite("1", "--no-such"), cite("1", '"--dry-run"')) as (service, model):
        job = run_job(service)
        assert "could not confirm" in read_results(model, 2)
        head = list_branches(tmp_path / "code.git")["main"]
        [evidence] = job["evidence"]
        assert evidence["verified"] is True
        assert evidence["source"] == {
            "repository": "code", "commit": head, "path": "cli.py", "lines": "3", "url": None
        }  # fmt: skip
        [pull] = service.desk.pulls.list_for_project(service.project.id)
        line = 'parser.add_argument("--dry-run", help="Change nothing.")'
        assert evidence["quote"] == line
        assert f"`index.md:3` The flag is --dry-run. (`code: cli.py, line 3` at `{head[:12]}`: `{line}`)" in pull.body
        shown = signed_in_client(service).get(f"/projects/{service.project.id}/jobs/{job['id']}").text
        assert "verified" in shown
        assert "parser.add_argument(&#34;--dry-run&#34;" in shown
        assert "code: cli.py, line 3, commit" in shown


@pytest.mark.deep
def test_unverified_evidence_is_shown_as_such(tmp_path: Path) -> None:
    source = {"repository": "code", "path": "gone.py", "lines": "1-2", "quote": "anything"}
    citation = {"path": "index.md", "line": 3, "statement": "The flag is --dry-run.", "source": source}
    cite = calls(("finish", {"title": "Flag", "summary": "Done.", "evidence": [citation]}))
    with open_service(tmp_path, edit("index.md", "--try-run", "--dry-run"), *[cite] * 4) as (service, _):
        [evidence] = run_job(service)["evidence"]
        assert (evidence["verified"], evidence["problem"]) == (False, "there is no file gone.py")
        [pull] = service.desk.pulls.list_for_project(service.project.id)
        assert "**Not verified:** `index.md:3` The flag is --dry-run." in pull.body
        assert read_file(service.repository, "main", "index.md") == DOCS["index.md"]


@pytest.mark.deep
def test_findings_and_refuted_evidence_go_back_together_in_each_of_three_reviews(tmp_path: Path) -> None:
    source = {"repository": "code", "path": "cli.py", "lines": "3", "quote": "add_argument"}
    citation = {"path": "index.md", "line": 3, "statement": "The flag is --dry-runs-only.", "source": source}
    cite = calls(("finish", {"title": "Flag", "summary": "Done.", "evidence": [citation]}))
    with open_service(tmp_path, edit("index.md", "--try-run", "--dry-runs-only"), *[cite] * 4) as (service, model):
        [evidence] = run_job(service)["evidence"]
        problem = "the quote exists, but does not name --dry-runs-only"
        assert (evidence["verified"], evidence["problem"]) == (False, problem)
        sent_back = [entry.results[0].text for entry in model.requests[-1] if isinstance(entry, ToolResults)][1:]
        assert len(sent_back) == 3
        assert all("occurs nowhere in the repository" in text and problem in text for text in sent_back)


@pytest.mark.deep
def test_statement_without_evidence_is_sent_back(tmp_path: Path) -> None:
    addition = edit("index.md", "`--try-run`.", "`--try-run`.\n\nEach command answers within a second.")
    with open_service(tmp_path, addition, *[finish()] * 4) as (service, model):
        assert run_job(service)["reason"] is None
        assert "you added statements to pages, and no evidence" in read_results(model, 2)
        assert len(model.requests) == 5
    other = tmp_path / "other"
    other.mkdir()
    with open_service(other, addition, finish()) as (service, model):
        run_job(service, context=[])
        assert len(model.requests) == 2, "a job without context repositories can cite nothing"


@pytest.mark.deep
def test_secrets_in_quoted_lines_are_not_shown(tmp_path: Path) -> None:
    source = {"repository": "code", "path": "config.py", "lines": "1", "quote": "API_TOKEN ="}
    citation = {"path": "index.md", "line": 3, "statement": "A token is needed.", "source": source}
    cite = calls(("finish", {"title": "Flag", "summary": "Done.", "evidence": [citation]}))
    code = {**CODE, "config.py": f'API_TOKEN = "{TOKEN}"\n'.encode()}
    with open_service(tmp_path, edit("index.md", "--try-run", "--dry-run"), cite, code=code) as (service, _):
        [evidence] = run_job(service)["evidence"]
        assert evidence["quote"].startswith("API_TOKEN = ")
        assert TOKEN not in evidence["quote"]


@pytest.mark.deep
def test_names_are_unique_and_their_number_is_limited(tmp_path: Path) -> None:
    with open_service(tmp_path) as (service, _):
        contexts, project = service.desk.contexts, service.project
        address = str(tmp_path / "code.git")
        with pytest.raises(ContextExists):
            contexts.add(project, NewContext("code", address), actor="test")
        for number in range(MAX_CONTEXT_REPOSITORIES - 1):
            contexts.add(project, NewContext(f"c{number}", address), actor="test")
        with pytest.raises(TooManyContexts):
            contexts.add(project, NewContext("more", address), actor="test")
        contexts.remove(project.id, "code", actor="test")
        with pytest.raises(ContextNotFound):
            contexts.remove(project.id, "code", actor="test")


def test_own_token_is_sealed_and_goes_with_the_repository(tmp_path: Path) -> None:
    with open_service(tmp_path) as (service, _):
        contexts, project = service.desk.contexts, service.project
        contexts.add(project, NewContext("own", str(tmp_path / "code.git"), token="s3cret-token"), actor="test")
        assert service.desk.secrets.all(project.id)["context_token_own"] == "s3cret-token"
        contexts.remove(project.id, "own", actor="test")
        assert "context_token_own" not in service.desk.secrets.all(project.id)


@pytest.mark.parametrize(
    ("address", "has_token", "expected"),
    [
        ("https://git.example.org/other/code", False, {"forge_token": "project"}),
        ("https://git.example.org:8443/other/code", False, {}),
        ("http://git.example.org/other/code", False, {}),
        ("https://git.example.org.evil.test/code", False, {}),
        ("https://elsewhere.test/code", True, {"forge_token": "own"}),
    ],
)
def test_project_token_goes_to_its_own_host_only(
    tmp_path: Path, address: str, has_token: bool, expected: dict[str, str]
) -> None:
    with open_service(tmp_path) as (service, _):
        [context] = service.desk.contexts.list(service.project.id)
        project = service.desk.projects.create(
            "Remote", repository="https://git.example.org/team/docs", ref="main", forge="gitea", actor="test"
        )
        values = {**vars(context), "repository": address, "has_token": has_token}
        secrets = {"forge_token": "project", "context_token_code": "own", "webhook_secret": "hook"}
        assert ContextAccess.build(project, secrets, type(context)(**values)).secrets == expected


def test_same_address_and_token_share_a_mirror(tmp_path: Path) -> None:
    with open_service(tmp_path) as (service, _):
        [context] = service.desk.contexts.list(service.project.id)
        other = service.another_project().project
        first = ContextAccess.build(service.project, {}, context).mirror_folder(tmp_path)
        assert ContextAccess.build(other, {}, context).mirror_folder(tmp_path) == first
        own = type(context)(**{**vars(context), "has_token": True})
        folders = {
            ContextAccess.build(other, {"context_token_code": token}, own).mirror_folder(tmp_path) for token in "ab"
        }
        assert len({first, *folders}) == 3


@pytest.mark.parametrize("name", ["", "Upper", "-a", "a/b", "a" * 41, "a b", "ä"])
def test_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with open_service(tmp_path) as (service, _), pytest.raises(InvalidRequest, match="lowercase letters"):
        service.desk.contexts.add(service.project, NewContext(name, str(tmp_path / "code.git")), actor="test")


@pytest.mark.deep
def test_mirror_is_deleted_when_no_project_reads_it(tmp_path: Path) -> None:
    with open_service(tmp_path, finish()) as (service, _):
        run_job(service)
        desk = service.desk
        folder = desk.settings.mirrors_folder
        [mirror] = folder.glob("context-*.git")
        delete_unused_context_mirrors(desk.database, desk.settings, desk.secrets, unused_seconds=-1)
        assert mirror.exists()
        desk.contexts.remove(service.project.id, "code", actor="test")
        delete_unused_context_mirrors(desk.database, desk.settings, desk.secrets)
        assert mirror.exists(), "a run may still read it"
        delete_unused_context_mirrors(desk.database, desk.settings, desk.secrets, unused_seconds=-1)
        assert list(folder.glob("context-*")) == []


@pytest.mark.deep
def test_commit_with_any_bytes_is_listed_and_shown(tmp_path: Path) -> None:
    with open_service(tmp_path) as (service, model):
        repository = pygit2.Repository(str(tmp_path / "code.git"))
        head = repository.lookup_reference("refs/heads/main")
        tree = repository[head.target].peel(pygit2.Commit).tree_id
        person = b"Ad\xff <a@example.org> 1700000000 +0000"
        header = b"tree %s\nparent %s\nauthor %s\ncommitter %s\nencoding no-such\n" % (
            str(tree).encode(), str(head.target).encode(), person, person
        )  # fmt: skip
        commit_id = repository.odb.write(ObjectType.COMMIT, header + b"\nSub\xffject\n")
        repository.lookup_reference("refs/heads/main").set_target(commit_id)
        model.script = [
            calls(("log", {"repository": "code"}), ("show", {"repository": "code", "commit": str(commit_id)})),
            finish(),
        ]
        assert run_job(service)["reason"] == "no_changes"
        assert read_results(model).count("Sub\ufffdject") == 3

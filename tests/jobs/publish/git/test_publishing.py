"""From changes to a pull request: one branch, one pull request, on the current base."""

import asyncio
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pygit2
import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply
from copydesk.jobs.job import branch_name
from copydesk.jobs.publish.forges.local import LocalPulls, PullConflict
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import MAX_LOOSE_IN_SAMPLE, Mirror, pack_mirror
from copydesk.jobs.workflow.maintenance import detect_merges
from copydesk.jobs.workspace.workspace import Workspace
from copydesk_client import Client
from tests.support.repositories import commit, list_branches, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

PAGE = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "docs.git", {"docs/page.md": PAGE, "docs/other.md": b"other\n"})


def serve_scripted(repository: Path, *script: Turn) -> AbstractContextManager[Service]:
    model = ScriptedModel(script)
    return serve(repository.parent / "data", repository=repository, model=lambda _name: model)


def run_job(client: Client, prompt: str = "Change it") -> str:
    return client.wait(client.create_job(prompt)["id"])["id"]


def push_during_turn(repository: Path, files: dict[str, bytes], then: Turn) -> Turn:
    """Returns a turn during which a person pushes to main."""

    def turn(conversation: Conversation, workspace: Workspace) -> Reply:
        commit(pygit2.Repository(str(repository)), files)
        assert not isinstance(then, Reply)
        return then(conversation, workspace)

    return turn


@pytest.mark.deep
def test_change_is_reapplied_on_a_base_that_moved(repository: Path) -> None:
    moved = PAGE.replace(b"seven", b"SEVEN")
    script = push_during_turn(repository, {"docs/page.md": moved}, edit("docs/page.md", "one", "ONE"))
    with serve_scripted(repository, script, finish()) as service:
        job = service.client.get_job(run_job(service.client))
    assert job["status"] == "completed"
    assert "rebased" in (job["message"] or "")
    assert read_file(repository, job["branch"], "docs/page.md") == moved.replace(b"one", b"ONE")
    opened = pygit2.Repository(str(repository))
    heads = list_branches(repository)
    assert str(opened[heads[job["branch"]]].peel(pygit2.Commit).parent_ids[0]) == heads["main"]


@pytest.mark.deep
def test_conflict_with_a_base_that_moved_is_reported(repository: Path) -> None:
    theirs = PAGE.replace(b"one", b"uno")
    script = push_during_turn(repository, {"docs/page.md": theirs}, edit("docs/page.md", "one", "ONE"))
    with serve_scripted(repository, script, finish()) as service:
        job = service.client.get_job(run_job(service.client))
        pull = service.desk.pulls.list_for_project(service.project.id)[0]
        with pytest.raises(PullConflict, match="conflicts"):
            service.desk.pulls.merge(pull, Mirror.for_project(service.desk.settings.mirrors_folder, service.project))
    assert "conflicts with main" in (job["message"] or "")
    assert "conflicts with main" in pull.body
    assert read_file(repository, job["branch"], "docs/page.md") == PAGE.replace(b"one", b"ONE")


@pytest.mark.deep
def test_follow_up_continues_from_commits_by_people(repository: Path) -> None:
    script = (edit("docs/page.md", "one", "ONE"), finish("First"), edit("docs/page.md", "two", "TWO"), finish("Second"))
    with serve_scripted(repository, *script) as service:
        job_id = run_job(service.client)
        job = service.client.get_job(job_id)
        commit(pygit2.Repository(str(repository)), {"docs/by-hand.md": b"mine\n"}, branch=job["branch"])
        service.client.message_job(job_id, "And the second")
        again = service.client.wait(job_id)
        (pull,) = service.desk.pulls.list_for_project(service.project.id)
    assert again["prLink"] == job["prLink"]
    assert (again["title"], pull.title) == ("First", "First")
    assert "Change it" in pull.body
    assert "And the second" in pull.body
    assert read_file(repository, job["branch"], "docs/by-hand.md") == b"mine\n"
    assert read_file(repository, job["branch"], "docs/page.md") == PAGE.replace(b"one", b"ONE").replace(b"two", b"TWO")
    assert set(list_branches(repository)) == {"main", job["branch"]}


@pytest.mark.deep
def test_foreign_branch_of_the_same_name_is_never_overwritten(repository: Path) -> None:
    foreign: dict[str, str] = {}

    def turn(conversation: Conversation, workspace: Workspace) -> Reply:
        job = service.client.list_jobs()["jobs"][0]
        foreign["head"] = commit(pygit2.Repository(str(repository)), {"x.md": b"foreign\n"}, branch=job["branch"])
        chosen = edit("docs/page.md", "one", "ONE")
        assert not isinstance(chosen, Reply)
        return chosen(conversation, workspace)

    with serve_scripted(repository, turn, finish()) as service:
        job = service.client.get_job(run_job(service.client))
        assert service.desk.pulls.list_for_project(service.project.id) == []
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    assert list_branches(repository)[job["branch"]] == foreign["head"]


@pytest.mark.deep
def test_merging_brings_the_change_to_main_and_archives_the_job(repository: Path) -> None:
    with serve_scripted(repository, edit("docs/page.md", "one", "ONE"), finish("Louder")) as service:
        job_id = run_job(service.client)
        mirror = Mirror.for_project(service.desk.settings.mirrors_folder, service.project)
        merged = service.desk.pulls.merge(service.desk.pulls.get_pull(service.project.id, 1), mirror)
        assert merged.state == "merged"
        assert service.client.get_job(job_id)["status"] == "archived"
        with pytest.raises(PullConflict, match="merged"):
            service.desk.pulls.merge(merged, mirror)
    assert read_file(repository, "main", "docs/page.md") == PAGE.replace(b"one", b"ONE")


@pytest.mark.deep
def test_closing_leaves_main_alone_and_archives_the_job(repository: Path) -> None:
    before = list_branches(repository)["main"]
    with serve_scripted(repository, edit("docs/page.md", "one", "ONE"), finish()) as service:
        job_id = run_job(service.client)
        closed = service.desk.pulls.close(service.desk.pulls.get_pull(service.project.id, 1))
        assert closed.state == "closed"
        assert service.client.get_job(job_id)["status"] == "archived"
    assert list_branches(repository)["main"] == before


@pytest.mark.deep
def test_new_folders_are_created_and_empty_folders_removed(repository: Path) -> None:
    script = calls(
        ("write", {"path": "guides/a/b/new.md", "content": "new\n"}),
        ("delete", {"path": "docs/other.md"}),
        ("move", {"path": "docs/page.md", "to": "guides/page.md"}),
    )
    with serve_scripted(repository, script, finish()) as service:
        job = service.client.get_job(run_job(service.client))
    tree = pygit2.Repository(str(repository))[list_branches(repository)[job["branch"]]].peel(pygit2.Tree)
    assert [entry.name for entry in tree] == ["guides"]
    assert read_file(repository, job["branch"], "guides/a/b/new.md") == b"new\n"
    assert read_file(repository, job["branch"], "guides/page.md") == PAGE


@pytest.mark.deep
def test_lost_mirror_is_recreated(repository: Path, tmp_path: Path) -> None:
    script = (edit("docs/page.md", "one", "ONE"), finish(), edit("docs/page.md", "two", "TWO"), finish())
    with serve_scripted(repository, *script) as service:
        job_id = run_job(service.client)
        for found in service.desk.settings.mirrors_folder.iterdir():
            found.rename(tmp_path / f"lost-{found.name}")
        service.client.message_job(job_id, "again")
        job = service.client.wait(job_id)
    assert job["status"] == "completed"
    assert read_file(repository, job["branch"], "docs/page.md") == PAGE.replace(b"one", b"ONE").replace(b"two", b"TWO")


@pytest.mark.deep
def test_more_files_than_the_policy_allows_are_not_published(repository: Path) -> None:
    many = calls(*(("write", {"path": f"docs/{n}.md", "content": "x"}) for n in range(101)))
    with serve_scripted(repository, many, finish()) as service:
        job = service.client.get_job(run_job(service.client))
    assert (job["status"], job["reason"], job["prLink"]) == ("failed", "publish_refused", None)
    assert set(list_branches(repository)) == {"main"}


@pytest.mark.deep
def test_edits_of_a_cancelled_run_are_not_lost_to_a_follow_up(repository: Path) -> None:
    reached = threading.Event()

    class Slow(ScriptedModel):
        async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
            if len([entry for entry in conversation if isinstance(entry, Prompt)]) == 1 and len(conversation) > 1:
                reached.set()
                await asyncio.sleep(600)
            return await super().reply(conversation, workspace)

    model = Slow([edit("docs/page.md", "one", "ONE"), edit("docs/page.md", "two", "TWO"), finish("Both")])
    with serve(repository.parent / "data", repository=repository, model=lambda _name: model) as service:
        job_id = service.client.create_job("Begin")["id"]
        assert reached.wait(60)
        assert b"+ONE" in service.client.diff(job_id)
        assert service.client.cancel_job(job_id)["reason"] == "cancelled"
        commit(pygit2.Repository(str(repository)), {"docs/other.md": b"moved on\n"})
        service.client.message_job(job_id, "Go on")
        job = service.client.wait(job_id)
    assert (job["status"], job["title"]) == ("completed", "Both")
    assert read_file(repository, job["branch"], "docs/page.md") == PAGE.replace(b"one", b"ONE").replace(b"two", b"TWO")
    assert read_file(repository, job["branch"], "docs/other.md") == b"moved on\n"
    assert job["usage"]["requests"] == 3


@pytest.mark.deep
def test_a_pull_request_merged_with_git_alone_is_noticed(repository: Path) -> None:
    with serve_scripted(repository, edit("docs/page.md", "one", "ONE"), finish()) as service:
        job_id = run_job(service.client)
        detect_merges(service.desk.database, service.desk.settings, service.desk.pulls, service.desk.secrets)
        assert service.client.get_job(job_id)["status"] == "completed"
        opened = pygit2.Repository(str(repository))
        opened.lookup_reference("refs/heads/main").set_target(list_branches(repository)[branch_name(job_id)])
        detect_merges(service.desk.database, service.desk.settings, service.desk.pulls, service.desk.secrets)
        assert service.client.get_job(job_id)["status"] == "archived"
        assert service.desk.pulls.get_pull(service.project.id, 1).state == "merged"


@pytest.mark.deep
def test_merge_noticed_late_does_not_end_a_newer_message(repository: Path) -> None:
    with serve_scripted(repository, edit("docs/page.md", "one", "ONE"), finish()) as service:
        job_id = run_job(service.client)
        [[pull]] = service.desk.pulls.list_idle_by_project().values()
    desk = open_desk(Settings(data=repository.parent / "data"))  # without a worker that uses it
    desk.jobs.add_message(desk.projects.get(pull.project_id), job_id, "One more thing")
    assert not desk.pulls.mark_merged(pull)
    assert desk.jobs.get(pull.project_id, job_id).status == "active"
    assert desk.pulls.get_pull(pull.project_id, pull.number).state == "open"
    desk.close()


@pytest.mark.deep
def test_broken_mirror_does_not_stop_merge_detection_of_other_projects(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_scripted(repository, edit("docs/page.md", "one", "ONE"), finish()) as service:
        job_id = run_job(service.client)
        opened = pygit2.Repository(str(repository))
        opened.lookup_reference("refs/heads/main").set_target(list_branches(repository)[branch_name(job_id)])
        broken = service.another_project().project.id
        (service.desk.settings.mirrors_folder / f"{broken}.git").write_bytes(b"no repository")
        [waiting] = service.desk.pulls.list_idle_by_project().values()
        monkeypatch.setattr(
            LocalPulls, "list_idle_by_project", lambda _: {broken: waiting, service.project.id: waiting}
        )
        detect_merges(service.desk.database, service.desk.settings, service.desk.pulls, service.desk.secrets)
        assert service.client.get_job(job_id)["status"] == "archived"


def test_branch_name_may_become_a_folder_of_branches(repository: Path, tmp_path: Path) -> None:
    opened = pygit2.Repository(str(repository))
    opened.branches.local.create("docs", opened[list_branches(repository)["main"]].peel(pygit2.Commit))
    mirror = Mirror(tmp_path / "mirror.git", Git(str(repository)))
    assert mirror.fetch_head("docs") == list_branches(repository)["main"]
    opened.branches.local.delete("docs")
    opened.branches.local.create("docs/new", opened[list_branches(repository)["main"]].peel(pygit2.Commit))
    assert mirror.fetch_head("docs/new") == list_branches(repository)["main"]
    assert mirror.find_head("docs") is None


@pytest.mark.deep
def test_a_mirror_with_many_loose_objects_is_packed(repository: Path, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "mirror.git", Git(str(repository)))
    head = mirror.fetch_head("main")
    for number in range(MAX_LOOSE_IN_SAMPLE * 256 + 2000):
        mirror.repository.create_blob(str(number).encode())
    mirror.commit(head, {"docs/page.md": b"new\n"}, "Change", pygit2.Signature("Ada", "ada@example.org"))
    pack_mirror(mirror.folder)
    packs = list((mirror.folder / "objects" / "pack").glob("*.pack"))
    # since git 2.41, the pack of unreachable objects
    cruft = list((mirror.folder / "objects" / "pack").glob("*.mtimes"))
    assert len(packs) - len(cruft) == 1
    assert mirror.tree(head).find_entry("docs/page.md") is not None


def test_closing_a_mirror_unmaps_its_packs(repository: Path, tmp_path: Path) -> None:
    def packs() -> list[str]:
        return [each.path for each in psutil.Process().memory_maps() if each.path.startswith(str(folder))]

    mirror = Mirror(folder := tmp_path / "mirror.git", Git(str(repository)))
    head = mirror.fetch_head("main")
    mirror.git.run(folder, "repack", "-adq")
    assert mirror.tree(head).find_entry("docs/page.md") is not None
    assert packs()
    del mirror
    assert packs() == []

"""A local repository has an owner: the service runs none of its configured commands, and preserves its work tree."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.local_repository import find_work_tree
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.workflow.maintenance import detect_merges
from copydesk_client import Client, Job
from tests.support.repositories import AUTHOR, commit, list_branches, make_repository, read_file
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
CHANGED = PAGE.replace(b"colour", b"color")
HOOKS = (
    "pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive", "push-to-checkout",
    "post-checkout", "post-index-change", "fsmonitor-watchman", "post-merge",
)  # fmt: skip


def run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def make_trapped_checkout(path: Path, trap: Path) -> Path:
    """Makes a work tree of main, which a push updates, and whose filter and hooks leave marks in `trap`."""
    trap.mkdir()
    run_git("init", "--quiet", "-b", "main", str(path))
    (path / "docs").mkdir()
    (path / "docs" / "index.md").write_bytes(PAGE)
    (path / ".gitattributes").write_text("* filter=evil\n")
    run_git("-C", str(path), "add", ".")
    run_git(
        "-C", str(path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "-m", "First"
    )
    for name, value in (
        ("receive.denyCurrentBranch", "updateInstead"),
        ("filter.evil.smudge", f"touch {trap}/smudge; cat"),
        ("filter.evil.clean", f"touch {trap}/clean; cat"),
        ("core.fsmonitor", f"touch {trap}/fsmonitor; false"),
        ("uploadpack.packObjectsHook", f"touch {trap}/pack-objects; false"),
        ("core.alternateRefsCommand", f"touch {trap}/alternates; false"),
        ("receive.procReceiveRefs", "refs/heads/"),
        ("core.sshCommand", f"touch {trap}/ssh; false"),
    ):
        run_git("-C", str(path), "config", name, value)
    for hook in HOOKS:
        script = path / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\ntouch {trap}/{hook}\n")
        script.chmod(0o755)
    return path


def list_sprung_traps(trap: Path) -> list[str]:
    return sorted(mark.name for mark in trap.iterdir())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("local")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(folder / "data", repository=repository) as running:
        yield running


def run_job(service: Service, repository: Path | str) -> tuple[Project, Job]:
    project = service.desk.projects.create("Local", ref="main", actor="test", repository=str(repository))
    with Client(service.url, service.desk.keys.create(project.id, actor="test")[1], project.id) as client:
        return project, client.wait(client.create_job("Replace colour with color.")["id"])


def merge_pull(service: Service, project: Project) -> None:
    service.desk.pulls.merge(service.desk.pulls.get_pull(project.id, 1), service.desk.open_mirror(project))


@pytest.mark.deep
def test_a_merge_into_a_checked_out_branch_is_refused_and_runs_nothing(service: Service, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    checkout = make_trapped_checkout(tmp_path / "checkout", trap)
    before = list_branches(checkout)["main"]
    project, job = run_job(service, checkout)
    assert job["status"] == "completed", job["message"]
    with pytest.raises(RepositoryFailed, match=r"main is checked out in .*Merge it there with git, or check out") as no:
        merge_pull(service, project)
    assert str(no.value).endswith(f"run: git -C {checkout} merge {job['branch']}")
    assert service.desk.pulls.get_pull(project.id, 1).state == "open"
    assert list_branches(checkout)["main"] == before
    assert (checkout / "docs" / "index.md").read_bytes() == PAGE
    assert list_sprung_traps(trap) == []


def make_checkout(path: Path) -> Path:
    """Makes a repository as the quickstart does: with a work tree of main."""
    run_git("init", "--quiet", "-b", "main", str(path))
    (path / "docs").mkdir()
    (path / "docs" / "index.md").write_bytes(PAGE)
    run_git("-C", str(path), "add", ".")
    run_git(
        "-C", str(path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "-m", "First"
    )
    return path


@pytest.mark.deep
def test_command_in_the_refusal_merges_and_the_merge_is_noticed_without_the_network(
    service: Service, tmp_path: Path
) -> None:
    checkout = make_checkout(tmp_path / "my handbook")
    project, job = run_job(service, checkout)
    with pytest.raises(RepositoryFailed) as refusal:
        merge_pull(service, project)
    command = str(refusal.value).partition("run: ")[2]
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert (checkout / "docs" / "index.md").read_bytes() == CHANGED
    desk = service.desk
    detect_merges(desk.database, desk.settings, desk.pulls, desk.secrets, only_on_this_machine=True)
    assert desk.pulls.get_pull(project.id, 1).state == "merged"
    assert desk.jobs.get(project.id, job["id"]).status == "archived"


def test_work_tree_of_a_branch_is_found_in_the_main_and_in_a_linked_one(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    linked = tmp_path / "linked tree"
    run_git("-C", str(checkout), "worktree", "add", "--quiet", "-b", "next", str(linked))
    bare = make_repository(tmp_path / "bare.git", {"docs/index.md": PAGE})
    for address in (str(checkout), f"file://{checkout}", str(linked)):
        assert find_work_tree(address, "main") == checkout
        assert find_work_tree(address, "next") == linked
        assert find_work_tree(address, "elsewhere") is None
    assert find_work_tree(str(bare), "main") is None
    assert find_work_tree(str(tmp_path / "nowhere"), "main") is None
    assert find_work_tree("https://example.org/docs.git", "main") is None


def test_control_plain_git_push_triggers_the_trap(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    checkout = make_trapped_checkout(tmp_path / "checkout", trap)
    (checkout / ".git" / "hooks" / "push-to-checkout").unlink()  # this hook would replace the update of the work tree
    run_git("-C", str(checkout), "config", "--unset", "receive.procReceiveRefs")
    clone = tmp_path / "clone"
    run_git("-c", "core.fsmonitor=false", "clone", "--quiet", str(checkout), str(clone))
    commit(pygit2.Repository(str(clone)), {"docs/index.md": CHANGED})
    run_git("-C", str(clone), "push", "--quiet", "origin", "main")
    assert {"smudge", "post-receive", "reference-transaction"} <= set(list_sprung_traps(trap))


@pytest.mark.deep
def test_merge_into_a_branch_not_checked_out_succeeds_and_runs_nothing(service: Service, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    checkout = make_trapped_checkout(tmp_path / "checkout", trap)
    run_git(
        "-c", "core.fsmonitor=false", "-C", str(checkout), "-c", "core.hooksPath=/dev/null", "switch", "-qc", "mine"
    )
    for mark in trap.iterdir():
        mark.unlink()
    project, job = run_job(service, f"file://{checkout}")
    assert job["status"] == "completed", job["message"]
    merge_pull(service, project)
    assert read_file(checkout, "main", "docs/index.md") == CHANGED
    assert (checkout / "docs" / "index.md").read_bytes() == PAGE
    assert list_sprung_traps(trap) == []


@pytest.mark.deep
def test_a_branch_that_a_linked_work_tree_has_checked_out_is_not_moved(service: Service, tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    run_git("-C", str(bare), "worktree", "add", "--quiet", str(tmp_path / "linked"), "main")
    project, job = run_job(service, tmp_path / "linked")
    assert job["status"] == "completed", job["message"]
    assert read_file(bare, job["branch"], "docs/index.md") == CHANGED
    with pytest.raises(RepositoryFailed, match="main is checked out"):
        merge_pull(service, project)
    run_git("-C", str(bare), "worktree", "remove", str(tmp_path / "linked"))
    mirror = Mirror(tmp_path / "mirror.git", Git(str(bare)))
    made = mirror.commit(mirror.fetch_head("main"), {"docs/index.md": CHANGED}, "Change", AUTHOR)
    mirror.push(made, "main", list_branches(bare)["main"])
    assert list_branches(bare)["main"] == made


def test_missing_objects_are_not_fetched_by_a_configured_command(tmp_path: Path) -> None:
    """Git fetches missing objects of a partial clone from its remote, with a program from the configuration."""
    mark = tmp_path / "mark"
    lender = make_repository(tmp_path / "lender.git", {"docs/index.md": PAGE})
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    oid = pygit2.Repository(str(path)).revparse_single("main:docs/index.md").id
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(lender)),
        ("remote.origin.uploadpack", f"touch {mark}; git-upload-pack"),
    ):
        run_git("-C", str(path), "config", name, value)
    (path / "objects" / str(oid)[:2] / str(oid)[2:]).unlink()
    with pytest.raises(RepositoryFailed, match="git fetch failed"):
        Mirror(tmp_path / "mirror.git", Git(str(path))).fetch_head("main")
    assert not mark.exists()
    run_git("-C", str(path), "cat-file", "-p", str(oid))
    assert mark.exists(), "git itself would have run it"


@pytest.mark.parametrize("file", ["config", "HEAD", "commondir"])
def test_named_pipe_in_place_of_a_file_does_not_block(tmp_path: Path, file: str) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    (path / file).unlink(missing_ok=True)
    os.mkfifo(path / file)
    git_there = Git(str(path))
    if file == "HEAD":
        with pytest.raises(RepositoryFailed, match="does not appear to be a git repository"):
            git_there.list_heads("HEAD", "refs/heads/*")
    else:
        assert git_there.list_heads("HEAD", "refs/heads/*")["HEAD"] == "main"


def test_branch_that_moved_concurrently_is_not_overwritten(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    mirror = Mirror(tmp_path / "mirror.git", Git(str(path)))
    base = mirror.fetch_head("main")
    made = mirror.commit(base, {"docs/index.md": CHANGED}, "Change", AUTHOR)
    moved = commit(pygit2.Repository(str(path)), {"docs/other.md": b"other\n"})
    with pytest.raises(RepositoryFailed, match="Someone else changed the branch"):
        mirror.push(made, "main", base)
    with pytest.raises(RepositoryFailed):
        mirror.push(made, "main", None)
    assert list_branches(path) == {"main": moved}


def test_a_repository_shared_by_a_group_stays_writable_for_it(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    run_git("-C", str(path), "config", "core.sharedRepository", "group")
    mirror = Mirror(tmp_path / "mirror.git", Git(str(path)))
    made = mirror.commit(mirror.fetch_head("main"), {"docs/index.md": CHANGED}, "Change", AUTHOR)
    mirror.push(made, "copydesk/job", None)
    for folder in (path / "objects" / made[:2], path / "refs" / "heads" / "copydesk"):
        assert folder.stat().st_mode & stat.S_IWGRP, folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_repository_of_another_user_is_refused_with_a_message(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    os.chown(path, 12345, 12345)
    with pytest.raises(RepositoryFailed, match="belongs to another user"):
        Git(str(path)).list_heads("HEAD")


def test_packed_refs_and_alternate_objects_are_read(tmp_path: Path) -> None:
    lender = make_repository(tmp_path / "lender.git", {"docs/index.md": PAGE})
    run_git("clone", "--quiet", "--bare", "--shared", str(lender), str(tmp_path / "docs.git"))
    (tmp_path / "docs.git" / "objects" / "info" / "alternates").write_text("../../lender.git/objects\n")
    run_git("-C", str(tmp_path / "docs.git"), "pack-refs", "--all")
    mirror = Mirror(tmp_path / "mirror.git", Git(str(tmp_path / "docs")))
    assert mirror.fetch_head("main") == list_branches(lender)["main"]
    assert mirror.git.list_heads("HEAD", "refs/heads/*") == {"HEAD": "main", "main": list_branches(lender)["main"]}

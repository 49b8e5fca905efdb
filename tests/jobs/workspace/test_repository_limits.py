"""Repositories that are too large, on purpose or not, are refused with a clear message before they are read."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pygit2
import pytest

from copydesk.core.settings import Settings, env_variable
from copydesk.jobs.agent.conversation import ToolCall
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.checks import check
from copydesk.jobs.checks.check_command import run_command
from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.guard.publish_guard import PublishRefused
from copydesk.jobs.publish.guard.publish_guard import check_publishable as check_policy
from copydesk.jobs.sandbox.sandbox import Sandbox
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import (
    DEFAULT_LIMITS,
    MIB,
    FileTooLarge,
    RepositoryLimits,
    RepositoryTooLarge,
)
from copydesk.jobs.workspace.workspace import Workspace
from copydesk_client import Client, Job
from tests.jobs.execution.test_stopping import CLAIM
from tests.support import bombs
from tests.support.repositories import AUTHOR, commit, list_branches, make_repository, read_file
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
SMALL = replace(DEFAULT_LIMITS, entries=50, depth=5, file_bytes=1000)
BOMBS = {
    "as many paths as a number has digits": (bombs.repeat_folders(), "200,000 files and folders"),
    "folders without a file": (bombs.repeat_folders(leaf=False), "200,000 files and folders"),
    "deep": (bombs.nest_folders(5_000), "100 levels of nested folders"),
    "deep by a shared folder": (bombs.repeat_folders(150, 1), "100 levels of nested folders"),
    "one folder": (bombs.fill_one_folder(200_001), "200,000 files and folders"),
    "a long name": (bombs.name_entry(b"n" * 60_000), "1,024 characters"),
    "a name of megabytes": (bombs.name_entry(b"n" * 3_000_000), "can't parse filename"),
    "long paths": (bombs.name_entry(b"n" * 1000, bombs.fill_one_folder(70_000)), "64,000,000 characters in total"),
    "where no name can be said": (bombs.name_entry(b"\xff", bombs.repeat_folders()), "200,000 files and folders"),
}


class CheckCounter:
    """A check that counts its calls, and raises after too many."""

    def __init__(self, most: int = 10_000) -> None:
        self.calls, self.most = 0, most

    def __call__(self) -> None:
        self.calls += 1
        if self.calls > self.most:
            raise AttemptStopped


def open_tree(
    path: Path, limits: RepositoryLimits = DEFAULT_LIMITS, checked: Callable[[], None] = lambda: None
) -> Tree:
    repository = pygit2.Repository(str(path))
    return Tree(repository, str(repository.lookup_reference("refs/heads/main").target), limits, checked)


@pytest.mark.deep
@pytest.mark.parametrize("kind", BOMBS)
def test_repository_bomb_is_refused_before_it_is_traversed(tmp_path: Path, kind: str) -> None:
    make, bound = BOMBS[kind]
    path, counter = bombs.make_bomb(tmp_path / "bomb.git", make), CheckCounter()
    with pytest.raises(RepositoryFailed, match=bound):
        open_tree(path, checked=counter).files()
    with pytest.raises(RepositoryFailed, match=bound):
        Workspace(open_tree(path, checked=counter)).paths()


@pytest.mark.parametrize("kind", ["entries", "depth", "file_bytes"])
def test_error_names_the_setting_that_raises_the_limit(tmp_path: Path, kind: str) -> None:
    settings = {"entries": "repository_files", "depth": "repository_depth", "file_bytes": "repository_file_megabytes"}
    make = {"entries": bombs.fill_one_folder(51), "depth": bombs.nest_folders(6), "file_bytes": bombs.nest_folders(0)}[
        kind
    ]
    tree = open_tree(bombs.make_bomb(tmp_path / "bomb.git", make), replace(SMALL, file_bytes=1))
    with pytest.raises(RepositoryTooLarge, match=env_variable(settings[kind])):
        [tree.read(entry, path) for path, entry in tree.files()]


def test_repository_exactly_at_its_limits_is_read(tmp_path: Path) -> None:
    full = bombs.make_bomb(tmp_path / "full.git", bombs.fill_one_folder(50))
    assert len(dict(open_tree(full, SMALL).files())) == 50
    deep = bombs.make_bomb(tmp_path / "deep.git", bombs.nest_folders(5))
    assert list(dict(open_tree(deep, SMALL).files())) == ["d/d/d/d/d/page.md"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("bounds")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(folder / "data", repository=repository, repository_file_megabytes=1) as running:
        yield running


def run_job(service: Service, repository: Path) -> Job:
    """Runs a job with the mechanic, which reads every page."""
    project = service.desk.projects.create("Bounds", ref="main", actor="test", repository=str(repository))
    with Client(service.url, service.desk.keys.create(project.id, actor="test")[1], project.id) as client:
        return client.wait(client.create_job("Replace colour with color.")["id"])


@pytest.mark.deep
def test_job_on_a_tree_bomb_fails_and_the_worker_continues(service: Service, tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss
    job = run_job(service, bombs.make_bomb(tmp_path / "bomb.git", bombs.repeat_folders()))
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    assert "more than 200,000 files and folders" in (job["message"] or "")
    assert "COPYDESK_REPOSITORY_FILES" in (job["message"] or "")
    assert psutil.Process().memory_info().rss - before < 200 * MIB
    job = run_job(service, make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE}))
    assert job["status"] == "completed", job["message"]


def test_traversal_ends_when_its_attempt_is_stopped(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {f"docs/{n}/page.md": PAGE for n in range(20)})
    attempt = Attempt(CLAIM, 600)
    mirror = Mirror(tmp_path / "mirror.git", Git(str(path), stoppable=attempt.stoppable))
    head = mirror.fetch_head("main")
    walk = mirror.tree(head).files()
    entry = next(walk)[1]
    attempt.stop()
    with pytest.raises(AttemptStopped):
        list(walk)
    with pytest.raises(AttemptStopped):
        mirror.tree(head).files()
    with pytest.raises(AttemptStopped):
        mirror.tree(head).read(replace(entry, oid=mirror.repository.create_blob(b"never read before")))


LARGE = {"docs/index.md": PAGE, "docs/film.mp4": os.urandom(MIB + 1), "docs/book.md": b"The colour.\n" * 100_000}


@pytest.mark.deep
def test_large_files_that_a_job_does_not_need_do_not_stop_it(service: Service, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", LARGE)
    job = run_job(service, repository)
    assert job["status"] == "completed", job["message"]
    assert read_file(repository, job["branch"], "docs/index.md") == PAGE.replace(b"colour", b"color")
    assert read_file(repository, job["branch"], "docs/book.md") == LARGE["docs/book.md"]


def test_large_file_is_listed_but_not_read_searched_or_changed(tmp_path: Path) -> None:
    tree = open_tree(make_repository(tmp_path / "docs.git", LARGE), replace(DEFAULT_LIMITS, file_bytes=MIB))
    workspace = Workspace(tree)
    box = Toolbox(workspace)
    assert workspace.paths() == sorted(LARGE)
    assert "\n3: The colour" in box.call(ToolCall(id="1", name="search", arguments={"pattern": "colour"})).text
    for name, arguments in {
        "read": {},
        "delete": {},
        "move": {"to": "docs/elsewhere.md"},
        "write": {"content": "x"},
    }.items():
        told = box.call(ToolCall(id="1", name=name, arguments={"path": "docs/book.md", **arguments}))
        assert not told.ok, name
        assert "1 MiB" in told.text or name == "write"
    assert workspace.changes() == {}
    workspace.apply({"docs/book.md": None})
    with pytest.raises(PublishRefused, match=r"docs/book\.md is 1 MiB"):
        check_policy(tree, workspace.changes())
    assert check(workspace).introduced == ()


def test_a_check_command_is_not_run_on_a_copy_without_its_large_files(tmp_path: Path) -> None:
    tree = open_tree(make_repository(tmp_path / "docs.git", LARGE), replace(DEFAULT_LIMITS, file_bytes=MIB))
    result = run_command("true", Workspace(tree), Sandbox("landlock"), root="", seconds=5)
    assert (result.ok, result.ran) == (False, False)
    assert "docs/book.md is 1 MiB" in result.summary


@pytest.mark.drill
def test_a_blob_of_700_megabytes_is_never_read(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    with (tmp_path / "film").open("wb") as film:
        film.truncate(700 * MIB)
    hashing = ["git", "-C", str(path), "hash-object", "-w", str(tmp_path / "film")]
    oid = subprocess.run(hashing, check=True, capture_output=True, text=True).stdout.strip()
    repository = pygit2.Repository(str(path))
    bombs.commit_tree(repository, lambda it: bombs.write_raw_tree(it, (bombs.BLOB, b"film.mp4", pygit2.Oid(hex=oid))))
    before = psutil.Process().memory_info().rss
    workspace = Workspace(open_tree(path))
    assert list(workspace.files()) == []
    with pytest.raises(FileTooLarge, match=r"film\.mp4 is 700 MiB"):
        workspace.read("film.mp4")
    assert psutil.Process().memory_info().rss - before < 50 * MIB


def make_limited_mirror(folder: Path, repository: Path, **limits: int) -> Mirror:
    return Mirror(folder, Git(str(repository), limits=replace(DEFAULT_LIMITS, **limits)))


@pytest.mark.deep
def test_a_repository_that_takes_too_much_of_the_disk_is_refused(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"film.mp4": os.urandom(MIB)})
    with pytest.raises(RepositoryTooLarge, match=r"more than 0 MiB.*COPYDESK_REPOSITORY_MEGABYTES"):
        make_limited_mirror(tmp_path / "mirror.git", repository, mirror_bytes=MIB // 2).fetch_head("main")
    assert make_limited_mirror(tmp_path / "other.git", repository, mirror_bytes=2 * MIB).fetch_head("main")


ENDLESS = """#!/bin/sh
echo $$ > {folder}/pid
head -c 3M /dev/zero > {mirror}/objects/pack/tmp_pack_endless
sleep 600
"""


def test_fetch_beyond_the_size_limit_is_stopped_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": PAGE})
    mirror = make_limited_mirror(tmp_path / "mirror.git", repository, mirror_bytes=2 * MIB)
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(ENDLESS.format(folder=tmp_path, mirror=mirror.folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(RepositoryTooLarge, match="more than 2 MiB"):
        mirror.fetch_head("main")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert list((mirror.folder / "objects" / "pack").iterdir()) == []


@pytest.mark.deep
def test_pack_that_expands_beyond_the_memory_limit_is_refused(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": PAGE})
    assert bombs.write_growing_delta(repository, copies=80) < 10_000
    with pytest.raises(RepositoryTooLarge, match=r"more than 64 MiB of memory.*COPYDESK_GIT_MEGABYTES"):
        make_limited_mirror(tmp_path / "mirror.git", repository, git_bytes=64 * MIB).fetch_head("main")


@pytest.mark.parametrize("stream", ["out", "err"])
def test_endless_git_output_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    program = tmp_path / "git"
    redirect = {"out": "", "err": " >&2"}[stream]
    program.write_text(f"#!/bin/sh\nyes 'remote: hello' | head -c 40M{redirect}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said = {"out": "too many branches", "err": "git ls-remote failed"}[stream]
    with pytest.raises(RepositoryFailed, match=said) as failure:
        Git("https://example.org/docs.git").list_heads("HEAD")
    assert len(str(failure.value)) < 1000


def test_branch_that_is_not_a_commit_is_refused(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"index.md": PAGE})
    repository = pygit2.Repository(str(path))
    tag: pygit2.Oid = repository.revparse_single("main").id
    for number in range(50):  # a chain of tags, each of which names the previous one
        kind = pygit2.enums.ObjectType.TAG if number else pygit2.enums.ObjectType.COMMIT
        tag = repository.create_tag(f"t{number}", tag, kind, AUTHOR, "x")
    (path / "refs" / "heads" / "odd").write_text(f"{tag}\n")
    with pytest.raises(RepositoryFailed, match="is not a commit"):
        Mirror(tmp_path / "mirror.git", Git(str(path))).find_head("odd")


def test_base_that_became_a_repository_bomb_is_not_merged(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"index.md": PAGE})
    mirror = Mirror(tmp_path / "mirror.git", Git(str(path)))
    base = mirror.fetch_head("main")
    made = mirror.commit(base, {"index.md": b"changed\n"}, "Change", AUTHOR)
    for make in (bombs.repeat_folders(), bombs.name_entry(b"\xff", bombs.repeat_folders())):
        moved = bombs.commit_tree(pygit2.Repository(str(path)), make)
        assert mirror.fetch_head("main") == moved
        with pytest.raises(RepositoryTooLarge):
            mirror.rebase(made, base, moved)
        with pytest.raises(RepositoryTooLarge):
            mirror.merge(moved, made, "Merge", AUTHOR)


@pytest.mark.deep
def test_large_file_changed_on_both_sides_is_a_conflict(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {"index.md": PAGE, "other.md": PAGE})
    mirror = make_limited_mirror(tmp_path / "mirror.git", path, file_bytes=MIB)
    base = mirror.fetch_head("main")
    made = mirror.commit(base, {"index.md": b"changed\n"}, "Change", AUTHOR)
    large = os.urandom(MIB + 1)
    commit(pygit2.Repository(str(path)), {"film.mp4": large, "other.md": large})
    moved = mirror.fetch_head("main")
    again = mirror.rebase(made, base, moved)
    assert again is not None
    assert mirror.tree(again).find_entry("film.mp4") == mirror.tree(moved).find_entry("film.mp4")
    assert mirror.merge(moved, made, "Merge", AUTHOR) is not None
    commit(pygit2.Repository(str(path)), {"index.md": large})
    assert mirror.rebase(made, base, mirror.fetch_head("main")) is None
    assert mirror.merge(mirror.fetch_head("main"), made, "Merge", AUTHOR) is None


def test_limits_are_settings() -> None:
    limits = RepositoryLimits.from_settings(
        Settings(repository_files=7, repository_depth=8, repository_file_megabytes=9)
    )
    assert (limits.entries, limits.depth, limits.file_bytes) == (7, 8, 9 * MIB)
    assert RepositoryLimits.from_settings(Settings()) == DEFAULT_LIMITS


def test_two_fetches_of_one_mirror_do_not_remove_each_others_files(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "docs.git", {f"docs/{n}.md": os.urandom(50) for n in range(300)})
    heads: list[str] = []

    def fetch() -> None:
        heads.append(Mirror(tmp_path / "mirror.git", Git(str(path))).fetch_head("main"))

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads == [list_branches(path)["main"]] * 4

"""Hostile input, with real attacks: paths, trees, repositories, branch names, addresses, tokens, and a flood."""

import base64
import os
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest
from pygit2.enums import FileMode

from copydesk.core.errors import InvalidRequest
from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.git.public_addresses import pin_public_host
from copydesk.jobs.publish.guard.publish_guard import PublishRefused, check_publishable, refuse_protected
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from copydesk_client import Client, Job
from tests.support.git_http import GitHttpServer
from tests.support.repositories import AUTHOR, list_branches, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, edit, finish
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
BAD_PATHS = (
    "", ".", "..", "/", "../x", "docs/../../x", "docs/./x", "docs//x", "docs/", "/etc/passwd", "//x", "~root/../../x",
    ".git/config", ".GIT/config", ".Git", "docs/.git/hooks/post-checkout", ".git ./x", ".git./x", ".git . . /x",
    ".git /x", "git~1/x", "GIT~1/config", "docs/git~2", ".g\u200cit/x", ".gi\u200dt/x", "\u200b.git/x", ".git\ufeff/x",
    ".git::$INDEX_ALLOCATION/x", ".git:stream", "a\x00b", "a\nb", "a\x1bb", "a\x7fb", "x" * 256, "a/" * 600 + "b",
    "docs/cafe\u0301.md", "docs\\x", "..\\..\\x", ".git\\config", "C:x", "c:/windows/x", "\ud800", "docs/\udcff.md",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree with a page, a link to a file, a link to a folder outside, and a submodule."""
    path = make_repository(tmp_path / "tree.git", {"docs/page.md": PAGE, "docs/other.md": b"[page](page.md)\n"})
    repository = pygit2.Repository(str(path))
    index = pygit2.Index()
    index.read_tree(repository.revparse_single("main^{tree}").peel(pygit2.Tree))
    index.add(pygit2.IndexEntry("docs/passwd.md", repository.create_blob(b"/etc/passwd"), FileMode.LINK))
    index.add(pygit2.IndexEntry("docs/outside", repository.create_blob(b"/etc"), FileMode.LINK))
    index.add(pygit2.IndexEntry("docs/twin.md", repository.create_blob(b"page.md"), FileMode.LINK))
    index.add(pygit2.IndexEntry("theme", repository.revparse_single("main").id, FileMode.COMMIT))
    commit = repository.create_commit(None, AUTHOR, AUTHOR, "Links", index.write_tree(repository), [])
    return Tree(repository, str(commit))


def use_tool(workspace: Workspace, name: str, **arguments: Any) -> ToolResult:
    return Toolbox(workspace).call(ToolCall(id="1", name=name, arguments=arguments))


@pytest.mark.parametrize("path", BAD_PATHS)
@pytest.mark.parametrize("allowed", [(), ("*",)], ids=["", "everything-allowed"])
def test_unsafe_path_is_refused_by_tools_and_publishing(tree: Tree, path: str, allowed: tuple[str, ...]) -> None:
    workspace = Workspace(tree, lambda path: refuse_protected(path, allowed))
    hashes = {short_hash(PAGE), short_hash(b"")}
    attacks: list[tuple[str, dict[str, Any]]] = [
        ("write", {"path": path, "content": "x"}),
        ("move", {"path": "docs/page.md", "to": path}),
        ("move", {"path": path, "to": "docs/new.md"}),
        ("delete", {"path": path}),
        ("read", {"path": path}),
        *[("edit", {"path": path, "hash": h, "replacements": [{"old": "a", "new": "b"}]}) for h in hashes],
        *[("write", {"path": path, "content": "x", "hash": h}) for h in hashes],
    ]
    for name, arguments in attacks:
        result = use_tool(workspace, name, **arguments)
        assert not result.ok, f"{name} took {path!r}: {result.text}"
        assert workspace.changes() == {}
    for data in (b"x", None):
        with pytest.raises(PublishRefused):
            check_publishable(tree, {path: data}, allowed)


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/x.yml", "CODEOWNERS", "docs/codeowners", "package.json", "Makefile", "docs/.env",
        "AGENTS.md", "docs/claude.md", "requirements-dev.txt", "uv.lock",
    ],
)  # fmt: skip
def test_protected_files_are_refused_by_tools_and_publishing(tree: Tree, path: str) -> None:
    workspace = Workspace(tree, refuse_protected)
    assert not use_tool(workspace, "write", path=path, content="x").ok
    assert not use_tool(workspace, "move", path="docs/page.md", to=path).ok
    assert workspace.changes() == {}
    with pytest.raises(PublishRefused):
        check_publishable(tree, {path: b"x"})


@pytest.mark.parametrize("path", ["docs/passwd.md", "docs/outside", "docs/twin.md", "theme"])
def test_symlink_or_submodule_is_not_read_changed_or_replaced(tree: Tree, path: str) -> None:
    workspace = Workspace(tree)
    assert path not in workspace.paths()
    for name, arguments in (
        ("read", {"path": path}),
        ("write", {"path": path, "content": "x"}),
        ("write", {"path": path, "content": "x", "hash": short_hash(PAGE)}),
        (
            "edit",
            {"path": path, "hash": short_hash(PAGE), "replacements": [{"old": "e", "new": "x", "everywhere": True}]},
        ),
        ("delete", {"path": path}),
        ("move", {"path": path, "to": "docs/new.md"}),
        ("move", {"path": "docs/page.md", "to": path}),
    ):
        assert not use_tool(workspace, name, **arguments).ok, name
        assert workspace.changes() == {}
    for data in (b"x", None):
        with pytest.raises(PublishRefused):
            check_publishable(tree, {path: data})


@pytest.mark.parametrize("path", ["docs/outside/passwd", "docs/outside/new.md", "docs/twin.md/x", "theme/docs/page.md"])
def test_nothing_is_written_through_a_symlink_or_submodule(tree: Tree, path: str) -> None:
    workspace = Workspace(tree)
    assert not use_tool(workspace, "read", path=path).ok
    assert not use_tool(workspace, "write", path=path, content="x").ok
    assert not use_tool(workspace, "move", path="docs/page.md", to=path).ok
    assert workspace.changes() == {}
    with pytest.raises(PublishRefused):
        check_publishable(tree, {path: b"x"})


def test_names_that_differ_only_by_case_are_refused(tree: Tree) -> None:
    workspace = Workspace(tree)
    for path in ("docs/PAGE.md", "Docs/page.md", "DOCS/Page.MD"):
        assert not use_tool(workspace, "write", path=path, content="x").ok, path


HOOKS = ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-auto-gc", "proc-receive",
         "push-to-checkout", "post-checkout", "pre-push", "fsmonitor-watchman", "post-index-change")  # fmt: skip


def make_trapped_repository(path: Path, trap: Path) -> Path:
    """Makes a repository whose hooks, commands and filters would leave marks in the folder `trap`."""
    make_repository(path, {"docs/index.md": PAGE, ".gitattributes": b"* filter=evil diff=evil merge=evil\n"})
    trap.mkdir()
    elsewhere = path / "elsewhere"
    elsewhere.mkdir()
    for folder in (path / "hooks", elsewhere):
        folder.mkdir(exist_ok=True)
        for hook in HOOKS:
            script = folder / hook
            script.write_text(f"#!/bin/sh\ntouch {trap}/{folder.name}-{hook}\n")
            script.chmod(0o755)
    make_repository(path / "borrowed.git", {"x": b"x"})
    (path / "objects/info").mkdir(exist_ok=True)
    (path / "objects/info/alternates").write_text(f"{path}/borrowed.git/objects\n")
    for name in (
        "core.fsmonitor", "core.alternateRefsCommand", "core.sshCommand", "core.gitProxy", "core.pager", "core.editor",
        "core.askPass", "uploadpack.packObjectsHook", "filter.evil.smudge", "filter.evil.clean", "filter.evil.process",
        "diff.evil.textconv", "diff.evil.command", "diff.external", "merge.evil.driver", "credential.helper",
        "gpg.program", "remote.origin.uploadpack", "remote.origin.receivepack", "alias.upload-pack",
        "alias.receive-pack",
    ):  # fmt: skip
        run_git("-C", str(path), "config", name, f"touch {trap}/{name}; false")
    for name, value in (
        ("core.hooksPath", str(elsewhere)), ("filter.evil.required", "false"),
        ("receive.autogc", "true"), ("gc.auto", "1"), ("gc.autoDetach", "false"), ("protocol.ext.allow", "always"),
        ("url.ext::sh -c touch% /x.insteadOf", str(path)), ("include.path", str(path / "more")),
    ):  # fmt: skip
        run_git("-C", str(path), "config", name, value)
    (path / "more").write_text(f"[core]\n\tfsmonitor = touch {trap}/included\n\thooksPath = {elsewhere}\n")
    return path


def run_git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def run_job(service: Service, **project: Any) -> Job:
    """Runs a job of a new project to its end."""
    made = service.desk.projects.create("Hostile", ref="main", actor="test", **project)
    key = service.desk.keys.create(made.id, actor="test")[1]
    with Client(service.url, key, made.id) as client:
        job = client.wait(client.create_job("Use American spelling")["id"])
        said = str(client.events(job["id"])) + str(job) + client.diff(job["id"]).decode()
    assert "desk_" not in said
    return job


@pytest.fixture(scope="module")
def scripted_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves one Copydesk for all attacks; each has its own project."""
    folder = tmp_path_factory.mktemp("hostile")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    model = ScriptedModel([edit("docs/index.md", "colour", "color"), finish()])
    with serve(folder / "data", repository=repository, model=lambda _name: model) as running:
        yield running


@pytest.fixture(scope="module")
def http(scripted_service: Service) -> httpx.Client:
    return scripted_service.http


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_hooks_and_configuration_of_a_repository_run_nothing(
    scripted_service: Service, tmp_path: Path, scheme: str
) -> None:
    trap = tmp_path / "trap"
    repository = make_trapped_repository(tmp_path / "evil.git", trap)
    job = run_job(scripted_service, repository=f"{scheme}{repository}")
    assert (job["status"], job["reason"]) == ("completed", None), job["message"]
    assert read_file(repository, job["branch"], "docs/index.md") == PAGE.replace(b"colour", b"color")
    pulls, project = scripted_service.desk.pulls, scripted_service.desk.projects.all()[-1]
    pulls.merge(
        pulls.get_pull(project.id, 1), Mirror.for_project(scripted_service.desk.settings.mirrors_folder, project)
    )
    assert read_file(repository, "main", "docs/index.md") == PAGE.replace(b"colour", b"color")
    assert [mark.name for mark in trap.iterdir()] == []


def test_control_plain_git_triggers_the_trap(tmp_path: Path) -> None:
    trap, clone = tmp_path / "trap", tmp_path / "clone"
    repository = make_trapped_repository(tmp_path / "evil.git", trap)
    run_git("clone", "--quiet", str(repository), str(clone))
    run_git("-C", str(clone), "push", "--quiet", str(repository), "HEAD:refs/heads/x")
    assert {"elsewhere-pre-receive", "elsewhere-update", "elsewhere-reference-transaction"} <= {
        mark.name for mark in trap.iterdir()
    }


@pytest.mark.parametrize(
    "ref",
    [
        "--upload-pack=touch x", "-x", "--", "a..b", "a b", "@{-1}", "@", "a" * 201, "é" * 201, "a\n", "a~1", "a^",
        "a:b", ":a", "a\\b", "a*", "a?", "[a", "/a", "a/", "a//b", ".a", "a/.b", "a.", "a.lock", "a.lock/b",
        "refs/heads/a b", "a@{1}", "\x7f", "*", "^a", " a", "a ",
    ],
)  # fmt: skip
def test_invalid_ref_returns_400(scripted_service: Service, http: httpx.Client, ref: str) -> None:
    answer = http.post(scripted_service.at("/job"), json={"prompt": "Any", "ref": ref})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    with pytest.raises(InvalidRequest):
        scripted_service.desk.projects.create("Bad", repository="/x", ref=ref, actor="test")


@pytest.mark.parametrize(
    "address",
    [
        "https://user:secret@example.org/docs.git", "https://token@example.org/docs.git", "http://:x@127.0.0.1/docs.git",
        "ext::sh -c 'touch x'", "fd::17", "ssh://-oProxyCommand=touch%20x/y", "ssh://git@example.org/docs.git",
        "git@example.org:docs.git", "git://127.0.0.1/docs.git", "ftp://127.0.0.1/x", "-x", "--upload-pack=touch x", "",
        " ", "https://", "https:///x", "https://example.org/x?token=1", "https://example.org/x#y", "file://elsewhere/x",
        "https://example.org/\nx", "a\x00b", "HTTPS+EXT::x", "javascript://x/y", "transport::https://x/y",
    ],
)  # fmt: skip
def test_an_address_with_a_secret_or_a_command_is_refused(scripted_service: Service, address: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        scripted_service.desk.projects.create("Bad", repository=address, ref="main", actor="test")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c touch% {mark}", "ssh://-oProxyCommand=touch%20{mark}/x", "-x", "--upload-pack=touch {mark}",
        "git://127.0.0.1:{port}/x", "ssh://127.0.0.1:{port}/x",
    ],
)  # fmt: skip
def test_git_wrapper_refuses_unsafe_addresses(tmp_path: Path, address: str) -> None:
    make_repository(tmp_path / "mirror.git", {"x": b"x"})
    mark = tmp_path / "mark"
    with GitHttpServer(tmp_path) as far:
        with pytest.raises(RepositoryFailed):
            Git(address.format(mark=mark, port=far.port)).fetch(tmp_path / "mirror.git", ["+refs/heads/main:refs/x"])
        assert far.requests == []
    assert not mark.exists()


@pytest.mark.deep
def test_private_addresses_are_refused_if_the_project_forbids_them(scripted_service: Service, tmp_path: Path) -> None:
    with GitHttpServer(tmp_path) as far:
        for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::1]",
                     "[::ffff:127.0.0.1]", "[::]", "LOCALHOST", "localhost."):  # fmt: skip
            url = f"http://{host}:{far.port}/docs.git"
            job = run_job(scripted_service, repository=url, allow_private=False)
            assert (job["status"], job["reason"]) == ("failed", "repository_error"), host
        assert far.requests == []
    job = run_job(scripted_service, repository=str(scripted_service.repository), allow_private=False)
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    job = run_job(scripted_service, repository=f"file://{scripted_service.repository}", allow_private=False)
    assert (job["status"], job["reason"]) == ("failed", "repository_error")


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "224.0.0.1",
                                  "255.255.255.255", "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]",
                                  "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[ff02::1]"])  # fmt: skip
def test_private_address_is_refused_before_anything_is_sent(host: str) -> None:
    with pytest.raises(RepositoryFailed):
        pin_public_host(f"https://{host}/docs.git")


def test_git_connects_to_the_checked_ip_address() -> None:
    assert pin_public_host("https://93.184.216.34/x") == "93.184.216.34:443:93.184.216.34"
    assert pin_public_host("http://[2606:4700::1111]:8080/x").endswith(":8080:[2606:4700::1111]")


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_checked_address_is_not_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A proxy would resolve the name again, and a name server may then return a private address."""
    with recording_listener() as (proxy_port, sent_to_proxy), recording_listener() as (port, sent_to_host):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy_port}")
        pinned = Git(f"https://docs.example:{port}/docs.git", pinned_address=f"docs.example:{port}:127.0.0.1")
        with pytest.raises(RepositoryFailed):
            pinned.list_heads()
        assert sent_to_proxy == []
        assert [data[:1] for data in sent_to_host] == [b"\x16"], "the greeting of TLS, from git itself"
        if variable != "ALL_PROXY":
            with pytest.raises(RepositoryFailed):
                Git(f"https://docs.example:{port}/docs.git").list_heads()
            assert sent_to_proxy[0].startswith(b"CONNECT docs.example"), "other projects use the proxy"


@contextmanager
def recording_listener() -> Iterator[tuple[int, list[bytes]]]:
    """Accepts connections, records the first bytes of each, and closes it."""
    recorded = list[bytes]()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            recorded.append(self.request.recv(1000))

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], recorded
        finally:
            server.shutdown()
            thread.join()


def test_a_redirect_is_not_followed(scripted_service: Service, tmp_path: Path) -> None:
    make_repository(tmp_path / "far" / "docs.git", {"docs/index.md": PAGE})
    with (
        GitHttpServer(tmp_path / "far") as inside,
        GitHttpServer(tmp_path / "far", redirect=inside.url("")[:-1]) as front,
    ):
        job = run_job(scripted_service, repository=front.url("docs.git"))
        assert (job["status"], job["reason"]) == ("failed", "repository_error")
        assert front.requests
        assert inside.requests == []


TOKEN = "t0ken/with+odd=characters"
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@pytest.mark.deep
def test_job_over_http_never_shows_its_token(
    scripted_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = wrap_git(tmp_path, monkeypatch)
    monkeypatch.setenv("DOCS_TOKEN", TOKEN)
    repository = make_repository(tmp_path / "far" / "docs.git", {"docs/index.md": PAGE})
    with GitHttpServer(tmp_path / "far", token=TOKEN) as far:
        job = run_job(scripted_service, repository=far.url("docs.git"), token_env="DOCS_TOKEN")
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert set(list_branches(repository)) == {"main", job["branch"]}
        assert read_file(repository, job["branch"], "docs/index.md") == PAGE.replace(b"colour", b"color")
        assert job["source"]["repository"] == far.url("docs.git")
        assert not [asked for asked in far.requests if TOKEN in asked]
    commands = seen.read_text()
    assert "fetch" in commands
    assert "push" in commands
    for secret in (TOKEN, BASIC, "x-access-token"):
        assert secret not in commands
        assert_secret_absent(secret, scripted_service.desk.settings.data)


def test_wrong_token_is_reported_without_showing_it(
    scripted_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "wrong-" + TOKEN)
    make_repository(tmp_path / "far" / "docs.git", {"docs/index.md": PAGE})
    with GitHttpServer(tmp_path / "far", token="right") as far:
        job = run_job(scripted_service, repository=far.url("docs.git"), token_env="DOCS_TOKEN")
    assert (job["status"], job["reason"]) == ("failed", "repository_error")
    assert "uthentication failed" in (job["message"] or "")
    assert_secret_absent(TOKEN, scripted_service.desk.settings.data)


def test_missing_token_error_names_its_environment_variable(scripted_service: Service, tmp_path: Path) -> None:
    job = run_job(scripted_service, repository="http://127.0.0.1:1/docs.git", token_env="NO_SUCH_TOKEN")
    assert (job["reason"], "NO_SUCH_TOKEN" in (job["message"] or "")) == ("repository_error", True)


@pytest.mark.deep
def test_git_gets_only_the_token_from_the_environment(
    scripted_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap_git(tmp_path, monkeypatch)
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GIT_SSH_COMMAND",
        "GIT_TRACE_CURL",
        "GIT_CONFIG_PARAMETERS",
    ):
        monkeypatch.setenv(name, f"from-outside-{name}")
    job = run_job(scripted_service, repository=str(scripted_service.repository))
    assert job["status"] == "completed", job["message"]
    assert "from-outside" not in (tmp_path / "environments").read_text()


def wrap_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs a wrapper of git that records its arguments and environment; returns the file of the arguments."""
    real, programs = run_git("--exec-path").strip(), folder / "programs"
    programs.mkdir()
    wrapper = programs / "git"
    wrapper.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/arguments\nenv >> {folder}/environments\nexec {real}/git "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder / "arguments"


def assert_secret_absent(secret: str, folder: Path) -> None:
    for file in folder.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


@pytest.mark.deep
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.drill)])
def test_many_concurrent_jobs_are_all_accepted_and_all_end(tmp_path: Path, count: int) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    model = ScriptedModel([finish()])
    with serve(tmp_path / "data", repository=repository, model=lambda _name: model, lease_seconds=10) as service:
        http = service.http
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda n: http.post(service.at("/job"), json={"prompt": f"Job {n}"}), range(count)))
        assert {answer.status_code for answer in answers} == {201}
        made = {answer.json()["id"]: answer.json()["prompt"] for answer in answers}
        assert len(made) == count
        while waiting := service.client.list_jobs(status="active", limit=1)["jobs"]:
            service.client.wait(waiting[0]["id"])
        ended = {job["id"]: job for job in list_all_jobs(service)}
        assert {job_id: job["prompt"] for job_id, job in ended.items()} == made
        assert {(job["status"], job["reason"]) for job in ended.values()} == {("completed", "no_changes")}
        assert len(model.requests) == count, "each was asked once"


def list_all_jobs(service: Service) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        page = service.client.list_jobs(limit=100, cursor=cursor)
        yield from page["jobs"]
        cursor = page["nextCursor"]
        if cursor is None:
            return

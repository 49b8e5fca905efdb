"""The command line: its arguments, its output and its exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from copydesk.core import clock
from copydesk.core.clock import format_iso
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.projects.privacy_choices import PRIVACY_CHOICES
from tests.support.command_line import Run, parse_output, run_command, set_client_variables
from tests.support.documented_output import matches_shortened, stable_lines
from tests.support.repositories import list_branches, make_repository, read_file
from tests.support.service import Service

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk … on a new data folder."""
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    return run_command


@pytest.fixture
def against(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk … against a served Copydesk."""
    set_client_variables(service, monkeypatch)
    return run_command


@pytest.mark.deep
def test_privacy_is_chosen_when_a_project_is_created(run: Run, tmp_path: Path) -> None:
    create = ("project", "create", "Docs", "--repo", str(make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})))
    assert parse_output(run(*create, "--json"))["collecting"]["privacy"] == "lasting"
    assert (
        parse_output(run(*create, "--allow-same-name", "--privacy", "daily", "--json"))["collecting"]["privacy"]
        == "daily"
    )
    refused = run(*create, "--privacy", "hourly")
    assert refused.exit_code == 1
    assert "privacy:" in str(refused.exception)
    shown = " ".join(run("project", "create", "--help").stdout.split())
    assert all(choice.consequence in shown for choice in PRIVACY_CHOICES)
    assert len(parse_output(run("project", "list", "--json"))) == 2


@pytest.mark.deep
def test_second_project_of_the_same_name_is_refused_unless_allowed(run: Run, tmp_path: Path) -> None:
    repository = str(make_repository(tmp_path / "docs.git", {"a.md": b"a\n"}))
    first = parse_output(run("project", "create", "Docs", "--repo", repository, "--json"))["projectId"]
    for name in ("Docs", "docs", " DOCS "):
        refused = run("project", "create", name, "--repo", repository)
        assert refused.exit_code == 1
        assert f"already a project named 'Docs': {first}." in str(refused.exception)
        assert "--allow-same-name" in str(refused.exception)
    assert len(parse_output(run("project", "list", "--json"))) == 1
    second = run("project", "create", "Docs", "--repo", repository, "--allow-same-name", "--quiet").stdout.strip()
    assert second.startswith("proj_")
    assert first in str(run("project", "show", "--project", "Docs").exception)
    assert second in str(run("project", "show", "--project", "Docs").exception)
    renamed = run("project", "set", "--project", second, "name=Guide")
    assert "Another project" not in renamed.stderr
    renamed = run("project", "set", "--project", second, "name=DOCS")
    assert f"Note: Another project is named 'Docs' too: {first}." in renamed.stderr


@pytest.mark.deep
def test_project_and_key_are_created_without_a_server(run: Run, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"}, branch="trunk")
    project = parse_output(run("project", "create", "Docs", "--repo", str(repository), "--json"))
    assert project["ref"] == "trunk", "the repository's own default branch"
    assert project["siteId"].startswith("site_")
    made = run("key", "create", "--project", project["projectId"], "--scope", "read", "--expires", "90d", "--json")
    key = parse_output(made)
    assert key["key"].startswith("desk_")
    assert key["scopes"] == ["read"]
    listed = run("key", "list", "--project", project["projectId"], "--json")
    assert [k["id"] for k in parse_output(listed)] == [key["id"]]
    assert key["key"] not in listed.stdout
    assert parse_output(run("key", "revoke", key["id"], "--json"))["revokedAt"] is not None
    assert parse_output(run("project", "list", "--json")) == [
        parse_output(run("project", "show", "--project", project["projectId"], "--json"))
    ]


@pytest.mark.deep
def test_key_expires_after_90_days_unless_told_otherwise(run: Run, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    project = parse_output(run("project", "create", "Docs", "--repo", str(repository), "--json"))["projectId"]
    before = clock.now()
    key = parse_output(run("key", "create", "--project", project, "--json"))
    in_90_days = format_iso(before + 90 * clock.DAY)
    assert in_90_days <= key["expiresAt"] <= format_iso(clock.now() + 90 * clock.DAY)
    shown = run("key", "create", "--project", project)
    assert f"The key expires on {in_90_days[:10]}" in shown.stderr
    quiet = run("key", "create", "--project", project, "--quiet")
    assert quiet.stdout.startswith("desk_")
    assert len(quiet.stdout.split()) == 1
    assert "The key expires on" in quiet.stderr
    forever = run("key", "create", "--project", project, "--expires", "never")
    assert "The key never expires." in forever.stderr
    assert parse_output(run("key", "create", "--project", project, "--expires", "never", "--json"))["expiresAt"] is None
    assert isinstance(run("key", "create", "--project", project, "--expires", "soon").exception, InvalidRequest)


@pytest.mark.deep
@pytest.mark.parametrize(
    "options",
    [
        ("--repo", "/nowhere/docs.git"),
        ("--repo", "https://user:secret@example.org/docs.git"),
        ("--repo", "ext::sh -c true"),
        ("--repo", "{repository}", "--ref", "missing"),
        ("--repo", "{repository}", "--forge", "svn"),
        ("--repo", "{repository}", "--model", "nonsense"),
        ("--repo", "{repository}", "--forbid-private"),
    ],
)
def test_project_with_unusable_repository_is_refused(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    given = [option.format(repository=repository) for option in options]
    result = run("project", "create", "Docs", *given)
    assert result.exit_code == 1
    assert result.exception is not None
    assert "secret" not in str(result.exception)
    assert parse_output(run("project", "list", "--json")) == []


@pytest.mark.deep
def test_creating_a_project_says_that_its_branch_is_checked_out(run: Run, tmp_path: Path) -> None:
    bare = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    checkout = tmp_path / "handbook"
    subprocess.run(["git", "clone", "--quiet", str(bare), str(checkout)], check=True, capture_output=True)
    made = run("project", "create", "Docs", "--repo", str(checkout), "--json")
    assert parse_output(made)["ref"] == "main"
    assert f"main is checked out in {checkout}" in made.stderr
    assert f"git -C {checkout} merge copydesk/JOB" in made.stderr
    assert "checked out" not in run("project", "create", "Docs", "--repo", str(bare)).stderr


@pytest.mark.deep
def test_key_with_another_prefix_is_created_and_imported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    project = parse_output(run("project", "create", "Docs", "--repo", str(repository), "--json"))["projectId"]
    imported = "mint_" + "x1Y2z3" * 4
    refused = run("key", "import", "--project", project, input=imported)
    assert (refused.exit_code, "COPYDESK_EXTRA_KEY_PREFIXES" in str(refused.exception)) == (1, True)
    monkeypatch.setenv("COPYDESK_EXTRA_KEY_PREFIXES", "mint_")
    made = parse_output(run("key", "create", "--project", project, "--prefix", "mint_", "--json"))
    assert made["key"].startswith("mint_")
    key = parse_output(run("key", "import", "--project", project, "--name", "Old", "--json", input=f"{imported}\n"))
    assert (key["name"], key["hint"], "key" in key) == ("Old", "mint_x1Y2", False)
    assert imported not in run("key", "list", "--project", project).output


def test_wrong_usage_exits_with_2(run: Run) -> None:
    assert run("project", "create").exit_code == 2
    assert run("nonsense").exit_code == 2
    assert run("job", "list", "--limit", "0").exit_code == 2


def test_every_command_has_help(run: Run) -> None:
    for command in ((), ("project",), ("key",), ("job",), ("pull",), ("serve",), ("work",), ("demo",), ("doctor",)):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.stdout


@pytest.mark.deep
def test_a_refusal_is_one_line_on_standard_error_and_exit_code_1(tmp_path: Path) -> None:
    environment = {"COPYDESK_DATA": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "copydesk", "project", "show", "--project", "proj_unknown"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"copydesk: There is no Copydesk data in {tmp_path / 'data'}. ")
    assert result.stderr.count("\n") == 1
    environment["COPYDESK_JOB_MINUTES"] = "soon"
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("copydesk: COPYDESK_JOB_MINUTES: ")


@pytest.mark.deep
def test_a_job_from_creation_to_merge(against: Run, service: Service) -> None:
    made = against("job", "create", "Replace colour with color in docs/index.md", "--watch", "--json")
    job = parse_output(made)
    assert (job["status"], job["filesChanged"][0]["path"]) == ("completed", "docs/index.md")
    assert "+The color of things." in against("job", "diff", job["id"]).stdout
    assert parse_output(against("job", "get", job["id"], "--json")) == job
    assert "started by    key test" in against("job", "get", job["id"]).stdout
    assert "key test" in against("job", "list").stdout
    assert [j["id"] for j in parse_output(against("job", "list", "--status", "completed", "--json"))["jobs"]] == [
        job["id"]
    ]
    (pull,) = parse_output(against("pull", "list", "--json"))
    assert pull["link"].endswith("/pulls/1")
    for _ in range(2):  # the service may have noticed a merge with git first
        assert parse_output(against("pull", "merge", "1", "--json"))["state"] == "merged"
    assert read_file(service.repository, "main", "docs/index.md") == b"# Hello\n\nThe color of things.\n"
    assert parse_output(against("job", "get", job["id"], "--json"))["status"] == "archived"


@pytest.mark.deep
def test_watching_prints_plain_lines_when_piped(against: Run) -> None:
    made = against("job", "create", "Replace colour with color in docs/index.md")
    job_id = made.stdout.split()[1]
    lines = against("job", "watch", job_id).stdout.splitlines()
    assert any("thinking" in line for line in lines)
    assert any("edit: Edited docs/index.md" in line for line in lines)
    assert any("/pulls/1" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


@pytest.mark.deep
def test_a_prompt_that_is_not_understood_exits_with_1(against: Run, service: Service) -> None:
    made = against("job", "create", "Write a poem about the sea", "--watch", "--json")
    assert made.exit_code == 1
    job = json.loads(made.stdout)
    assert (job["status"], job["reason"], job["prLink"], job["title"]) == ("completed", "not_understood", None, None)
    assert "the model of this job is the built-in mechanic" in job["message"]
    assert "set COPYDESK_MODEL" in job["message"]
    assert set(list_branches(service.repository)) == {"main"}
    watched = against("job", "watch", job["id"])
    assert watched.exit_code == 1
    assert "  not understood: “Write a poem about the sea” needs a language model" in watched.stdout
    assert "\nsummary" not in watched.stdout, "the last event showed it"
    nothing = against("job", "create", "Replace nonexistent with existing", "--watch", "--json")
    assert (nothing.exit_code, json.loads(nothing.stdout)["reason"]) == (0, "no_changes")


@pytest.mark.deep
def test_job_can_be_messaged_canceled_and_archived(against: Run, service: Service) -> None:
    job = parse_output(against("job", "create", "Replace colour with color", "--watch", "--json"))
    again = parse_output(against("job", "message", job["id"], "Replace Hello with Welcome", "--watch", "--json"))
    assert again["prLink"] == job["prLink"]
    assert set(list_branches(service.repository)) == {"main", job["branch"]}
    assert parse_output(against("job", "archive", job["id"], "--json"))["status"] == "archived"
    assert parse_output(against("job", "unarchive", job["id"], "--json"))["status"] == "completed"
    refused = against("job", "cancel", job["id"])
    assert refused.exit_code == 1
    assert "completed" in str(refused.exception)


@pytest.mark.deep
def test_job_can_be_retried(against: Run) -> None:
    job = parse_output(against("job", "create", "Replace nonexistent with existing", "--watch", "--json"))
    retried = parse_output(against("job", "retry", job["id"], "--watch", "--json"))
    assert retried["id"] != job["id"]
    assert (retried["prompt"], retried["reason"]) == (job["prompt"], "no_changes")


def test_a_prompt_is_read_from_standard_input(against: Run) -> None:
    job = parse_output(against("job", "create", "-", "--json", input="Replace colour with color\n"))
    assert job["prompt"] == "Replace colour with color\n"


@pytest.mark.deep
def test_closing_a_pull_request(against: Run, service: Service) -> None:
    parse_output(against("job", "create", "Replace colour with color", "--watch", "--json"))
    assert parse_output(against("pull", "close", "1", "--json"))["state"] == "closed"
    assert isinstance(against("pull", "close", "1").exception, RequestError)
    assert "color" not in str(read_file(service.repository, "main", "docs/index.md"))


@pytest.mark.deep
def test_doctor_reports_problems(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(check["ok"] for check in parse_output(run("doctor", "--json")))
    monkeypatch.setenv("COPYDESK_MODEL", "openai-compatible:x")
    result = run("doctor")
    assert result.exit_code == 1
    assert "COPYDESK_MODEL_URL" in result.stdout


def failing_checks(result: Result) -> list[str]:
    return [check["check"] for check in json.loads(result.stdout) if not check["ok"]]


@pytest.mark.deep
def test_doctor_reports_one_fault_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    for name in ("One", "Two"):
        parse_output(run("project", "create", name, "--repo", str(repository), "--json"))
    monkeypatch.setenv("COPYDESK_MODEL", "gpt")
    assert failing_checks(run("doctor", "--json")) == ["model"]
    monkeypatch.delenv("COPYDESK_MODEL")
    repository.rename(tmp_path / "moved.git")
    shown = run("doctor").stdout
    assert shown.count("does not appear to be a git repository") == 1
    assert "✗ repositories: One, Two: " in shown
    (tmp_path / "data" / "copydesk.db").write_bytes(b"no database")
    assert failing_checks(run("doctor", "--json")) == ["database"]
    assert "– repositories: not checked, because the check 'database' failed" in run("doctor").stdout


@pytest.mark.deep
def test_doctor_reports_undecryptable_secrets_once_and_as_secrets(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    made = parse_output(run("project", "create", "Docs", "--repo", str(repository), "--json"))
    assert run("secret", "set", "forge_token", "--project", made["projectId"], input="token").exit_code == 0
    assert "✓ secrets: 1 can be decrypted" in run("doctor").stdout
    monkeypatch.setenv("COPYDESK_SECRET_KEY", "A" * 43 + "=")
    assert failing_checks(run("doctor", "--json")) == ["secrets"]


@pytest.mark.deep
def test_doctor_names_unknown_variables_with_the_nearest_known_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPYDESK_MODLE", "openai:x")
    monkeypatch.setenv("COPYDESK_SOMETHING_ELSE_ENTIRELY", "1")
    monkeypatch.setenv("COPYDESK_ZZZ", "1")
    monkeypatch.setenv("COPYDESK_PROJECT", "proj_x")
    shown = run("doctor")
    assert shown.exit_code == 0
    [line] = [line for line in shown.stdout.splitlines() if line.startswith("! variables: ")]
    assert "COPYDESK_MODLE is not a setting, so it has no effect. Did you mean COPYDESK_MODEL?" in line
    assert "COPYDESK_SOMETHING_ELSE_ENTIRELY is not a setting, so it has no effect. COPYDESK_ZZZ" in line
    assert line.endswith("COPYDESK_ZZZ is not a setting, so it has no effect.")
    assert "COPYDESK_PROJECT" not in line
    monkeypatch.setenv("COPYDESK_JOB_MINUTES", "soon")
    shown = run("doctor")
    assert shown.exit_code == 1
    assert "Did you mean COPYDESK_MODEL?" in shown.stdout


@pytest.mark.deep
def test_token_variable_of_a_project_is_not_unknown(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DOCS_TOKEN", "token")
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    options = ("--repo", str(repository), "--token-env", "COPYDESK_DOCS_TOKEN")
    assert run("project", "create", "Docs", *options).exit_code == 0
    assert "COPYDESK_DOCS_TOKEN" not in run("doctor").stdout


@pytest.mark.deep
def test_the_demo_works(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "copydesk", "demo"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=180, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "+Color names are those of CSS." in result.stdout
    for sentence in ("I understood: move the page", "I understood: replace", "I understood: fix broken"):
        assert result.stdout.count(sentence) == 1
    assert "/pulls/1" in result.stdout
    assert result.stdout.endswith("\nAdd --serve to keep the service running and open these pages.\n")
    samples = re.findall(r"^```text\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert matches_shortened(stable_lines("\n…\n".join(["", *samples, ""])), stable_lines(result.stdout))
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"


@pytest.mark.deep
def test_text_of_models_and_people_cannot_send_terminal_escapes(against: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_output(against("job", "create", "Any", "--title", "Fix [/docs] links \x1b[31m\x1b]52;c;eA==\x07", "--json"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    result = against("job", "list")
    assert result.exit_code == 0
    shown = result.stdout
    assert "Fix [/docs] links" in shown
    assert "\x1b]52" not in shown
    assert "\x1b[31m" not in shown


def test_the_audit_log_is_shown(against: Run, service: Service) -> None:
    (made, _) = (
        entry["action"]
        for entry in parse_output(against("project", "audit", "--project", service.project.id, "--json"))
    )
    assert made == "key.created"

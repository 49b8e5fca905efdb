"""The sample sites: the mechanic's edits give the expected trees, and a verdict never hides what was not looked at."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest

from benchmarks.agent.sources import CaseSources
from benchmarks.checks.broken_references import measure_recall
from benchmarks.sites.__main__ import render_table
from benchmarks.sites.builders import Build, Builder, NotRun, install_builder
from benchmarks.sites.changes import format_changes
from benchmarks.sites.runner import run_site_job, run_sites
from benchmarks.sites.site_jobs import GENERATORS, PreparedJob, load_jobs, load_site
from benchmarks.sites.verdicts import FAILED, NOT_RUN, PASSED, find_unreported, judge_job
from copydesk.jobs.agent.conversation import Conversation, Prompt, ToolResults
from copydesk.jobs.agent.mechanic import Mechanic
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.checks import CheckReport, Finding, check
from copydesk.jobs.publish.guard.publish_guard import refuse_protected
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace
from tests.support.programs import skip_missing

pytestmark = pytest.mark.deep

JOBS = [job for generator in GENERATORS for job in load_jobs(generator)]
JOB_NAMES = {"rename", "move", "move-license", "replace", "heading", "fix-links", "delete", "navigation"}
NO_FINDINGS = CheckReport((), (), ())


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="copydesk-sites-") as name:
        yield Path(name)


def open_workspace(job: PreparedJob, folder: Path) -> Workspace:
    prepared = CaseSources(folder).prepare(job.case, folder / "repository.git")
    return Workspace(Tree(pygit2.Repository(str(prepared.path)), prepared.start), refuse_protected)


def run_mechanic(space: Workspace, prompt: str) -> str:
    conversation: Conversation = [Prompt(text=prompt)]
    for _ in range(20):
        tools = Toolbox(space)
        reply = asyncio.run(Mechanic().reply(conversation, space))
        conversation += [reply, ToolResults(results=tuple(tools.call(call) for call in reply.calls))]
        if tools.finished is not None:
            return tools.finished.summary
    raise AssertionError("it did not finish")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.case.name)
def test_job_makes_exactly_the_expected_edits(job: PreparedJob, folder: Path) -> None:
    """The only new findings are in files that no job may change, and the summary names those files."""
    space = open_workspace(job, folder)
    summary = run_mechanic(space, job.case.prompt)
    after = {path: space.read(path).decode() for path in space.paths()}
    assert format_changes(job.files, after) == job.expected_path.read_text("utf-8")
    for finding in check(space).introduced:
        assert not space.may_change(finding.path), finding
        assert finding.path in summary


def test_every_site_has_every_job() -> None:
    for generator in GENERATORS:
        assert {job.name for job in JOBS if job.generator == generator} == JOB_NAMES
        assert 8 <= sum(path.endswith((".md", ".mdx", ".rst")) for path in load_site(generator)) <= 20


def test_sites_are_clean_before_the_jobs(folder: Path) -> None:
    for number, job in enumerate(each for each in JOBS if each.name == "rename"):
        space = open_workspace(job, folder / str(number))
        assert [each for each in check(space).old if each.rule != "orphan"] == []


@pytest.mark.parametrize("generator", GENERATORS)
def test_no_broken_reference_of_a_site_passes(generator: str, folder: Path) -> None:
    prepared = CaseSources(folder).prepare(next(load_jobs(generator)).case, folder / "repository.git")
    recall = measure_recall(prepared.path, "", count=100)
    assert {kind: each.missed for kind, each in recall.items() if each.missed} == {}
    assert sum(each.broken for each in recall.values()) >= 50
    assert recall["folder"].reported >= 0.9 * recall["folder"].broken


GOOD, BAD = Build(succeeded=True, warnings=()), Build(succeeded=False, warnings=("docs/a.md: no target",))
FOUND = CheckReport((Finding("link", "docs/a.md", 3, "The link to `b.md` is broken."),), (), ())


@pytest.mark.parametrize(
    ("changes", "builds", "report", "status", "verdict"),
    [
        pytest.param("x", (GOOD, GOOD), NO_FINDINGS, "completed", PASSED, id="clean"),
        pytest.param("y", (GOOD, GOOD), NO_FINDINGS, "completed", FAILED, id="other edits"),
        pytest.param("x", (GOOD, BAD), NO_FINDINGS, "completed", FAILED, id="a warning that was not reported"),
        pytest.param("x", (GOOD, BAD), FOUND, "completed", PASSED, id="a warning that was reported"),
        pytest.param("x", (BAD, BAD), NO_FINDINGS, "completed", PASSED, id="an old warning"),
        pytest.param("x", None, NO_FINDINGS, "completed", NOT_RUN, id="not built"),
        pytest.param("y", None, NO_FINDINGS, "completed", FAILED, id="not built, and other edits"),
        pytest.param("x", (GOOD, GOOD), NO_FINDINGS, "failed", FAILED, id="failed"),
    ],
)
def test_verdict(
    changes: str, builds: tuple[Build, Build] | None, report: CheckReport, status: str, verdict: str
) -> None:
    assert judge_job(changes, "x", builds, report, status)[0] == verdict


def test_finding_of_another_page_does_not_explain_a_warning() -> None:
    other = Finding("link", "docs/other.md", 1, "The link to `c.md` is broken.")
    assert find_unreported(["docs/a.md: no target b.md"], [other]) == ["docs/a.md: no target b.md"]
    assert find_unreported(["a.md: no target b.md"], list(FOUND.introduced)) == []


def test_missing_builder_is_never_passed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(folder))
    [outcome] = run_sites(["mdbook"], ["rename"], build=True, tell=lambda outcome: None)
    assert (outcome.verdict, outcome.reasons) == (NOT_RUN, ("mdbook not found",))
    assert "not run: mdbook not found" in render_table([outcome])


def test_failing_builder_shows_its_output(folder: Path) -> None:
    builder = Builder("mkdocs", ("sh", "-c", "echo 'WARNING -  docs/a.md: 3 is odd'; exit 1"), lambda output: [])
    build = builder.build({"docs/a.md": "# A\n"}, folder / "site")
    assert not build.succeeded
    assert "docs/a.md: 3 is odd" in build.warnings[0]


@pytest.mark.drill
@pytest.mark.parametrize("generator", ["mkdocs", "sphinx"])
def test_strict_builds_have_no_new_warning(generator: str, folder: Path) -> None:
    try:
        builder = install_builder(generator, folder)
    except NotRun as error:
        skip_missing(generator, str(error))
    builds: dict[str, Build] = {}
    outcomes = [run_site_job(job, builder, folder, builds) for job in load_jobs(generator)]
    assert {each.job: (each.verdict, each.reasons) for each in outcomes} == dict.fromkeys(JOB_NAMES, (PASSED, ()))
    assert all(build.succeeded for build in list(builds.values())[:1])


@pytest.mark.drill
def test_strict_build_reports_a_broken_link(folder: Path) -> None:
    try:
        builder = install_builder("mkdocs", folder)
    except NotRun as error:
        skip_missing("mkdocs", str(error))
    site = load_site("mkdocs")
    broken = {**site, "docs/index.md": site["docs/index.md"].replace("guides/quickstart.md", "guides/gone.md")}
    build = builder.build(broken, folder / "site")
    assert any("guides/gone.md" in warning for warning in build.warnings)

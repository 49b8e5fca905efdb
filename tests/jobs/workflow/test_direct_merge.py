"""Mode merge: a change that needs no person is pushed to the branch; everything else becomes a pull request."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pygit2
import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from copydesk.jobs.job import Creator, CreatorKind, MergeLimits
from copydesk.jobs.risk import Risk, RiskKind, needs_draft
from copydesk.jobs.service import NewJob
from copydesk.jobs.workflow.publication.direct_merge import ProposedMerge, find_obstacle
from copydesk.jobs.workspace.patches import FilePatch
from tests.jobs.publish.forges.stage import create_project, fake_forge
from tests.support import migrated_databases
from tests.support.jobs import make_job
from tests.support.repositories import commit, list_branches, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

DOCS = {
    "docs.json": b'{"name": "Docs", "navigation": {"pages": ["index", "guide"]}}\n',
    "index.mdx": b"---\ntitle: Hello\n---\n\nThe colour of [things](/guide).\n",
    "guide.mdx": b"---\ntitle: Guide\n---\n\nText.\n",
}
EDIT = edit("index.mdx", "colour", "color")
LIMITS = MergeLimits(paths=("*.mdx",), max_lines=10)


@contextmanager
def open_service(folder: Path, *script: Turn) -> Iterator[Service]:
    model = ScriptedModel(list(script))
    repository = make_repository(folder / "docs.git", DOCS)
    with serve(folder / "data", repository=repository, model=lambda _name: model) as service:
        yield service


def run_job(service: Service, limits: MergeLimits | None = LIMITS, **options: Any) -> dict[str, Any]:
    new = NewJob("Fix the spelling.", merge_limits=limits, **options)
    job = service.desk.jobs.create(service.project, new, created_by=Creator(kind=CreatorKind.AUTOMATION, name="A")).job
    return dict(service.client.wait(job.id))


@pytest.mark.deep
def test_change_without_any_finding_is_pushed_to_the_branch(tmp_path: Path) -> None:
    with open_service(tmp_path, EDIT, finish("Spelling", "American.")) as service:
        before = list_branches(service.repository)
        job = run_job(service)
        after = list_branches(service.repository)
        assert (job["status"], job["prLink"]) == ("completed", None), job
        assert job["message"] == f"Pushed to main as {after['main'][:12]}."
        assert (job["title"], job["summary"]) == ("Spelling", "American.")
        assert set(after) == {"main"}
        assert after != before
        assert b"The color of" in (read_file(service.repository, "main", "index.mdx") or b"")
        assert [file["path"] for file in job["filesChanged"]] == ["index.mdx"]
        assert service.desk.jobs.get(service.project.id, job["id"]).pull_state == "merged"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("script", "limits", "options", "reason"),
    [
        ([EDIT, finish()], None, {}, None),
        ([EDIT, finish()], LIMITS, {"draft": True}, "The job asks for a draft."),
        (
            [edit("index.mdx", "(/guide)", "(/gone)"), *[finish()] * 5],
            LIMITS,
            {},
            "It has risks. Review first: failed check. The pull request is a draft.",
        ),
        ([EDIT, finish()], MergeLimits(paths=("guide.mdx",), max_lines=10), {}, "outside of the automation's paths"),
        ([EDIT, finish()], MergeLimits(max_lines=1), {}, "It changes 2 lines, more than the limit of 1."),
        (
            [edit("index.mdx", "The colour", "[Site](https://example.org/) The colour"), *[finish()] * 5],
            LIMITS,
            {},
            "It adds external addresses.",
        ),
    ],
)
def test_everything_else_becomes_a_pull_request(
    tmp_path: Path, script: list[Turn], limits: MergeLimits | None, options: dict[str, Any], reason: str | None
) -> None:
    with open_service(tmp_path, *script) as service:
        before = list_branches(service.repository)["main"]
        job = run_job(service, limits, **options)
        assert job["prLink"] is not None, job
        assert list_branches(service.repository)["main"] == before
        if reason is None:
            assert job["message"] is None
        else:
            assert job["message"].startswith("Not merged without a review.")
            assert reason in job["message"]


@pytest.mark.parametrize(
    ("path", "previous", "is_within"),
    [
        ("guides/new.mdx", None, True),
        ("guides/new.mdx", "guides/old.mdx", True),
        ("guides/new.mdx", "index.mdx", False),
        ("new.mdx", "guides/old.mdx", False),
    ],
)
def test_file_that_moves_is_within_the_paths_only_if_both_of_its_places_are(
    tmp_path: Path, path: str, previous: str | None, is_within: bool
) -> None:
    database_url = migrated_databases.new_database("sqlite", tmp_path)
    desk = open_desk_lazily(Settings(data=tmp_path / "data", database_url=database_url), create=True)
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="ada")
    limits = MergeLimits(paths=("guides/*",), max_lines=10)
    job = desk.jobs.create(project, NewJob("Fix the spelling.", merge_limits=limits)).job
    desk.close()
    patch = FilePatch(path, "renamed" if previous else "added", previous, 1, 1, b"")
    proposed = ProposedMerge([patch], [], [], is_follow_up=False)
    outside = f"It changes files outside of the automation's paths: {path}."
    assert find_obstacle(job, proposed) == (None if is_within else outside)


@pytest.mark.parametrize("kind", list(RiskKind))
def test_any_risk_speaks_against_a_merge_without_review(kind: RiskKind) -> None:
    patch = FilePatch("a.md", "modified", None, 1, 1, b"")
    job = make_job(merge_limits=LIMITS.model_copy(update={"paths": ()}))
    assert find_obstacle(job, ProposedMerge([patch], [], [], is_follow_up=False)) is None
    risky = ProposedMerge([patch], [Risk(kind, "x")], [], is_follow_up=False)
    expected = "It has risks." if needs_draft(risky.risks) else f"Review first: {kind.label}."
    assert find_obstacle(job, risky) == expected


@pytest.mark.deep
def test_branch_that_moved_during_the_run_is_rebased_onto(tmp_path: Path) -> None:
    def move_branch(_conversation: object, _workspace: object) -> Any:
        commit(pygit2.Repository(str(tmp_path / "docs.git")), {"guide.mdx": b"---\ntitle: Guide\n---\n\nNew.\n"})
        return calls(("list", {}))

    with open_service(tmp_path, EDIT, move_branch, finish()) as service:
        job = run_job(service)
        assert job["prLink"] is None, job["message"]
        assert b"New." in (read_file(service.repository, "main", "guide.mdx") or b"")
        assert b"color" in (read_file(service.repository, "main", "index.mdx") or b"")


@pytest.mark.deep
def test_follow_up_of_a_pull_request_is_not_merged(tmp_path: Path) -> None:
    script = [EDIT, finish(), edit("guide.mdx", "Text.", "Texts."), finish()]
    with open_service(tmp_path, *script) as service:
        job = run_job(service, MergeLimits(max_lines=1))
        assert job["prLink"] is not None
        before = list_branches(service.repository)["main"]
        service.client.message_job(job["id"], "More.")
        again = service.client.wait(job["id"])
        assert again["prLink"] == job["prLink"]
        assert list_branches(service.repository)["main"] == before


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
@pytest.mark.parametrize("is_protected", [False, True])
def test_protected_branch_of_a_forge_gets_a_pull_request(tmp_path: Path, kind: str, is_protected: bool) -> None:
    with (
        open_service(tmp_path, EDIT, finish("Spelling")) as service,
        fake_forge(kind, tmp_path / "forge", DOCS) as fake,
    ):
        project = create_project(service.desk, kind, fake)
        if is_protected:
            fake.faults.protect("main")
        on_forge = replace(service, project=project, key=service.desk.keys.create(project.id, actor="test")[1])
        before = list_branches(fake.repository.folder)["main"]
        job = run_job(on_forge)
        after = list_branches(fake.repository.folder)["main"]
        if is_protected:
            assert job["message"].startswith("Not merged without a review."), job
            assert (len(fake.pulls), after) == (1, before)
        else:
            assert (job["prLink"], fake.pulls) == (None, []), job["message"]
            assert job["message"] == f"Pushed to main as {after[:12]}."
        assert fake.violations == []


@pytest.mark.deep
def test_rule_that_the_token_could_bypass_is_respected(tmp_path: Path) -> None:
    with (
        open_service(tmp_path, EDIT, finish("Spelling")) as service,
        fake_forge("github", tmp_path / "forge", DOCS) as fake,
    ):
        project = create_project(service.desk, "github", fake)
        fake.faults.require_rule("required_status_checks", {
            "required_status_checks": [{"context": "build"}], "strict_required_status_checks_policy": False,
        })  # fmt: skip
        on_forge = replace(service, project=project, key=service.desk.keys.create(project.id, actor="test")[1])
        job = run_job(on_forge)
        assert job["message"] == "Not merged without a review. main is protected."
        assert len(fake.pulls) == 1
        assert fake.violations == []

"""The description of a pull request, from real runs: what the change fixed, new addresses, and all rounds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2
import pytest

from copydesk.jobs.job import Creator, CreatorKind
from copydesk.jobs.service import NewJob
from tests.support.people import get_or_add_person
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

FILES = {
    "docs.json": b'{"navigation": {"pages": ["index", "one"]}}',
    "index.mdx": b"# Index\n\nSee [one](/one) and [two](/gone) and [three](/lost).\n",
    "one.mdx": b"---\nslug: /first\n---\n# One\n\n" + b"".join(b"Line %d of it.\n" % n for n in range(20)),
}
FIX = edit("index.mdx", "/gone", "/one")


@contextmanager
def open_service(folder: Path, *script: Turn) -> Iterator[Service]:
    model = ScriptedModel(list(script))
    repository = make_repository(folder / "docs.git", FILES)
    with serve(folder / "data", repository=repository, model=lambda _name: model) as service:
        yield service


def run_job(service: Service, prompt: str = "Fix the link.") -> str:
    return service.client.wait(service.client.create_job(prompt)["id"])["id"]


def follow_up(service: Service, job_id: str, prompt: str) -> None:
    service.client.message_job(job_id, prompt)
    service.client.wait(job_id)


def read_body(service: Service) -> str:
    [pull] = service.desk.pulls.list_for_project(service.project.id)
    return pull.body


def list_section(body: str, title: str) -> list[str]:
    """Returns the items of the list under this title."""
    _, found, rest = body.partition(f"**{title}**")
    return [line[2:] for line in rest.split("\n\n")[1].splitlines()] if found else []


def test_pull_request_links_to_the_job_page_and_says_what_was_fixed(tmp_path: Path) -> None:
    with open_service(tmp_path, FIX, finish()) as service:
        job_id = run_job(service)
        body = read_body(service)
        assert f"({service.desk.settings.base_url}/projects/{service.project.id}/jobs/{job_id})." in body
        assert "/v2/agent" not in body
        [fixed] = list_section(body, "Fixed")
        assert fixed.startswith("index.mdx:3 The link to `/gone` is broken")


@pytest.mark.deep
def test_link_that_is_broken_in_another_way_is_not_called_fixed(tmp_path: Path) -> None:
    script = edit("index.mdx", "[three](/lost)", "[3](/lost#there)")
    with open_service(tmp_path, script, *[finish()] * 4) as service:
        run_job(service)
        assert list_section(read_body(service), "Fixed") == []


def test_problems_of_a_deleted_page_are_not_called_fixed(tmp_path: Path) -> None:
    with open_service(tmp_path, calls(("delete", {"path": "index.mdx"})), *[finish()] * 4) as service:
        run_job(service)
        assert list_section(read_body(service), "Fixed") == []


@pytest.mark.deep
def test_new_addresses_of_added_and_moved_pages_are_listed(tmp_path: Path) -> None:
    add = calls(("write", {"path": "guides/new.mdx", "content": "# New\n"}))
    move = calls(("move", {"path": "one.mdx", "to": "guides/one.mdx"}))
    slug = edit("guides/one.mdx", "slug: /first", "slug: /uno")
    with open_service(tmp_path, FIX, add, move, slug, *[finish()] * 4) as service:
        run_job(service)
        assert list_section(read_body(service), "New addresses") == ["`/guides/new`, a new page", "`/first` → `/uno`"]


@pytest.mark.deep
def test_edit_of_a_page_is_no_new_address(tmp_path: Path) -> None:
    with open_service(tmp_path, FIX, finish()) as service:
        run_job(service)
        assert "New addresses" not in read_body(service)


@pytest.mark.deep
def test_follow_up_tells_of_all_rounds_and_of_the_whole_change(tmp_path: Path) -> None:
    add = calls(("write", {"path": "new.mdx", "content": "# New\n\n[x](https://first.example/)\n"}))
    unsure = {"title": "T", "summary": "Added a page.", "unsure": "- The title.\n- The address.\n"}
    second = {"title": "T2", "summary": "Fixed a link.", "unsure": "The word."}
    with open_service(tmp_path, add, calls(("finish", unsure)), FIX, calls(("finish", second))) as service:
        job_id = run_job(service, "Add a page. See https://first.example/")
        assert "**Round" not in read_body(service)
        follow_up(service, job_id, "Please resolve this point, which you were unsure of: The title.")
        body = read_body(service)
        order = ("**Round 1**", "Added a page.", "**Round 2**", "Fixed a link.", "> Add a page", "> Please resolve")
        places = [body.index(part) for part in order]
        assert places == sorted(places)
        assert "- **unsure:** The word.\n- **unsure:** The address.\n" in body
        assert "** The title." not in body, "the follow-up answers it"
        points = [risk["text"] for risk in service.client.get_job(job_id)["risk"] if risk["kind"] == "unsure"]
        assert points == ["The word.", "The address."]
        assert [file.split()[0] for file in list_section(body, "Files")] == ["`index.mdx`", "`new.mdx`"]
        assert "https://first.example/" in list_section(body, "New external URLs")[0]
        assert list_section(body, "New addresses") == ["`/new`, a new page"]
        assert body.count("Created by") == 1


@pytest.mark.deep
def test_template_heading_is_neither_title_nor_subject(tmp_path: Path) -> None:
    text = "## Summary\n\nCorrects the link on the first page. It was broken.\n\n## Checklist\n- [ ] Tests\n"
    with open_service(tmp_path, FIX, calls(("finish", {"title": "## Summary", "summary": text}))) as service:
        job = service.client.get_job(run_job(service))
        assert job["title"] == "Corrects the link on the first page"
        opened = pygit2.Repository(str(service.repository))
        message = opened.branches[job["branch"]].peel(pygit2.Commit).message
        assert message.splitlines()[:3] == [
            "Corrects the link on the first page",
            "",
            "Corrects the link on the first page. It was broken.",
        ]
        assert "#" not in message
        assert "Checklist" not in message


def test_words_in_a_file_name_are_no_task_for_a_person(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/About A person.md": b"# About\n"})
    with serve(tmp_path / "data", repository=repository) as service:
        prompt = 'Rename "docs/About A person.md" to "docs/about.md".'
        job = service.client.wait(service.client.create_job(prompt, model="mechanic")["id"])
        assert job["status"] == "completed", job["message"]
        assert [file["path"] for file in job["filesChanged"]] == ["docs/about.md"]
        assert not [line for line in (job["summary"] or "").splitlines() if line.startswith("A person")]


@pytest.mark.deep
def test_commit_names_the_signed_in_person_who_asked_and_closes_the_issue_that_they_named(tmp_path: Path) -> None:
    with open_service(tmp_path, FIX, finish("Fix a link", "It was broken.\n\nFixes #3279, and #12.")) as service:
        person = get_or_add_person(service, "editor", "ada@example.org")
        creator = Creator(kind=CreatorKind.PERSON, name=person.name, id=person.id)
        job = service.desk.jobs.create(service.project, NewJob("Fix the link. Fixes #3279."), created_by=creator).job
        service.client.wait(job.id)
        commit = pygit2.Repository(service.repository).branches[job.branch].peel(pygit2.Commit)
        trailers = f"Copydesk-Job: {job.id}\nCo-authored-by: Editor <ada@example.org>\n"
        assert commit.message == f"Fix a link\n\nIt was broken.\n\nFixes #3279, and issue 12.\n\n{trailers}"
        body = read_body(service)
        assert body.count("Fixes #3279") == 2, "once in the summary, once in the request"
        assert "#12" not in body
        assert body.count("It was broken.") == 1

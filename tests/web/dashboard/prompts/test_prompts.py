"""The pages of the prompt library, over real HTTP."""

import re
from collections.abc import Iterator, Sequence

import httpx2 as httpx
import pytest

from copydesk.prompts.template import TemplateField, build_template
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("prompts")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture
def editor(service: Service) -> Iterator[httpx.Client]:
    with signed_in_client(service, "editor") as browser:
        yield browser


@pytest.fixture
def prompts(service: Service) -> str:
    return f"/projects/{service.project.id}/prompts"


def post_form(browser: httpx.Client, path: str, **form: Sequence[str]) -> httpx.Response:
    return browser.post(path, data={"token": csrf_token_from_html(browser.get("/account").text), **form})


def read_hidden(html: str, name: str) -> str:
    match = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert match
    return match[1]


def list_prompts(service: Service) -> list[str]:
    return [job.prompt for job in service.desk.jobs.list_page(service.project.id, None, 100, None)[0]]


def test_job_starts_from_a_template_after_a_preview(service: Service, editor: httpx.Client, prompts: str) -> None:
    page = f"{prompts}/changelog-entry"
    assert page in editor.get(prompts).text
    form = {"field-version": "1.4 {{changes}}", "field-changes": "<b>Themes</b>", "action": "preview"}
    shown = post_form(editor, page, **form).text
    assert "Add an entry to the changelog for 1.4 {{changes}}." in shown
    assert "&lt;b&gt;Themes&lt;/b&gt;" in shown
    assert 'value="1.4 {{changes}}"' in shown, "the form keeps its values"
    assert list_prompts(service) == []
    nonce = read_hidden(shown, "nonce")
    for _ in range(2):
        started = post_form(editor, page, **form | {"action": "start"}, nonce=nonce, template_version="")
        assert started.headers["location"].startswith(f"/projects/{service.project.id}/jobs/job_")
    [prompt] = list_prompts(service)
    assert "What changed:\n<b>Themes</b>\n" in prompt


def test_missing_value_keeps_the_other_values(editor: httpx.Client, prompts: str) -> None:
    answer = post_form(editor, f"{prompts}/changelog-entry", action="start", **{"field-version": "7.7"})
    assert answer.status_code == 400
    assert "Enter a value for &#39;What changed&#39;." in answer.text
    assert 'value="7.7"' in answer.text


def test_template_that_changed_meanwhile_starts_no_job(service: Service, editor: httpx.Client, prompts: str) -> None:
    library = service.desk.prompts
    library.create(service.project.id, build_template("moving", "Moving", "", "Fix {{page}}."), actor="test")
    version = read_hidden(editor.get(f"{prompts}/moving").text, "template_version")
    service.desk.prompts.change(service.project.id, "moving", {"prompt": "Delete {{page}}."}, actor="test")
    form = {"field-page": "a.md", "action": "start", "template_version": version}
    answer = post_form(editor, f"{prompts}/moving", **form)
    assert (answer.status_code, "was changed after you opened" in answer.text) == (400, True)
    assert "Delete a.md." in answer.text
    form["template_version"] = read_hidden(answer.text, "template_version")
    assert post_form(editor, f"{prompts}/moving", **form).status_code == 303


def test_template_is_written_with_its_fields(service: Service, editor: httpx.Client, prompts: str) -> None:
    entries = {"name": "own", "title": "Own", "description": "Mine.", "prompt": "Fix {{page}} in {{tone}}."}
    shown = post_form(editor, f"{prompts}/new", **entries, action="fields").text
    assert "label-page" in shown
    assert "choices-tone" in shown
    fields = {
        "field": ["page", "tone"],
        "label-page": "Which page",
        "required-page": "yes",
        "label-tone": "Tone",
        "choices-tone": "polite\r\nfamiliar\r\n",
        "default-tone": "polite",
    }
    created = post_form(editor, f"{prompts}/new", **entries, **fields, action="save")
    assert created.headers["location"] == f"{prompts}/own"
    template = service.desk.prompts.get(service.project.id, "own")
    assert template.fields == (
        TemplateField("page", "Which page"),
        TemplateField("tone", "Tone", required=False, default="polite", choices=("polite", "familiar")),
    )
    assert template.created_by == "editor@example.org"


def test_invalid_template_keeps_what_was_typed(editor: httpx.Client, prompts: str) -> None:
    entries = {"name": "Bad Name", "title": "<Own>", "prompt": "Fix {{page}}.", "field": ["page"], "label-page": ""}
    answer = post_form(editor, f"{prompts}/new", **entries, action="save")
    assert answer.status_code == 400
    assert "&lt;Own&gt;" in answer.text
    assert "lowercase letters" in answer.text
    assert "The label of the field page" in answer.text


def test_built_in_template_is_copied_not_edited(service: Service, editor: httpx.Client, prompts: str) -> None:
    assert editor.get(f"{prompts}/glossary/edit").status_code == 409
    assert post_form(editor, f"{prompts}/glossary/delete").status_code == 409
    form = editor.get(f"{prompts}/new?copy=glossary").text
    assert 'value="glossary-2"' in form
    assert "Path of the glossary page" in form
    assert editor.get(f"{prompts}/new?copy=unknown").status_code == 404


def test_template_is_edited_and_deleted(service: Service, editor: httpx.Client, prompts: str) -> None:
    service.desk.prompts.create(service.project.id, build_template("old", "Old", "", "Fix {{page}}."), actor="test")
    page = editor.get(f"{prompts}/old/edit").text
    entries = {"title": "Newer", "description": "", "prompt": "Fix {{page}} now.", "field": ["page"], "label-page": "P"}
    stale = post_form(editor, f"{prompts}/old/edit", **entries, updated_at="1", action="save")
    assert (stale.status_code, "was changed after you opened" in stale.text) == (400, True)
    saved = post_form(editor, f"{prompts}/old/edit", **entries, updated_at=read_hidden(page, "updated_at"))
    assert saved.headers["location"] == f"{prompts}/old"
    changed = service.desk.prompts.get(service.project.id, "old")
    assert (changed.title, changed.prompt) == ("Newer", "Fix {{page}} now.")
    assert changed.fields == (TemplateField("page", "P", required=False),)
    assert "Delete “Newer”?" in editor.get(f"{prompts}/old/delete").text
    assert post_form(editor, f"{prompts}/old/delete").headers["location"] == prompts
    assert editor.get(f"{prompts}/old").status_code == 404


def test_viewer_reads_templates_but_starts_nothing(service: Service, prompts: str) -> None:
    with signed_in_client(service, "viewer") as viewer:
        page = viewer.get(f"{prompts}/glossary").text
        assert "An editor can start a job" in page
        assert "Start job" not in page
        assert f"{prompts}/new" not in viewer.get(prompts).text
        assert post_form(viewer, f"{prompts}/glossary", action="start").status_code == 403

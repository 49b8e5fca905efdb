"""The templates of projects, on each database."""

from collections.abc import Iterator

import pytest

from copydesk.core import audit_log
from copydesk.core.errors import InvalidRequest, ProjectNotFound
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.prompts import library
from copydesk.prompts.library import (
    TemplateBuiltIn,
    TemplateExists,
    TemplateNotFound,
    TooManyTemplates,
    load_builtin,
)
from copydesk.prompts.template import TemplateField, TemplateText, build_template
from tests.conftest import DATABASES
from tests.support import migrated_databases


@pytest.fixture(scope="module", params=DATABASES)
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("prompts")
    desk = open_desk(Settings(data=folder, database_url=migrated_databases.new_database(request.param, folder)))
    yield desk
    desk.close()


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")


def build(name: str = "notes", prompt: str = "Write the notes of {{version}}.") -> TemplateText:
    return build_template(name, f"Title of {name}", "For releases.", prompt)


def test_template_is_stored_as_it_was_written(desk: Desk, project: Project) -> None:
    field = TemplateField("a", "A", required=False, default="é", choices=("é", "ü"), multiline=True)
    text = build_template("own", "Título", "ö", "{{a}}\n  x", [field])
    created = desk.prompts.create(project.id, text, actor="ada@example.org")
    assert desk.prompts.get(project.id, "own") == created
    assert (created.fields, created.prompt, created.created_by) == ((field,), "{{a}}\n  x", "ada@example.org")
    assert not created.is_builtin


def test_list_has_own_templates_by_title_and_then_the_built_in_ones(desk: Desk, project: Project) -> None:
    for name in ("b", "a"):
        desk.prompts.create(project.id, build(name), actor="test")
    names = [template.name for template in desk.prompts.list_for_project(project.id)]
    assert names == ["a", "b", *load_builtin()]


def test_projects_do_not_see_the_templates_of_others(desk: Desk, project: Project) -> None:
    other = desk.projects.create("Other", repository="/srv/other.git", ref="main", actor="test")
    desk.prompts.create(project.id, build(), actor="test")
    for call in (
        lambda: desk.prompts.get(other.id, "notes"),
        lambda: desk.prompts.change(other.id, "notes", {"title": "x"}, actor="test"),
        lambda: desk.prompts.delete(other.id, "notes", actor="test"),
    ):
        with pytest.raises(TemplateNotFound):
            call()
    assert all(template.is_builtin for template in desk.prompts.list_for_project(other.id))
    desk.prompts.create(other.id, build(), actor="test")


@pytest.mark.parametrize("name", ["", "unknown", "\0", "x" * 500, "../../etc"])
def test_unknown_template_is_not_found(desk: Desk, project: Project, name: str) -> None:
    with pytest.raises(TemplateNotFound):
        desk.prompts.get(project.id, name)


def test_name_is_unique_in_its_project(desk: Desk, project: Project) -> None:
    desk.prompts.create(project.id, build(), actor="test")
    with pytest.raises(TemplateExists):
        desk.prompts.create(project.id, build(), actor="test")
    with pytest.raises(TemplateExists, match="built-in"):
        desk.prompts.create(project.id, build("glossary"), actor="test")
    with pytest.raises(ProjectNotFound):
        desk.prompts.create("proj_0", build(), actor="test")


def test_change_keeps_the_fields_that_a_new_prompt_still_uses(desk: Desk, project: Project) -> None:
    field = TemplateField("version", "Which version", default="1.0")
    text = build_template("notes", "Notes", "", "{{version}} {{old}}", [field, TemplateField("old", "Old")])
    created = desk.prompts.create(project.id, text, actor="test")
    changed = desk.prompts.change(project.id, "notes", {"prompt": "{{new}} {{version}}"}, actor="eve@example.org")
    assert changed.fields == (TemplateField("new", "New"), field)
    assert (changed.title, changed.created_by) == ("Notes", "test")
    assert desk.prompts.get(project.id, "notes") == changed
    assert (changed.updated_at or 0) >= (created.updated_at or 0)
    with pytest.raises(InvalidRequest):
        desk.prompts.change(project.id, "notes", {"title": ""}, actor="test")


def test_built_in_templates_cannot_be_changed_or_deleted(desk: Desk, project: Project) -> None:
    with pytest.raises(TemplateBuiltIn):
        desk.prompts.change(project.id, "glossary", {"title": "x"}, actor="test")
    with pytest.raises(TemplateBuiltIn):
        desk.prompts.delete(project.id, "glossary", actor="test")


def test_changes_are_in_the_audit_log(desk: Desk, project: Project) -> None:
    desk.prompts.create(project.id, build(), actor="test")
    desk.prompts.change(project.id, "notes", {"title": "New"}, actor="test")
    desk.prompts.delete(project.id, "notes", actor="test")
    entries = audit_log.list_entries(desk.database, project.id)
    actions = [entry["action"] for entry in entries if entry["subject"] == "notes"]
    assert actions == ["template.deleted", "template.changed", "template.created"]


def test_number_of_templates_is_limited(desk: Desk, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MAX_TEMPLATES", 2)
    for name in ("a", "b"):
        desk.prompts.create(project.id, build(name), actor="test")
    with pytest.raises(TooManyTemplates):
        desk.prompts.create(project.id, build("c"), actor="test")


def test_templates_are_deleted_with_their_project(desk: Desk, project: Project) -> None:
    desk.prompts.create(project.id, build(), actor="test")
    desk.delete_project(project, actor="test")
    with pytest.raises(TemplateNotFound):
        desk.prompts.get(project.id, "notes")

"""The prompt templates of a project: those that people created, and the built-in ones of every project."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.errors import Conflict, NotFound
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.prompts.tables import prompt_templates
from copydesk.prompts.template import (
    NAME_PATTERN,
    TemplateText,
    build_template,
    field_from_json,
    field_to_json,
    match_fields,
)

MAX_TEMPLATES = 100


class TemplateNotFound(NotFound):
    code = "template_not_found"
    message = "There is no such prompt template."


class TemplateExists(Conflict):
    code = "template_exists"
    message = "There is a template with this name already. Choose another name."


class TemplateBuiltIn(Conflict):
    code = "template_builtin"
    message = "Built-in templates cannot be changed or deleted. Copy this one under another name."


class TooManyTemplates(Conflict):
    code = "too_many_templates"
    message = f"A project can have {MAX_TEMPLATES} templates of its own. Delete one before you create another."


@dataclass(frozen=True)
class PromptTemplate(TemplateText):
    is_builtin: bool = False
    created_at: int | None = None
    created_by: str = ""
    updated_at: int | None = None


TEXT_FIELDS = tuple(field.name for field in fields(TemplateText))


class PromptLibrary:
    def __init__(self, database: Database) -> None:
        self.database = database

    def list_for_project(self, project_id: str) -> list[PromptTemplate]:
        """Returns the project's own templates, ordered by title, and then the built-in ones."""
        query = select(prompt_templates).where(prompt_templates.c.project_id == project_id)
        with self.database.read() as tx:
            own = [_template_from_row(row) for row in tx.execute(query)]
        return [*sorted(own, key=lambda each: (each.title.casefold(), each.name)), *load_builtin().values()]

    def get(self, project_id: str, name: str) -> PromptTemplate:
        if name in load_builtin():
            return load_builtin()[name]
        if not NAME_PATTERN.fullmatch(name):
            raise TemplateNotFound
        with self.database.read() as tx:
            row = tx.execute(select(prompt_templates).where(_is_template(project_id, name))).first()
        if row is None:
            raise TemplateNotFound
        return _template_from_row(row)

    def create(self, project_id: str, text: TemplateText, *, actor: str) -> PromptTemplate:
        if text.name in load_builtin():
            raise TemplateExists("This is the name of a built-in template. Choose another name.")
        now = clock.now()
        record: dict[str, Any] = {"created_at": now, "created_by": actor, "updated_at": now}
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                of_project = prompt_templates.c.project_id == project_id
                count = tx.execute(select(func.count()).select_from(prompt_templates).where(of_project)).scalar_one()
                if count >= MAX_TEMPLATES:
                    raise TooManyTemplates
                tx.execute(insert(prompt_templates).values(project_id=project_id, **_text_to_row(text), **record))
                audit_log.record(tx, project_id, actor, "template.created", text.name, title=text.title)
        except IntegrityError:
            raise TemplateExists from None
        return PromptTemplate(**{name: getattr(text, name) for name in TEXT_FIELDS}, **record)

    def change(self, project_id: str, name: str, changes: Mapping[str, Any], *, actor: str) -> PromptTemplate:
        """Changes the title, description, prompt or fields. A new prompt without fields keeps those it uses."""
        if name in load_builtin():
            raise TemplateBuiltIn
        if not changes:
            return self.get(project_id, name)
        with self.database.write() as tx:
            query = select(prompt_templates).where(_is_template(project_id, name))
            row = tx.execute(query.with_for_update()).first()
            if row is None:
                raise TemplateNotFound
            old = _template_from_row(row)
            values = {**{each: getattr(old, each) for each in TEXT_FIELDS}, **changes}
            if "prompt" in changes and "fields" not in changes:
                values["fields"] = match_fields(values["prompt"], old.fields)
            text = build_template(**values)
            now = clock.now()
            tx.execute(
                update(prompt_templates)
                .where(_is_template(project_id, name))
                .values(**_text_to_row(text), updated_at=now)
            )
            details = {"title": text.title, "fields": sorted(changes)}
            audit_log.record(tx, project_id, actor, "template.changed", name, **details)
        return replace(old, **vars(text), updated_at=now)

    def delete(self, project_id: str, name: str, *, actor: str) -> None:
        if name in load_builtin():
            raise TemplateBuiltIn
        with self.database.write() as tx:
            if not tx.execute(delete(prompt_templates).where(_is_template(project_id, name))).rowcount:
                raise TemplateNotFound
            audit_log.record(tx, project_id, actor, "template.deleted", name)


@cache
def load_builtin() -> dict[str, PromptTemplate]:
    """Returns the built-in templates by name, in the order of their file."""
    tables = tomllib.loads(files("copydesk.prompts").joinpath("builtin.toml").read_text("utf-8"))
    return {
        name: PromptTemplate(
            **vars(
                build_template(
                    name,
                    table["title"],
                    table["description"],
                    table["prompt"],
                    [field_from_json({"name": field, **values}) for field, values in table["fields"].items()],
                )
            ),
            is_builtin=True,
        )
        for name, table in tables.items()
    }


def _is_template(project_id: str, name: str) -> Any:
    return (prompt_templates.c.project_id == project_id) & (prompt_templates.c.name == name)


def _text_to_row(text: TemplateText) -> dict[str, Any]:
    row = {name: getattr(text, name) for name in TEXT_FIELDS}
    return {**row, "fields": [field_to_json(field) for field in text.fields]}


def _template_from_row(row: Row[Any]) -> PromptTemplate:
    values = {name: row._mapping[name] for name in (*TEXT_FIELDS, "created_at", "created_by", "updated_at")}
    return PromptTemplate(**{**values, "fields": tuple(field_from_json(field) for field in values["fields"])})

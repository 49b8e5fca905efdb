"""A project's settings as fields of forms: what each is called, what it is for, what it holds."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from copydesk.core.projects.collection_options import NON_HUMAN_CLASSES, CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import CHANGEABLE_FIELDS, Project
from copydesk.web.dashboard.auth.form_data import FormData

PROJECT_FIELD_HELP = {
    "name": "What people call the project.",
    "ref": "The branch that jobs start from, and that pull requests go to.",
    "root": "The folder that holds the documentation; empty when it is the whole repository.",
    "model": "The model that does this project's jobs; empty for the service's own.",
    "token_env": "The environment variable of the server that holds the repository's token, before the sealed one. "
    "Only who runs the server can name it; here it can be taken away.",
}
FIELD_LABELS = {
    "ref": "Branch",
    "root": "Documentation folder",
    "token_env": "Token variable",
    "ai_classes": "Classes that count as AI",
    "on_findings": "When faults remain",
    "check_minutes": "Minutes for the check command",
    "raw_days": "Days to keep single views",
    "feedback_days": "Days to keep feedback",
    "do_not_track": "Honour Do Not Track",
    "app_id": "GitHub App id",
    "privacy": "How long a visitor is recognised",
    "draft": "Open as drafts",
    "sign_off": "Sign off commits",
}
REQUIRED_FIELDS = ("name", "ref", "branch_prefix", "author_name", "author_email", "mention", "check_minutes")
FORGES_BY_FIELD = {"app_id": ("github",), "mention": ("github", "gitlab", "gitea", "forgejo")}


@dataclass(frozen=True)
class SettingGroup:
    id: str
    title: str
    names: tuple[str, ...]

    def build_fields(
        self, project: Project, typed: Mapping[str, str], faults: Mapping[str, str]
    ) -> "list[SettingField]":
        """As the project has them, or as somebody just typed them, with what is wrong."""
        current = format_values(project)
        return [
            build_field(name, current[name], typed.get(name, current[name]), faults.get(name, ""))
            for name in self.visible_names(project)
        ]

    def visible_names(self, project: Project) -> list[str]:
        names = [name for name in self.names if project.forge in FORGES_BY_FIELD.get(name, (project.forge,))]
        return [name for name in names if name != "token_env" or project.token_env]

    def read_form_values(self, project: Project, form: FormData) -> dict[str, str]:
        """What the form says of these fields."""
        return {name: _read_sent_value(name, form) for name in self.visible_names(project)}


SETTING_GROUPS = (
    SettingGroup("project", "Project", ("name", "ref", "root", "model", "token_env")),
    SettingGroup(
        "pulls",
        "Pull requests",
        ("branch_prefix", "draft", "labels", "reviewers", "on_findings", "allowed_paths", "mention", "app_id"),
    ),
    SettingGroup("commits", "Commits", ("author_name", "author_email", "sign_off", "co_authors")),
    SettingGroup("checks", "Checks", ("required_fields", "ignored_checks", "check_command", "check_minutes")),
    SettingGroup("collecting", "Collecting views", ("origins", "base_path", "kept_parameters", "ai_classes")),
    SettingGroup("privacy", "Privacy", ("privacy", "do_not_track", "raw_days", "feedback_days")),
)


@dataclass(frozen=True)
class SettingField:
    name: str
    label: str
    help: str
    kind: str
    """How it is shown: text, tick, choice, ticks, model or given."""
    was: str
    """What the project holds; the form brings it back, so that only what was changed on the page is."""
    value: str
    options: tuple[str, ...] = ()
    fault: str = ""
    needed: bool = False

    @property
    def ticked(self) -> list[str]:
        return self.value.split(", ")


def build_field(name: str, current: str, value: str, fault: str) -> SettingField:
    kind, options = _choose_input(name)
    help_text = PROJECT_FIELD_HELP.get(name) or _read_help()[name].replace("`", "")
    if kind == "words":
        kind, help_text = "text", f"{help_text} Commas between several."
    label = FIELD_LABELS.get(name, name.replace("_", " ").capitalize())
    return SettingField(name, label, help_text, kind, current, value, options, fault, name in REQUIRED_FIELDS)


def format_values(project: Project) -> dict[str, str]:
    """Everything that can be changed, as a person would type it."""
    project_values = {name: getattr(project, name) for name in CHANGEABLE_FIELDS}
    all_values = {**project_values, **project.policy.model_dump(), **project.collecting.model_dump()}
    return {name: _format_value(value) for name, value in all_values.items()}


@cache
def _read_help() -> dict[str, str]:
    """Returns the docstring below each field of the policy and of the collecting options, by the field's name."""
    help_by_name = {}
    for model in (Policy, CollectionOptions):
        (definition,) = ast.parse(getsource(model)).body
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    help_by_name[name] = cleandoc(text)
    return help_by_name


def _choose_input(name: str) -> tuple[str, tuple[str, ...]]:
    if name in CHANGEABLE_FIELDS:
        return {"model": "model", "token_env": "given"}.get(name, "text"), ()
    if name == "ai_classes":
        return "ticks", NON_HUMAN_CLASSES
    annotation = {**Policy.model_fields, **CollectionOptions.model_fields}[name].annotation
    if annotation is bool:
        return "tick", ()
    if get_origin(annotation) is Literal:
        return "choice", get_args(annotation)
    return "words" if get_origin(annotation) is tuple else "text", ()


def _read_sent_value(name: str, form: FormData) -> str:
    kind = _choose_input(name)[0]
    if kind == "tick":
        return _format_value(name in form)
    return ", ".join(sorted(form.get_all(name))) if kind == "ticks" else form.get(name).strip()


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, tuple | list) else str(value)

"""The project settings as form fields, with label, help text and value."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from copydesk.core.projects.collection_options import NON_HUMAN_CLASSES, CollectionOptions
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.privacy_choices import PRIVACY_CHANGE_NOTE, PRIVACY_CHOICES, PRIVACY_INTRODUCTION
from copydesk.core.projects.projects import CHANGEABLE_FIELDS, Project
from copydesk.web.dashboard.auth.form_data import FormData

FIELD_HELP = {
    "name": "Shown in the dashboard.",
    "ref": "The branch that jobs start from and that pull requests go to.",
    "root": "The documentation folder. Leave empty for the repository root.",
    "model": "The model that runs this project's jobs. Leave empty for the server's default.",
    "token_env": "The server's environment variable with the repository's token. It is used before the stored one. "
    "It can only be set with copydesk project set; here you can remove it.",
    "privacy": f"{PRIVACY_INTRODUCTION} {PRIVACY_CHANGE_NOTE}",
}
"""The help of fields whose docstring does not suffice."""
FIELD_LABELS = {
    "ref": "Branch",
    "root": "Documentation folder",
    "token_env": "Token variable",
    "ai_classes": "Classes that count as AI",
    "on_check_failure": "When checks still fail",
    "check_minutes": "Check command timeout (minutes)",
    "raw_retention_days": "Keep raw page views for (days)",
    "feedback_days": "Keep feedback for (days)",
    "search_days": "Keep searches for (days)",
    "assistant_days": "Keep questions for (days)",
    "do_not_track": "Honor Do Not Track",
    "api_url": "API URL",
    "app_id": "GitHub App ID",
    "privacy": "How long a visitor is recognized",
    "draft": "Open as drafts",
    "sign_off": "Sign off commits",
    "credit_requesters": "Credit people who ask",
    "automation_files": "Read automations from files",
}
REQUIRED_FIELDS = ("name", "ref", "branch_prefix", "author_name", "author_email", "mention", "check_minutes")
REMOTE_FORGES = ("github", "gitlab", "gitea", "forgejo")
FORGES_BY_FIELD = {"app_id": ("github",), "mention": REMOTE_FORGES, "api_url": REMOTE_FORGES}


@dataclass(frozen=True)
class SettingGroup:
    id: str
    title: str
    names: tuple[str, ...]

    def build_fields(
        self, project: Project, typed: Mapping[str, str], faults: Mapping[str, str]
    ) -> "list[SettingField]":
        """Returns the fields with the typed or else the current values, and with their errors."""
        current = format_values(project)
        return [
            build_field(name, current[name], typed.get(name, current[name]), faults.get(name, ""))
            for name in self.visible_names(project)
        ]

    def visible_names(self, project: Project) -> list[str]:
        names = [name for name in self.names if project.forge in FORGES_BY_FIELD.get(name, (project.forge,))]
        return [name for name in names if name != "token_env" or project.token_env]

    def read_form_values(self, project: Project, form: FormData) -> dict[str, str]:
        """Returns the submitted values of this group's fields."""
        return {name: _read_sent_value(name, form) for name in self.visible_names(project)}


SETTING_GROUPS = (
    SettingGroup("project", "Project", ("name", "ref", "root", "model", "token_env")),
    SettingGroup(
        "pulls",
        "Pull requests",
        (
            *("branch_prefix", "draft", "labels", "reviewers", "on_check_failure", "unprotected_paths"),
            *("max_open_pull_requests", "mention", "api_url", "app_id"),
        ),
    ),
    SettingGroup("automations", "Automations", ("automation_files",)),
    SettingGroup("commits", "Commits", ("author_name", "author_email", "sign_off", "co_authors", "credit_requesters")),
    SettingGroup(
        "checks", "Checks", ("required_fields", "ignored_checks", "check_command", "check_minutes", "review_model")
    ),
    SettingGroup("collecting", "Page views", ("origins", "base_path", "page_parameters", "ai_classes")),
    SettingGroup(
        "privacy",
        "Privacy",
        ("privacy", "do_not_track", "raw_retention_days", "feedback_days", "search_days", "assistant_days"),
    ),
)


@dataclass(frozen=True)
class SettingField:
    name: str
    label: str
    help: str
    kind: str
    """The kind of input: text, tick, choice, ticks, privacy, model or given (can only be removed)."""
    was: str
    """The current value. The form sends it back, so that only fields that were changed on the page are changed."""
    value: str
    options: tuple[str, ...] = ()
    fault: str = ""
    needed: bool = False

    @property
    def ticked(self) -> list[str]:
        return self.value.split(", ")


def build_field(name: str, current: str, value: str, fault: str) -> SettingField:
    kind, options = _choose_input(name)
    help_text = FIELD_HELP.get(name) or _read_help()[name].replace("`", "")
    if kind == "words":
        kind = "text"
        help_text = f"{help_text} Separate with commas."
    label = FIELD_LABELS.get(name, name.replace("_", " ").capitalize())
    return SettingField(name, label, help_text, kind, current, value, options, fault, name in REQUIRED_FIELDS)


def format_values(project: Project) -> dict[str, str]:
    """Returns all changeable settings as text for the inputs."""
    project_values = {name: getattr(project, name) for name in CHANGEABLE_FIELDS}
    all_values = {**project_values, **project.policy.model_dump(), **project.collecting.model_dump()}
    return {name: _format_value(value) for name, value in all_values.items()}


@cache
def _read_help() -> dict[str, str]:
    """Returns the docstring below each field of the policy and of the collection options, by the field's name."""
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
    if name == "privacy":
        return "privacy", tuple(choice.name for choice in PRIVACY_CHOICES)
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

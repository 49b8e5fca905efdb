"""A project's settings as fields of forms: what each is called, what it is for, what it holds."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from copydesk.core.projects.collection_options import CLASSES, Collecting
from copydesk.core.projects.policy import Policy
from copydesk.core.projects.projects import CHANGEABLE, Project
from copydesk.web.dashboard.auth.form_data import Form

OWN = {
    "name": "What people call the project.",
    "ref": "The branch that jobs start from, and that pull requests go to.",
    "root": "The folder that holds the documentation; empty when it is the whole repository.",
    "model": "The model that does this project's jobs; empty for the service's own.",
    "token_env": "The environment variable of the server that holds the repository's token, before the sealed one. "
    "Only who runs the server can name it; here it can be taken away.",
}
LABELS = {
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
ALWAYS_TAKEN = ("name", "ref", "branch_prefix", "author_name", "author_email", "mention", "check_minutes")
ONLY_ON = {"app_id": ("github",), "mention": ("github", "gitlab", "gitea", "forgejo")}


@dataclass(frozen=True)
class Group:
    id: str
    title: str
    names: tuple[str, ...]

    def fields(self, project: Project, typed: Mapping[str, str], faults: Mapping[str, str]) -> "list[Field]":
        """As the project has them, or as somebody just typed them, with what is wrong."""
        was = values_of(project)
        return [
            field(name, was[name], typed.get(name, was[name]), faults.get(name, "")) for name in self.shown(project)
        ]

    def shown(self, project: Project) -> list[str]:
        names = [name for name in self.names if project.forge in ONLY_ON.get(name, (project.forge,))]
        return [name for name in names if name != "token_env" or project.token_env]

    def typed(self, project: Project, form: Form) -> dict[str, str]:
        """What the form says of these fields."""
        return {name: _sent(name, form) for name in self.shown(project)}


GROUPS = (
    Group("project", "Project", ("name", "ref", "root", "model", "token_env")),
    Group(
        "pulls",
        "Pull requests",
        ("branch_prefix", "draft", "labels", "reviewers", "on_findings", "allowed_paths", "mention", "app_id"),
    ),
    Group("commits", "Commits", ("author_name", "author_email", "sign_off", "co_authors")),
    Group("checks", "Checks", ("required_fields", "ignored_checks", "check_command", "check_minutes")),
    Group("collecting", "Collecting views", ("origins", "base_path", "kept_parameters", "ai_classes")),
    Group("privacy", "Privacy", ("privacy", "do_not_track", "raw_days", "feedback_days")),
)


@dataclass(frozen=True)
class Field:
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


def field(name: str, was: str, value: str, fault: str) -> Field:
    kind, options = _shape(name)
    about = OWN.get(name) or _read_help()[name].replace("`", "")
    if kind == "words":
        kind, about = "text", f"{about} Commas between several."
    label = LABELS.get(name, name.replace("_", " ").capitalize())
    return Field(name, label, about, kind, was, value, options, fault, name in ALWAYS_TAKEN)


def values_of(project: Project) -> dict[str, str]:
    """Everything that can be changed, as a person would type it."""
    own = {name: getattr(project, name) for name in CHANGEABLE}
    chosen = {**own, **project.policy.model_dump(), **project.collecting.model_dump()}
    return {name: _text(value) for name, value in chosen.items()}


@cache
def _read_help() -> dict[str, str]:
    """Returns the docstring below each field of the policy and of the collecting options, by the field's name."""
    help_by_name = {}
    for model in (Policy, Collecting):
        (definition,) = ast.parse(getsource(model)).body
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    help_by_name[name] = cleandoc(text)
    return help_by_name


def _shape(name: str) -> tuple[str, tuple[str, ...]]:
    if name in CHANGEABLE:
        return {"model": "model", "token_env": "given"}.get(name, "text"), ()
    if name == "ai_classes":
        return "ticks", CLASSES
    annotation = {**Policy.model_fields, **Collecting.model_fields}[name].annotation
    if annotation is bool:
        return "tick", ()
    if get_origin(annotation) is Literal:
        return "choice", get_args(annotation)
    return "words" if get_origin(annotation) is tuple else "text", ()


def _sent(name: str, form: Form) -> str:
    kind = _shape(name)[0]
    if kind == "tick":
        return _text(name in form)
    return ", ".join(sorted(form.all(name))) if kind == "ticks" else form.get(name).strip()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, tuple | list) else str(value)

"""Converts between the definition of an automation and the fields of its form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from copydesk.automations.definition import AutomationDefinition
from copydesk.automations.kinds import KINDS, Kind
from copydesk.core.errors import ErrorDetail
from copydesk.web.dashboard.auth.form_data import FormData

EVERY_WEEK = {"cron": "0 6 * * 1", "timezone": "UTC"}
TRIGGER_LABELS = {
    "schedule": "By a schedule",
    "code_change": "When code changes",
    "content_update": "When the documentation changes",
    "release": "When there is a new release",
    "api": "Only when started here or through the API",
}
MODE_LABELS = {
    "pull_request": "Open a pull request. A person reviews and merges it.",
    "merge": "Push to the branch without a review, if the checks find nothing and the change stays within the paths "
    "and lines below. Any other change becomes a pull request.",
}
GROUPING_LABELS = {
    "append": "Continue the open pull request of earlier runs.",
    "new": "Open a new pull request for each run.",
}
CONTEXT_LABELS = {
    "all": "All context repositories of the project, also later ones.",
    "some": "Only those that are ticked below; none if none is.",
}
CHOICES = ("kind", "trigger", "mode", "grouping", "context_scope")
TEXT_FIELDS = (
    *("name", "prompt", "cron", "timezone", "code_paths", "content_paths", "tags", "model"),
    *("reviewers", "daily_limit", "monthly_cost_usd", "paths", "max_lines"),
)
LIST_FIELDS = ("code_repositories", "release_repositories", "context")
TICKS = ("draft", "enabled")
INPUTS_BY_FIELD = {
    "dailyLimit": "daily_limit",
    "monthlyCostUsd": "monthly_cost_usd",
    "maxLines": "max_lines",
}
INPUTS_BY_TRIGGER_FIELD = {
    "schedule": {"": "cron", "cron": "cron", "timezone": "timezone"},
    "code_change": {"repositories": "code_repositories", "paths": "code_paths"},
    "content_update": {"paths": "content_paths"},
    "release": {"repositories": "release_repositories", "tags": "tags"},
}
PLAIN_FAULTS = {
    "name": "Enter a name of at most 100 characters.",
    "reviewers": "Enter at most 15 user names of the forge, or the word authors.",
    "daily_limit": "Enter a whole number from 1 to 1,000.",
    "monthly_cost_usd": "Enter an amount in US dollars from 0.01 to 1,000,000, or nothing.",
    "max_lines": "Enter a whole number from 1 to 10,000.",
    "tags": "Enter a pattern of at most 100 characters.",
    "prompt": "Enter at most 24,000 characters.",
    "cron": "Enter five fields, such as 0 6 * * 1 for Mondays at 06:00.",
    "timezone": "Enter the name of a time zone, such as Europe/Berlin.",
    "code_repositories": "Choose at most 10 context repositories of this project.",
    "release_repositories": "Choose at most 10 context repositories of this project.",
    "context": "Choose at most 10 context repositories of this project.",
    "paths": "Enter at most 50 patterns.",
    "code_paths": "Enter at most 50 patterns.",
    "content_paths": "Enter at most 50 patterns.",
    "mode": "Choose one of the options.",
    "grouping": "Choose one of the options.",
    "kind": "Choose one of the kinds.",
    "trigger": "Choose one of the options.",
}


@dataclass(frozen=True)
class FormValues:
    """What the inputs of the form contain."""

    texts: Mapping[str, str]
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ticks: frozenset[str] = frozenset({"enabled"})

    def get(self, name: str) -> str:
        return self.texts.get(name, "")

    def is_ticked(self, name: str, value: str) -> bool:
        return value in self.lists.get(name, ())

    def list_repositories(self, context_names: Sequence[str]) -> list[str]:
        """Returns the context repositories to offer, with those that are selected but were removed."""
        selected = {name for names in self.lists.values() for name in names}
        return [*context_names, *sorted(selected - set(context_names))]

    def to_definition(self) -> dict[str, Any]:
        """Returns the fields of the definition, by their names in the API. Invalid text stays as it is."""
        names = None if self.get("context_scope") == "all" else list(self.lists.get("context", ()))
        return {
            **({"context": names} if self.get("context_scope") else {}),
            "name": self.get("name"),
            "kind": self.get("kind"),
            "prompt": self.get("prompt"),
            "trigger": self._to_trigger(),
            "mode": self.get("mode"),
            "grouping": self.get("grouping"),
            "model": self.get("model") or None,
            "draft": "draft" in self.ticks,
            "reviewers": self.get("reviewers").replace(",", " ").split(),
            "dailyLimit": _parse_number(self.get("daily_limit"), int, 20),
            "monthlyCostUsd": _parse_number(self.get("monthly_cost_usd"), float, None),
            "paths": _split_lines(self.get("paths")),
            "maxLines": _parse_number(self.get("max_lines"), int, 100),
        }

    def _to_trigger(self) -> dict[str, Any]:
        """Returns the trigger of the selected type. The inputs of the other types are not used."""
        trigger_type = self.get("trigger")
        fields: dict[str, dict[str, Any]] = {
            "schedule": {"cron": " ".join(self.get("cron").split()), "timezone": self.get("timezone") or "UTC"},
            "code_change": {
                "repositories": list(self.lists.get("code_repositories", ())),
                "paths": _split_lines(self.get("code_paths")),
            },
            "content_update": {"paths": _split_lines(self.get("content_paths"))},
            "release": {
                "repositories": list(self.lists.get("release_repositories", ())),
                "tags": self.get("tags") or None,
            },
        }
        return {"type": trigger_type, **fields.get(trigger_type, {})}


def values_from_form(form: FormData) -> FormValues:
    texts = {name: form.get(name).strip() for name in (*TEXT_FIELDS, *CHOICES)}
    return FormValues(
        texts,
        {name: list(dict.fromkeys(form.get_all(name))) for name in LIST_FIELDS},
        frozenset(name for name in TICKS if name in form),
    )


def values_for_kind(kind: Kind) -> FormValues:
    """Returns the defaults of a kind for a new automation."""
    defaults = KINDS[kind]
    fields: dict[str, Any] = {"name": "Custom", "prompt": "-", "trigger": {"type": "schedule", **EVERY_WEEK}}
    definition = AutomationDefinition.model_validate({"kind": kind, **(fields if defaults.trigger is None else {})})
    values = values_from_definition(definition)
    return values if kind is not Kind.CUSTOM else FormValues({**values.texts, "name": "", "prompt": ""})


def values_from_definition(definition: AutomationDefinition) -> FormValues:
    trigger = definition.trigger.model_dump(mode="json")
    trigger_type = trigger["type"]
    inputs = {
        INPUTS_BY_TRIGGER_FIELD[trigger_type][name]: value
        for name, value in trigger.items()
        if name in INPUTS_BY_TRIGGER_FIELD.get(trigger_type, {})
    }
    cost = definition.monthly_cost_usd
    return FormValues(
        {
            **EVERY_WEEK,
            **{name: _to_text(value) for name, value in inputs.items() if name not in LIST_FIELDS},
            "name": definition.name,
            "kind": definition.kind,
            "prompt": definition.prompt,
            "trigger": trigger_type,
            "mode": definition.mode,
            "grouping": definition.grouping,
            "context_scope": "all" if definition.context is None else "some",
            "model": definition.model or "",
            "reviewers": ", ".join(definition.reviewers),
            "daily_limit": str(definition.daily_limit),
            "monthly_cost_usd": "" if cost is None else f"{cost:.10g}",
            "paths": "\n".join(definition.paths),
            "max_lines": str(definition.max_lines),
        },
        {**{name: value for name, value in inputs.items() if name in LIST_FIELDS}, "context": definition.context or []},
        frozenset(name for name in TICKS if getattr(definition, name)),
    )


def faults_by_input(details: Sequence[ErrorDetail], trigger_type: str) -> dict[str, str]:
    """Returns the first error of each input, for a form with this type of trigger."""
    faults: dict[str, str] = {}
    for detail in details:
        name, _, rest = detail.field.partition(".")
        input_name = INPUTS_BY_FIELD.get(name, name)
        if name == "trigger":
            known = INPUTS_BY_TRIGGER_FIELD.get(trigger_type, {})
            input_name = known.get(rest.partition(".")[0], "trigger")
            if input_name == "cron" and "time zone" in detail.message:  # a schedule is validated as a whole
                input_name = "timezone"
        faults.setdefault(input_name, _describe_fault(input_name, detail.message))
    return faults


def _describe_fault(input_name: str, message: str) -> str:
    """Replaces a message in the validation's own words by one that says what to enter."""
    if message.startswith(("String ", "Input ", "List ")) or not message:
        return PLAIN_FAULTS.get(input_name, message)
    return f"{message[:1].upper()}{message[1:]}"


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _to_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(value)
    return "" if value is None else str(value)


def _parse_number(text: str, parse: type[int] | type[float], default: Any) -> Any:
    """Returns the number, the default for empty text, or the text itself, which the validation refuses."""
    try:
        return parse(text) if text else default
    except ValueError:
        return text

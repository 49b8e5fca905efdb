"""What the audit log says, in plain words: 'Ada revoked the key CI'."""

from collections.abc import Mapping
from string import Formatter
from typing import Any

ACTION_SENTENCES = {
    "project.created": "created the project {name}",
    "project.changed": "changed the project’s {fields}",
    "key.created": "made the key {name}",
    "key.revoked": "revoked the key {name}",
    "secret.set": "sealed the secret {subject}",
    "secret.removed": "removed the secret {subject}",
    "pull.merged": "merged the pull request #{subject}",
    "pull.closed": "closed the pull request #{subject}",
    "analytics.forgotten": "deleted all views, numbers and feedback",
    "analytics.feedback_forgotten": "deleted {entries} entries of feedback",
    "analytics.visitor_forgotten": "deleted a visitor’s traces",
    "person.invited": "invited {email} as {role}",
    "person.invitation_withdrawn": "withdrew the link of {email}",
    "person.reset": "made a link for {email} to set a new password",
    "person.joined": "joined as {role}",
    "person.linked": "signed in with {issuer} for the first time",
    "person.signed_in": "signed in",
    "person.session_ended": "ended a session of their own",
    "person.sessions_ended": "ended {sessions} other sessions of their own",
    "person.password_changed": "set a new password",
    "person.role_changed": "made {email} {role}, who was {before}",
    "person.removed": "removed {email}",
}
CLI_ACTOR_PREFIX = "cli:"


def describe_action(entry: Mapping[str, Any], key_names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What was done, and the details that the sentence leaves out. `names` are those of keys, by id."""
    details = {name: _format_detail(value) for name, value in entry["details"].items()}
    subject = entry["subject"]
    values = {"subject": subject, "name": key_names.get(subject, subject), **details}
    template = ACTION_SENTENCES.get(entry["action"])
    if template is None:
        return " ".join(part for part in (entry["action"], subject) if part), details
    used_names = {name for _, name, _, _ in Formatter().parse(template) if name}
    sentence = template.format(**{name: values.get(name, subject) for name in used_names})
    return sentence, {name: value for name, value in details.items() if name not in used_names}


def describe_actor(actor: str, person_names: Mapping[str, str]) -> str:
    """By name where there is an account; `names` are those of people, by e-mail address."""
    if actor.startswith(CLI_ACTOR_PREFIX):
        return f"{actor.removeprefix(CLI_ACTOR_PREFIX)}, by command line"
    return person_names.get(actor, actor)


def _format_detail(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

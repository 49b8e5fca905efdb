"""What the audit log says, in plain words: 'Ada revoked the key CI'."""

from collections.abc import Mapping
from string import Formatter
from typing import Any

DEEDS = {
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
COMMAND_LINE = "cli:"


def deed(entry: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What was done, and the details that the sentence leaves out. `names` are those of keys, by id."""
    details = {name: _text(value) for name, value in entry["details"].items()}
    subject = entry["subject"]
    known = {"subject": subject, "name": names.get(subject, subject), **details}
    words = DEEDS.get(entry["action"])
    if words is None:
        return " ".join(part for part in (entry["action"], subject) if part), details
    used = {name for _, name, _, _ in Formatter().parse(words) if name}
    said = words.format(**{name: known.get(name, subject) for name in used})
    return said, {name: value for name, value in details.items() if name not in used}


def doer(actor: str, names: Mapping[str, str]) -> str:
    """By name where there is an account; `names` are those of people, by e-mail address."""
    if actor.startswith(COMMAND_LINE):
        return f"{actor.removeprefix(COMMAND_LINE)}, by command line"
    return names.get(actor, actor)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

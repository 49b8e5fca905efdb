"""Describes audit entries in sentences, such as 'Ada revoked the key CI'."""

from collections.abc import Mapping
from string import Formatter
from typing import Any

from copydesk.core.text.plurals import pluralize
from copydesk.web.responses.html import format_actor

ACTION_SENTENCES = {
    "project.created": "created the project {name}",
    "project.moved": "moved the project from {before} to {after}",
    "project.deleted": "deleted the project {name}",
    "project.purged": "deleted the last page views of the deleted project {subject}",
    "project.changed": "changed the project’s {fields}",
    "key.created": "created the key {name}",
    "key.revoked": "revoked the key {name}",
    "secret.set": "set the secret {subject}",
    "secret.removed": "removed the secret {subject}",
    "context.added": "added the context repository {subject}",
    "context.removed": "removed the context repository {subject}",
    "automation.created": "created the automation {name}",
    "automation.changed": "changed {fields} of the automation {name}",
    "automation.deleted": "deleted the automation {name}",
    "automation.run": "started a run of the automation {name}",
    "template.created": "created the prompt template {subject}",
    "template.changed": "changed {fields} of the prompt template {subject}",
    "template.deleted": "deleted the prompt template {subject}",
    "share.created": "created the link {name}, which shares {parts}",
    "share.revoked": "revoked the link {name}",
    "webhook.added": "added the webhook {subject} to {url}",
    "webhook.changed": "changed the webhook {subject}",
    "webhook.secret_rotated": "rotated the secret of the webhook {subject}",
    "webhook.tested": "sent a test to the webhook {subject}",
    "webhook.redelivered": "sent the delivery {delivery} to the webhook {subject} again",
    "webhook.gone": "disabled the webhook {subject}, because its receiver answered 410",
    "webhook.removed": "removed the webhook {subject} to {url}",
    "summary.scheduled": "set the time zone of the weekly summary to {timezone}",
    "summary.address_added": "added {email} to the weekly summary",
    "summary.address_removed": "removed {email} from the weekly summary",
    "summary.unsubscribed": "ended the subscription of {email} to the weekly summary",
    "pull.merged": "merged pull request #{subject}",
    "pull.closed": "closed pull request #{subject}",
    "pull.reopened": "reopened pull request #{subject}",
    "analytics.forgotten": "deleted all page views, counts, feedback, searches and questions",
    "analytics.feedback_forgotten": "deleted {entries}",
    "analytics.history_imported": "imported {days} of history from {source}",
    "analytics.history_removed": "removed {days} of imported history",
    "analytics.visitor_forgotten": "deleted the data of a visitor",
    "analytics.reclassified": "applied agent table {version} to {views}",
    "person.invited": "invited {email} as {role}",
    "person.invitation_withdrawn": "withdrew the link for {email}",
    "person.reset": "created a password link for {email}",
    "person.joined": "joined as {role}",
    "person.linked": "signed in with {issuer} for the first time",
    "person.signed_in": "signed in",
    "person.session_ended": "ended one of their sessions",
    "person.sessions_ended": "ended {sessions} of their other sessions",
    "person.password_changed": "set a new password",
    "person.role_changed": "changed the role of {email} from {before} to {role}",
    "person.removed": "removed {email}",
    "access.invited": "invited {email} to the project {subject} as {role}",
    "access.joined": "joined the project as {role}",
    "access.granted": "gave {email} access to the project as {role}",
    "access.changed": "changed the role of {email} in the project from {before} to {role}",
    "access.removed": "ended the access of {email} to the project",
}
COUNTED_NOUNS = {
    "days": ("day", "days"),
    "entries": ("feedback entry", "feedback entries"),
    "views": ("stored page view", "stored page views"),
}
"""The nouns of details that are numbers, by the name of the detail."""


def describe_action(entry: Mapping[str, Any], key_names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns a sentence without its subject, and the details that the sentence leaves out."""
    details = {name: _format_detail(value) for name, value in entry["details"].items()}
    subject = entry["subject"]
    counts = {
        name: pluralize(value, *COUNTED_NOUNS[name])
        for name, value in entry["details"].items()
        if name in COUNTED_NOUNS and isinstance(value, int)
    }
    values = {"subject": subject, "name": key_names.get(subject, subject), **details, **counts}
    template = ACTION_SENTENCES.get(entry["action"])
    if template is None:
        return " ".join(part for part in (entry["action"], subject) if part), details
    used_names = {name for _, name, _, _ in Formatter().parse(template) if name}
    sentence = template.format(**{name: values.get(name, subject) for name in used_names})
    sentence = sentence.removesuffix(" as none")  # the role of people who have access to single projects only
    return sentence, {name: value for name, value in details.items() if name not in used_names}


def describe_actor(actor: str, person_names: Mapping[str, str]) -> str:
    """Returns the name of the actor's account, or the actor itself if there is no such account."""
    return person_names.get(actor) or format_actor(actor)


def _format_detail(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

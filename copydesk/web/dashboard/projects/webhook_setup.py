"""Instructions for setting up the webhook on each forge: its fields and their values."""

from dataclasses import dataclass

from copydesk.core.projects.projects import Project

GITEA_FIELDS = (
    ("HTTP method", "POST"),
    ("Content type", "application/json"),
    ("Events", "Custom events: Push, Create, Release, Pull request, Pull request comments, Pull request reviews"),
)
FIELDS_BY_FORGE: dict[str, tuple[tuple[str, str], ...]] = {
    "github": (
        ("Content type", "application/json"),
        (
            "Events",
            "Pushes, Releases, Pull requests, Issue comments, Pull request reviews, Pull request review comments",
        ),
    ),
    "gitlab": (("Events", "Push events, Tag push events, Releases events, Merge request events, Comments"),),
    "gitea": GITEA_FIELDS,
    "forgejo": GITEA_FIELDS,
}
LABELS_BY_FORGE = {
    "github": ("GitHub", "Settings › Webhooks › Add webhook", "Payload URL", "Secret"),
    "gitlab": ("GitLab", "Settings › Webhooks › Add new webhook", "URL", "Secret token"),
    "gitea": ("Gitea", "Settings › Webhooks › Add webhook", "Target URL", "Secret"),
    "forgejo": ("Forgejo", "Settings › Webhooks › Add webhook", "Target URL", "Secret"),
}


@dataclass(frozen=True)
class WebhookInstructions:
    forge: str
    place: str
    address_field: str
    address: str
    secret_field: str
    fields: tuple[tuple[str, str], ...]


def build_webhook_instructions(project: Project, base_url: str) -> WebhookInstructions | None:
    """Returns None for projects whose forge sends no webhooks."""
    if project.forge not in FIELDS_BY_FORGE:
        return None
    forge, place, address_field, secret_field = LABELS_BY_FORGE[project.forge]
    address = f"{base_url}/webhooks/{project.id}"
    return WebhookInstructions(forge, place, address_field, address, secret_field, FIELDS_BY_FORGE[project.forge])

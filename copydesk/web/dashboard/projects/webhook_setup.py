"""How a forge is told to send its webhooks here: what to enter in which of its fields."""

from dataclasses import dataclass

from copydesk.core.projects.projects import Project

GITEA = (
    ("HTTP method", "POST"),
    ("Content type", "application/json"),
    ("Events", "Custom events: Pull request, Pull request comments, Pull request reviews"),
)
FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "github": (
        ("Content type", "application/json"),
        ("Events", "Pull requests, Issue comments, Pull request reviews, Pull request review comments"),
    ),
    "gitlab": (("Events", "Merge request events, Comments"),),
    "gitea": GITEA,
    "forgejo": GITEA,
}
PLACES = {
    "github": ("GitHub", "Settings › Webhooks › Add webhook", "Payload URL", "Secret"),
    "gitlab": ("GitLab", "Settings › Webhooks › Add new webhook", "URL", "Secret token"),
    "gitea": ("Gitea", "Settings › Webhooks › Add webhook", "Target URL", "Secret"),
    "forgejo": ("Forgejo", "Settings › Webhooks › Add webhook", "Target URL", "Secret"),
}


@dataclass(frozen=True)
class Hook:
    forge: str
    place: str
    address_field: str
    address: str
    secret_field: str
    fields: tuple[tuple[str, str], ...]


def hook_of(project: Project, base_url: str) -> Hook | None:
    """None for projects that are on no forge."""
    if project.forge not in FIELDS:
        return None
    forge, place, address_field, secret_field = PLACES[project.forge]
    address = f"{base_url}/webhooks/{project.id}"
    return Hook(forge, place, address_field, address, secret_field, FIELDS[project.forge])

"""The list of a project's sealed secrets on the settings page. Values are never shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import KNOWN_SECRETS

FORGES_BY_SECRET = {"app_key": ("github",), "webhook_secret": ("github", "gitlab", "gitea", "forgejo")}
SECRET_LABELS = {
    "forge_token": "Forge token",
    "app_key": "GitHub App key",
    "signing_key": "Signing key",
    "webhook_secret": "Webhook secret",
    "model_key_openai": "OpenAI key",
    "model_key_anthropic": "Anthropic key",
    "model_key_google": "Google key",
    "model_key_compatible": "OpenAI-compatible key",
}


@dataclass(frozen=True)
class SecretField:
    name: str
    label: str
    help: str
    set_at: int | None

    @property
    def has_lines(self) -> bool:
        return self.name in ("app_key", "signing_key")


def list_secret_fields(project: Project, sealed_at: Mapping[str, int]) -> list[SecretField]:
    """Returns the secrets that the project's forge can use, and those that are set."""
    return [
        SecretField(name, SECRET_LABELS[name], f"{description[0].upper()}{description[1:]}.", sealed_at.get(name))
        for name, description in KNOWN_SECRETS.items()
        if name in sealed_at or project.forge in FORGES_BY_SECRET.get(name, (project.forge,))
    ]

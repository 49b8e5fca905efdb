"""A project's sealed secrets: which there are, setting them anew, removing them. None is ever shown again."""

from collections.abc import Mapping
from dataclasses import dataclass

from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import NAMES

ONLY_FOR = {"app_key": ("github",), "webhook_secret": ("github", "gitlab", "gitea", "forgejo")}
LABELS = {
    "forge_token": "Forge token",
    "app_key": "GitHub App key",
    "webhook_secret": "Webhook secret",
    "model_key_openai": "OpenAI key",
    "model_key_anthropic": "Anthropic key",
    "model_key_google": "Google key",
    "model_key_compatible": "OpenAI-compatible key",
}


@dataclass(frozen=True)
class Secret:
    name: str
    label: str
    help: str
    set_at: int | None

    @property
    def has_lines(self) -> bool:
        return self.name == "app_key"


def shown_secrets(project: Project, sealed: Mapping[str, int]) -> list[Secret]:
    """Those that are of use to the project, and those that it has."""
    return [
        Secret(name, LABELS[name], f"{about[0].upper()}{about[1:]}.", sealed.get(name))
        for name, about in NAMES.items()
        if name in sealed or project.forge in ONLY_FOR.get(name, (project.forge,))
    ]

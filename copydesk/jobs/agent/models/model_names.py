"""Model names: the forms that a name may have, and the API key variable and SDK of each provider."""

import re

from copydesk.core.settings import BadSettings, Settings

API_KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openai-compatible": "COPYDESK_MODEL_KEY",
}
"""The environment variable that holds the key of each provider."""
SDK_MODULES = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai", "openai-compatible": "openai"}
"""The SDK module of each provider."""
NAME_FORMS = ("mechanic", *(f"{provider}:…" for provider in API_KEY_VARIABLES))

MODEL_NAME_PATTERN = rf"^(?:mechanic|(?:{'|'.join(API_KEY_VARIABLES)}):[!-~]{{1,180}})$"
"""The regular expression for a model name, in a form that the OpenAPI description can include."""


def is_model_name(name: str) -> bool:
    """Returns whether the name has one of the forms; only the provider knows whether such a model exists."""
    return re.fullmatch(MODEL_NAME_PATTERN, name) is not None


def check_model_names(settings: Settings) -> None:
    """Raises BadSettings if the settings name a model that does not exist."""
    for variable, name in (
        ("COPYDESK_MODEL", settings.model),
        *(("COPYDESK_MODELS", name) for name in settings.models),
        *(("COPYDESK_MODEL_ALIASES", name) for name in settings.models_by_alias.values()),
    ):
        if not is_model_name(name):
            raise BadSettings(f"{variable}: unknown model {name!r}. Use one of {', '.join(NAME_FORMS)}.")

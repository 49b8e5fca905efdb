"""The names of models: the forms that a name may have, and what each provider needs."""

import re

KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openai-compatible": "COPYDESK_MODEL_KEY",
}
"""The environment variable that holds the key of each provider."""
SDKS = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai", "openai-compatible": "openai"}
"""The module that talks to each provider."""
FORMS = ("mechanic", *(f"{provider}:…" for provider in KEYS))

NAME = rf"^(?:mechanic|(?:{'|'.join(KEYS)}):[!-~]{{1,180}})$"
"""The regular expression of a model's name, in a form that the API's description can carry."""


def known_model(name: str) -> bool:
    """Returns whether the name has one of the forms; only the provider knows whether such a model exists."""
    return re.fullmatch(NAME, name) is not None

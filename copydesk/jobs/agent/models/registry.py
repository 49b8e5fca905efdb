"""Creates the models that a job can use, by name, and checks whether they are configured."""

import os
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec

from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.models.language_model import DEFAULT_WINDOW_TOKENS, LanguageModel
from copydesk.jobs.agent.models.model_names import API_KEY_VARIABLES, NAME_FORMS, SDK_MODULES, is_model_name
from copydesk.jobs.agent.models.providers import create_client


class ModelUnavailable(Exception):
    """This model cannot be used here. The message says what is missing."""


def check_configuration(
    name: str, url: str | None = None, keys: Mapping[str, str] | None = None
) -> tuple[bool, str | None]:
    """Returns whether everything the model needs is set, and otherwise what is missing. Makes no network request."""
    missing = _missing_requirement(name, url, keys or {})
    return missing is None, missing


def create_model(
    name: str,
    *,
    url: str | None = None,
    keys: Mapping[str, str] | None = None,
    window_tokens: int = DEFAULT_WINDOW_TOKENS,
    base_urls: Mapping[str, str] | None = None,
) -> Model:
    """Creates the model of this name. Raises ModelUnavailable when its URL, its key or the extra is missing.

    `url` is the URL of an OpenAI-compatible server. `keys` are a project's own keys by provider (openai, anthropic,
    google, compatible); they take precedence over the environment. `window` is the maximum number of tokens in a
    request. `addresses` are URLs by provider that replace the default ones.
    """
    if missing := _missing_requirement(name, url, keys or {}):
        raise ModelUnavailable(missing)
    if name == "mechanic":
        from copydesk.jobs.agent.mechanic import Mechanic

        return Mechanic()
    provider = name.partition(":")[0]
    api_key = _find_api_key(provider, keys or {})
    base_url = url if provider == "openai-compatible" else (base_urls or {}).get(provider)
    return LanguageModel(name, partial(create_client, name, base_url, api_key), api_key, window_tokens=window_tokens)


def _missing_requirement(name: str, url: str | None, keys: Mapping[str, str]) -> str | None:
    if not is_model_name(name):
        return f"There is no model {name!r}. Use one of: {', '.join(NAME_FORMS)}."
    if name == "mechanic":
        return None
    provider = name.partition(":")[0]
    if provider != "openai-compatible" and not _find_api_key(provider, keys):
        return (
            f"{name} needs an API key. Set {API_KEY_VARIABLES[provider]}, or save the key as a secret of the project."
        )
    if provider == "openai-compatible" and not (url or "").startswith(("http://", "https://")):
        return f"{name} needs COPYDESK_MODEL_URL. Set it to a URL such as http://127.0.0.1:11434/v1."
    if not (_is_installed("pydantic_ai") and _is_installed(SDK_MODULES[provider])):
        return f"{name} needs a library: install Copydesk with its extra 'models'."
    return None


def _find_api_key(provider: str, keys: Mapping[str, str]) -> str | None:
    return keys.get(provider.removeprefix("openai-")) or os.environ.get(API_KEY_VARIABLES[provider])


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False

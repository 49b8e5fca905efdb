"""Creates a pydantic-ai client for each provider. Imports are deferred: the extra is optional and slow to import."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Client


def create_client(name: str, base_url: str | None, api_key: str | None) -> "Client":
    """Creates the client for a model name such as openai:gpt-5. `base_url` replaces the provider's default URL."""
    provider, _, model = name.partition(":")
    match provider:
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            return OpenAIResponsesModel(model, provider=OpenAIProvider(base_url, api_key))
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(model, provider=AnthropicProvider(api_key=api_key, base_url=base_url))
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(model, provider=GoogleProvider(api_key=api_key, base_url=base_url))
        case "openai-compatible":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.profiles.openai import OpenAIModelProfile
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            assert base_url is not None
            # A stream that ends without a finish reason was cut off.
            profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
            compatible_provider = OpenAICompatibleProvider(
                provider, base_url=base_url, api_key=api_key, profile=profile
            )
            # Otherwise the client would send any server the OpenAI organization and project of the environment.
            compatible_provider.client.organization = compatible_provider.client.project = ""
            return OpenAIChatModel(model, provider=compatible_provider)
    raise AssertionError(f"unknown provider {provider}")

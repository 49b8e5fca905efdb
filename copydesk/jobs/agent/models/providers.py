"""A pydantic-ai client for each provider. Loaded when first needed: the extra is optional, and takes a second."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.models import Model as Client


def client(name: str, address: str | None, key: str | None) -> "Client":
    """For a model's name such as openai:gpt-5; `address` where the provider is not reached at its own."""
    provider, _, model = name.partition(":")
    match provider:
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            return OpenAIResponsesModel(model, provider=OpenAIProvider(address, key))
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(model, provider=AnthropicProvider(api_key=key, base_url=address))
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(model, provider=GoogleProvider(api_key=key, base_url=address))
        case "openai-compatible":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.profiles.openai import OpenAIModelProfile
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            assert address is not None
            # A stream that ends without saying that it has ended was cut off.
            profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
            served = OpenAICompatibleProvider(provider, base_url=address, api_key=key, profile=profile)
            # Its client would tell any server who the environment's OpenAI account belongs to.
            served.client.organization = served.client.project = ""
            return OpenAIChatModel(model, provider=served)
    raise AssertionError(f"no provider {provider}")

"""Maps paths to wire formats. Loads each on first use, because the provider libraries are large."""

import re
from functools import cache

from tests.support.models.dialect import Dialect

GEMINI = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)")


def dialect_at(path: str) -> Dialect | None:
    match path:
        case "/v1/chat/completions":
            return chat()
        case "/v1/responses":
            return responses()
        case "/v1/messages":
            return messages()
    return gemini() if GEMINI.fullmatch(path) else None


@cache
def chat() -> Dialect:
    from tests.support.models.chat import Chat

    return Chat()


@cache
def responses() -> Dialect:
    from tests.support.models.responses import Responses

    return Responses()


@cache
def messages() -> Dialect:
    from tests.support.models.messages import Messages

    return Messages()


@cache
def gemini() -> Dialect:
    from tests.support.models.gemini import Gemini

    return Gemini()

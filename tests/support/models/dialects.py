"""Maps paths to wire formats. Loads each on first use, because the provider libraries are large."""

import re
from functools import cache

from tests.support.models.dialect import Dialect

GEMINI_PATH_PATTERN = re.compile(
    r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)"
)


def find_dialect(path: str) -> Dialect | None:
    match path:
        case "/v1/chat/completions":
            return chat_dialect()
        case "/v1/responses":
            return responses_dialect()
        case "/v1/messages":
            return messages_dialect()
    return gemini_dialect() if GEMINI_PATH_PATTERN.fullmatch(path) else None


@cache
def chat_dialect() -> Dialect:
    from tests.support.models.chat import Chat

    return Chat()


@cache
def responses_dialect() -> Dialect:
    from tests.support.models.responses import Responses

    return Responses()


@cache
def messages_dialect() -> Dialect:
    from tests.support.models.messages import Messages

    return Messages()


@cache
def gemini_dialect() -> Dialect:
    from tests.support.models.gemini import Gemini

    return Gemini()

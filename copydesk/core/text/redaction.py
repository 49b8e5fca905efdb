"""Redaction of secrets: messages from git, a forge or a model provider may repeat the credentials that we sent."""

import base64
import re
from functools import lru_cache
from urllib.parse import quote, quote_plus

MIN_ENCODED_SECRET_CHARS = 8
MASK = "•••"
TOKEN_PATTERN = re.compile(
    r"\b(?:gh[a-z]_|github_pat_|gl(?:pat|dt|rt|ft|cbt|ptt|soat)-|Bearer\s+|whsec_)[A-Za-z0-9_.=/+-]{8,}", re.IGNORECASE
)
"""Matches tokens of forges by their prefixes."""


def redact(text: str, *secrets: str | None) -> str:
    """Replaces these secrets, in any of their encodings, with a mask.

    Truncate a text after this, never before: a truncated secret is not recognized.
    """
    for secret in secrets:
        if secret and len(secret.strip()) >= MIN_ENCODED_SECRET_CHARS:
            for encoded in sorted(list_encodings(secret), key=len, reverse=True):
                text = text.replace(encoded.decode("utf-8", "replace"), MASK)
        elif secret and secret.strip():
            text = text.replace(secret.strip(), MASK)
    return text


def redact_tokens(text: str, *secrets: str | None) -> str:
    """Replaces these secrets, and all text that looks like a forge's token, with a mask."""
    return TOKEN_PATTERN.sub(MASK, redact(text, *secrets))


@lru_cache(256)
def list_encodings(value: str) -> tuple[bytes, ...]:
    """Returns the forms in which a secret may appear in a text; none for a short secret.

    They are the plain, percent-encoded, hexadecimal, reversed, UTF-16 and base64 forms. Base64 has three variants,
    since the secret may start at any of three offsets.
    """
    raw = value.strip().encode()
    if len(raw) < MIN_ENCODED_SECRET_CHARS:
        return ()
    encodings = [
        raw,
        quote(raw, safe="").encode(),
        quote_plus(raw).encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        raw[::-1],
        raw.decode().encode("utf-16-le"),
    ]
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw)
        fragment = encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6]
        encodings += [fragment, fragment.translate(bytes.maketrans(b"+/", b"-_"))]
    return tuple(dict.fromkeys(encodings))

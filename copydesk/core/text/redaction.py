"""Secrets in the words of others: what git, a forge or a model's provider says may repeat what we sent them."""

import base64
from functools import lru_cache
from urllib.parse import quote, quote_plus

MIN_ENCODED_SECRET_CHARS = 8
MASK = "•••"


def redact(text: str, *secrets: str | None) -> str:
    """The text without these, in whatever form they stand in it. Cut a text after this, never before."""
    for secret in secrets:
        if secret and len(secret.strip()) >= MIN_ENCODED_SECRET_CHARS:
            for encoded in sorted(list_encodings(secret), key=len, reverse=True):
                text = text.replace(encoded.decode("utf-8", "replace"), MASK)
        elif secret and secret.strip():
            text = text.replace(secret.strip(), MASK)
    return text


@lru_cache(256)
def list_encodings(value: str) -> tuple[bytes, ...]:
    """As it is, in addresses, in hexadecimal, and in base64, where it may begin at any of three places."""
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

"""Secrets in the words of others: what git, a forge or a model's provider says may repeat what we sent them."""

import base64
from functools import lru_cache
from urllib.parse import quote, quote_plus

SHORTEST_KNOWN = 8
BLOT = "•••"


def blotted(text: str, *secrets: str | None) -> str:
    """The text without these, in whatever form they stand in it. Cut a text after this, never before."""
    for secret in secrets:
        if secret and len(secret.strip()) >= SHORTEST_KNOWN:
            for form in sorted(forms(secret), key=len, reverse=True):
                text = text.replace(form.decode("utf-8", "replace"), BLOT)
        elif secret and secret.strip():
            text = text.replace(secret.strip(), BLOT)
    return text


@lru_cache(256)
def forms(value: str) -> tuple[bytes, ...]:
    """As it is, in addresses, in hexadecimal, and in base64, where it may begin at any of three places."""
    raw = value.strip().encode()
    if len(raw) < SHORTEST_KNOWN:
        return ()
    found = [
        raw,
        quote(raw, safe="").encode(),
        quote_plus(raw).encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        raw[::-1],
        raw.decode().encode("utf-16-le"),
    ]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)
        inside = encoded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        found += [inside, inside.translate(bytes.maketrans(b"+/", b"-_"))]
    return tuple(dict.fromkeys(found))

"""Numbers with their nouns."""


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, such as "1 file" or "1,200 files". `plural` is needed if it is not noun + s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"

"""Names that people give to projects, keys and themselves."""

from copydesk.core.errors import InvalidRequest

MAX_NAME_CHARS = 200


def validate_display_name(text: str, label: str = "A name") -> str:
    """Returns the name without the spaces around it. Raises InvalidRequest, which calls the name by its label."""
    name = text.strip()
    if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise InvalidRequest(f"{label} must have 1 to {MAX_NAME_CHARS} printable characters.")
    return name

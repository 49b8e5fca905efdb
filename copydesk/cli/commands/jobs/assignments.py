"""Options of the form NAME=VALUE."""

from collections.abc import Iterable

import typer


def parse_assignments(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Returns the values by name. Raises BadParameter for a text without `=`, and for a name that is given twice."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"{option} must have the form NAME=VALUE, not '{text[:80]}'.")
        if name.strip() in values:
            raise typer.BadParameter(f"{option} {name.strip()} is given twice.")
        values[name.strip()] = value
    return values

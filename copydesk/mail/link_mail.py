"""Writes a mail with a few sentences and one link, as plain text and as HTML with the same content."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from copydesk.core.text.truncation import to_single_line, truncate

if TYPE_CHECKING:
    from jinja2 import Template

MAX_LINE_CHARS = 300


class LinkMail(NamedTuple):
    subject: str
    heading: str
    lines: tuple[str, ...]
    button: str
    url: str
    notes: tuple[str, ...]
    unsubscribe_url: str = ""


class MailBody(NamedTuple):
    text: str
    html: str


def write_link_mail(mail: LinkMail) -> MailBody:
    lines, notes = tuple(map(clean_line, mail.lines)), tuple(map(clean_line, mail.notes))
    parts = [mail.heading, *lines, f"{mail.button}:\n{mail.url}", *notes]
    if mail.unsubscribe_url:
        parts.append(f"To stop these mails: {mail.unsubscribe_url}")
    values = {**mail._asdict(), "lines": lines, "notes": notes}
    return MailBody("\n\n".join(parts) + "\n", _get_template().render(**values))


def clean_line(text: str) -> str:
    """Returns text of people and models on one line, without characters that could imitate another line."""
    return truncate(to_single_line("".join(char if char.isprintable() else " " for char in text)), MAX_LINE_CHARS)


@cache
def _get_template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("link_mail.html")

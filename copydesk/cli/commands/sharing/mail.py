"""The command `copydesk mail test`."""

from typing import Annotated

import typer

from copydesk.cli.output import fail, make_printable

app = typer.Typer(rich_markup_mode=None, help="Sends a test mail.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Sends a test mail."""


@app.command()
def test(address: Annotated[str, typer.Argument(help="The email address that gets the mail.")]) -> None:
    """Sends a test mail to an address, and says what the mail server answered."""
    from copydesk.core import clock
    from copydesk.core.accounts.person import validate_email
    from copydesk.core.ids import new_id
    from copydesk.core.settings import read_settings
    from copydesk.mail.message import MailContent, build_message, format_message_id
    from copydesk.mail.smtp import MailFailed, SmtpServer

    server = SmtpServer.from_settings(read_settings())
    if server is None:
        fail("No mail server is configured. Set COPYDESK_SMTP_HOST and COPYDESK_SMTP_FROM.")
    recipient = validate_email(address)
    message_id = format_message_id(new_id("mail"), server.sender)
    text = "This is a test mail from Copydesk. Mail works.\n"
    content = MailContent(recipient, "Test mail from Copydesk", text, f"<p>{text}</p>", {}, message_id, clock.now())
    try:
        server.send(build_message(content, server.sender), recipient)
    except MailFailed as error:
        fail(make_printable(error.message))
    typer.echo(f"{server.host}:{server.port} accepted the mail to {recipient}.")

"""Adds to errors of the API which command or option solves them."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copydesk_client import ApiError, Client


@contextmanager
def explain_template_errors(client: "Client", name: str) -> Iterator[None]:
    """Names the option of each invalid field, and for an unknown template the nearest name."""
    from copydesk_client import ApiError

    try:
        yield
    except ApiError as error:
        if error.code == "template_not_found":
            nearest = get_close_matches(name, [each["name"] for each in client.list_templates()], 1)
            suggestion = f" Did you mean '{nearest[0]}'?" if nearest else ""
            message = f"There is no prompt template '{name[:60]}'.{suggestion} 'copydesk prompt list' lists them."
            raise _replace_message(error, message) from None
        wrong_fields = {detail["field"] for detail in error.details}
        fields = client.get_template(name)["fields"] if wrong_fields else []
        options = [f"--field {field['name']}=…" for field in fields if field["name"] in wrong_fields]
        if options:
            raise _replace_message(error, f"{error} Set it with {' '.join(options)}") from None
        raise


@contextmanager
def explain_archived_job(job_id: str) -> Iterator[None]:
    """Says how to unarchive the job, if that is what the error asks for."""
    from copydesk_client import ApiError

    try:
        yield
    except ApiError as error:
        if error.code == "wrong_state" and "unarchive it" in str(error):
            raise _replace_message(error, f"{error} Run: copydesk job unarchive {job_id}") from None
        raise


def _replace_message(error: "ApiError", message: str) -> "ApiError":
    return type(error)(error.status, error.code, message, error.request_id, error.details)

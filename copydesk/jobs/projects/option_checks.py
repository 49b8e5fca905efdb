"""Checks the project options that name models and checks, which the core package does not know."""

from collections.abc import Mapping

from copydesk.core.errors import ErrorDetail, InvalidRequest
from copydesk.jobs.agent.models.model_names import NAME_FORMS, is_model_name


def validate_options(values: Mapping[str, str]) -> None:
    """Raises InvalidRequest when the values name a model or a check that does not exist."""
    model = values.get("model", "")
    ignored = values.get("ignored_checks", "")
    if model and not is_model_name(model):
        _raise_invalid("model", f"There is no model '{model[:80]}'. Use one of: {', '.join(NAME_FORMS)}.")
    if (review_model := values.get("review_model", "")) and (
        review_model == "mechanic" or not is_model_name(review_model)
    ):
        forms = ", ".join(form for form in NAME_FORMS if form != "mechanic")
        _raise_invalid("review_model", f"'{review_model[:80]}' cannot review changes. Use one of: {forms}.")
    if ignored:
        _validate_ignored_checks(ignored)


def _validate_ignored_checks(ignored: str) -> None:
    from copydesk.jobs.checks import RULES  # imported here because it is slow and few changes name a check

    for name in filter(None, (part.strip().partition(":")[0] for part in ignored.split(","))):
        if name not in (*RULES, "*"):
            _raise_invalid("ignored_checks", f"There is no check '{name[:40]}'. Use one of: {', '.join(RULES)}.")


def _raise_invalid(field: str, message: str) -> None:
    raise InvalidRequest(message, details=[ErrorDetail(field, message)])

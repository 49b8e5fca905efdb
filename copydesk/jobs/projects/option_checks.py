"""Checks the values of a project that only this half of the code knows: which models and checks there are."""

from collections.abc import Mapping

from copydesk.core.errors import Detail, InvalidRequest
from copydesk.jobs.agent.models.model_names import FORMS, known_model


def check_choices(values: Mapping[str, str]) -> None:
    """Raises InvalidRequest when the values name a model or a check that does not exist."""
    model, ignored = values.get("model", ""), values.get("ignored_checks", "")
    if model and not known_model(model):
        _refuse("model", f"There is no model '{model[:80]}'; write one of {', '.join(FORMS)}.")
    if ignored:
        _refuse_unknown_checks(ignored)


def _refuse_unknown_checks(ignored: str) -> None:
    from copydesk.jobs.checks import RULES  # slow to import, and few changes name a check

    for name in filter(None, (part.strip().partition(":")[0] for part in ignored.split(","))):
        if name not in (*RULES, "*"):
            _refuse("ignored_checks", f"There is no check '{name[:40]}'; there are {', '.join(RULES)}.")


def _refuse(field: str, message: str) -> None:
    raise InvalidRequest(message, details=[Detail(field, message)])

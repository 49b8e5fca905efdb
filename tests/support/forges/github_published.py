"""GitHub's REST schema from githubkit's generated client, by API version."""

import datetime
import inspect
import re
from functools import cache
from importlib import import_module
from typing import Any, Literal, Optional, Union

from tests.support.forges.schema import Operation, build_query_model

DEFAULT_VERSION, VERSIONS = "2022-11-28", ("2022-11-28", "2026-03-10")
TYPE_NAMES = {"Missing": Optional, "Literal": Literal, "Union": Union, "_dt": datetime}


class RequestCapture:
    """Replaces the HTTP transport of the client; records the request, and the type of the response."""

    class config:  # noqa: N801
        rest_api_validate_body = False

    def request(self, method: str, url: str, **about: Any) -> None:
        self.line, self.about = f"{method} {url}", about


@cache
def operation(version: str, name: str) -> Operation:
    """Describes an operation by the client's name, such as `pulls.create`."""
    group, _, verb = name.partition(".")
    models = import_module(f"{_package_name(version)}.models")
    client = getattr(import_module(f"{_package_name(version)}.rest.{group}"), f"{group.title()}Client")
    signature_parameters = inspect.signature(getattr(client, verb)).parameters
    fields: dict[str, tuple[Any, Any]] = {}
    for key, one in signature_parameters.items():
        if key not in ("self", "headers", "stream", "data", "kwargs"):
            default = ... if one.default is inspect.Parameter.empty else None
            fields[key] = (eval(str(one.annotation), TYPE_NAMES), default)
    body = [
        getattr(models, found)
        for found in re.findall(r"(\w+)Type\b", str(getattr(signature_parameters.get("data"), "annotation", "")))
    ]
    capture = RequestCapture()
    path = {key: f"{{{key}}}" for key, (_, default) in fields.items() if default is ...}
    getattr(client(capture), verb)(**path, **({"data": {}} if body else {}))
    errors = {int(status): model for status, model in capture.about.get("error_models", {}).items() if status.isdigit()}
    return Operation(
        line=capture.line,
        query=build_query_model(name, fields),
        body=Union[tuple(body)] if body else None,  # noqa: UP007
        answer=capture.about.get("response_model"),
        errors={400: models.BasicError, **errors},
    )


def model(name: str, version: str = DEFAULT_VERSION) -> Any:
    return getattr(import_module(f"{_package_name(version)}.models"), name)


def _package_name(version: str) -> str:
    return f"githubkit_schemas.v{version.replace('-', '_')}"

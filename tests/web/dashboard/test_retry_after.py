"""Retry-After: a page that shows an error keeps the header that says when to try again."""

import ast
from pathlib import Path
from typing import Any

import pytest

import copydesk.web.dashboard
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.web.responses.html import render_page
from tests.support.people import PASSWORD, csrf_token_from_html, signed_in_client
from tests.support.service import Service

PAGES = Path(copydesk.web.dashboard.__file__).parent
REFUSAL = TooManyRequests("Too many.", headers={"Retry-After": "30"})
TEMPLATE = "refused.html"
FRAME: dict[str, Any] = {"title": "Not found", "message": "", "request_id": ""}


def test_page_takes_status_and_headers_from_the_error() -> None:
    shown: list[dict[str, Any]] = [{"error": REFUSAL}, {"fault": REFUSAL}]
    for values in shown:
        response = render_page(TEMPLATE, **FRAME, **values)
        assert (response.status_code, response.headers["Retry-After"]) == (429, "30")
    assert "Retry-After" not in render_page(TEMPLATE, 404, error="Nothing is here.", **FRAME).headers


def test_too_many_wrong_passwords_say_when_to_try_again(service: Service) -> None:
    client = signed_in_client(service, "viewer")
    token = csrf_token_from_html(client.get("/account").text)
    fields = {"token": token, "old": "wrong", "new": f"{PASSWORD}!", "again": f"{PASSWORD}!"}
    for _ in range(200):
        response = client.post("/account/password", data=fields)
        if response.status_code == 429:
            break
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.deep
def test_no_page_takes_only_the_status_of_an_error() -> None:
    """A call of render_page with `error.status` must also pass `error.headers`, or the error itself."""
    calls = [
        (file, node)
        for file in PAGES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "render_page"
    ]
    assert len(calls) > 30
    with_status = [(file, ast.unparse(node)) for file, node in calls if "error.status" in ast.unparse(node)]
    assert [f"{file}: {call}" for file, call in with_status if "error.headers" not in call] == []

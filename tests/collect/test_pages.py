"""The pages about collecting list all beacon attributes, middleware options and event fields."""

import inspect
import json
import re
from pathlib import Path

import pytest

import copydesk
from copydesk.analytics.ingest.event_schema import EVENT_FIELDS
from copydesk.middleware import ViewRecorder

PACKAGE = Path(copydesk.__file__).parent
PAGES = PACKAGE.parent / "docs/collect"
SAMPLE = {"status": "200", "time_iso8601": "2026-01-31T09:30:00+00:00", "http_user_agent": 'one \\"two\\"'}


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (PAGES / page).read_text("utf-8"), re.M | re.S)


def test_every_attribute_of_the_beacon_is_documented() -> None:
    source = (PACKAGE / "web/static/beacon.source.js").read_text("utf-8")
    read = re.findall(r'"(\w+)" in options|options\.(\w+)', source)
    attributes = {"data-" + re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", one or two) for one, two in read}
    page = (PAGES / "beacon.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(data-[\w-]+)", page, re.M)) | {"data-site"} == attributes


def test_every_option_of_the_middleware_is_documented_with_its_default() -> None:
    options = {
        parameter.name: parameter.default
        for parameter in inspect.signature(ViewRecorder).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    page = (PAGES / "python.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+=[^`]*)` \|", page, re.M) == [
        f"{name}={json.dumps(default) if isinstance(default, str) else default}" for name, default in options.items()
    ]


@pytest.mark.parametrize("block", code_blocks("python.md", "python"))
def test_python_examples_compile(block: str) -> None:
    compile(block, "python.md", "exec")


def test_documented_nginx_log_format_produces_valid_events() -> None:
    (written,) = re.findall(r"log_format copydesk escape=json\n(.*?);\n", code_blocks("nginx.md", "nginx")[0], re.S)
    form = "".join(re.findall(r"'([^']*)'", written))
    event = json.loads(re.sub(r"\$(\w+)", lambda variable: SAMPLE.get(variable[1], f"the {variable[1]}"), form))
    assert set(event) <= EVENT_FIELDS
    assert event["userAgent"] == 'one "two"'
    assert event["status"] == 200

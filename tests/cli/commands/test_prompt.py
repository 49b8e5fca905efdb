"""copydesk prompt …, and copydesk job create --template, against a served Copydesk."""

import pytest

from copydesk_client import ApiError
from tests.support.command_line import Run, parse_output, run_command, set_client_variables
from tests.support.service import Service


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    set_client_variables(service, monkeypatch)
    return run_command


@pytest.mark.deep
def test_template_is_created_shown_and_deleted(run: Run) -> None:
    options = ("--label", "page=Path", "--default", "tone=polite", "--choices", "tone=polite, familiar")
    more = ("--optional", "tone", "--multiline", "page", "--description", "Mine.", "--json")
    created = parse_output(run("prompt", "create", "own-one", "Fix {{page}} in {{tone}}.", *options, *more))
    assert created["title"] == "Own one"
    assert created["fields"] == [
        {"name": "page", "label": "Path", "required": True, "default": "", "choices": [], "multiline": True},
        {
            "name": "tone",
            "label": "Tone",
            "required": False,
            "default": "polite",
            "choices": ["polite", "familiar"],
            "multiline": False,
        },
    ]
    assert "own-one\tOwn one\tproject\tpage, tone?" in run("prompt", "list").stdout
    assert len(parse_output(run("prompt", "list", "--json"))) == 11
    shown = run("prompt", "show", "own-one").stdout
    assert "one of: polite, familiar" in shown
    assert "Fix {{page}} in {{tone}}." in shown
    assert parse_output(run("prompt", "show", "own-one", "--json")) == created
    assert run("prompt", "preview", "own-one", "--field", "page=a=b.md").stdout == "Fix a=b.md in polite.\n"
    assert "Deleted own-one." in run("prompt", "delete", "own-one").stdout
    assert isinstance(run("prompt", "show", "own-one").exception, ApiError)


@pytest.mark.deep
def test_built_in_template_is_copied_and_replaced(run: Run) -> None:
    copied = parse_output(run("prompt", "create", "terms", "--copy", "glossary", "--title", "Terms", "--json"))
    assert copied["fields"] == parse_output(run("prompt", "show", "glossary", "--json"))["fields"]
    assert isinstance(run("prompt", "create", "terms", "Other").exception, ApiError)
    replaced = run("prompt", "create", "terms", "-", "--replace", input="From {{where}}.")
    assert "Changed the template terms." in replaced.stdout
    assert parse_output(run("prompt", "show", "terms", "--json"))["prompt"] == "From {{where}}."


def test_job_is_created_from_a_template(run: Run) -> None:
    fields = ("--field", "version=1.4", "--field", "changes={{version}}")
    job = parse_output(run("job", "create", "--template", "changelog-entry", *fields, "--title", "T", "--json"))
    assert "What changed:\n{{version}}\n" in job["prompt"]
    assert job["title"] == "T"
    missing = run("job", "create", "--template", "changelog-entry", "--field", "version=1.4")
    assert str(missing.exception) == "Enter a value for 'What changed'. Set it with --field changes=…"


def test_refused_field_is_named_with_its_option_and_unknown_template_with_the_nearest(run: Run) -> None:
    both = run("prompt", "preview", "changelog-entry")
    assert str(both.exception).endswith("Set it with --field version=… --field changes=…")
    other = run("prompt", "preview", "glossary", "--field", "nonsense=1")
    assert str(other.exception) == "The template glossary has no field 'nonsense'."
    for arguments in (("prompt", "show"), ("prompt", "create", "own", "--copy"), ("job", "create", "--template")):
        unknown = run(*arguments, "changelog-entri")
        assert str(unknown.exception) == (
            "There is no prompt template 'changelog-entri'. Did you mean 'changelog-entry'? "
            "'copydesk prompt list' lists them."
        )


def test_list_says_that_built_in_templates_need_a_language_model(run: Run) -> None:
    assert "Built-in templates need a language model." in run("prompt", "list").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "create"),
        ("job", "create", "Do it", "--template", "glossary"),
        ("job", "create", "Do it", "--field", "a=b"),
        ("job", "create", "--template", "glossary", "--field", "page"),
        ("job", "create", "--template", "glossary", "--field", "page=a", "--field", "page=b"),
        ("prompt", "create", "own"),
        ("prompt", "create", "own", "Fix it.", "--label", "page=Path"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2

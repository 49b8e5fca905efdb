"""Templates: which are valid, and the prompts that they become."""

from typing import Any

import pytest

from copydesk.core.errors import InvalidRequest
from copydesk.jobs.job import MAX_PROMPT_CHARS
from copydesk.prompts.library import load_builtin
from copydesk.prompts.template import (
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_TEMPLATE_CHARS,
    MAX_VALUE_CHARS,
    TemplateField,
    TemplateText,
    build_template,
    list_placeholders,
    render_prompt,
)


def build(prompt: str, *fields: TemplateField) -> TemplateText:
    return build_template("example", "Example", "", prompt, fields or None)


def read_faults(error: pytest.ExceptionInfo[InvalidRequest]) -> dict[str, str]:
    return {detail.field: detail.message for detail in error.value.details}


def test_values_take_the_place_of_placeholders() -> None:
    template = build("Update {{ page }} for {{version}}, {{version}}.")
    assert [field.name for field in template.fields] == ["page", "version"]
    assert render_prompt(template, {"page": "a.md", "version": " 2.0 "}) == "Update a.md for 2.0, 2.0."


@pytest.mark.parametrize(
    "value",
    ["{{version}}", "{{page}}", "{{ page }}", "{{x}}", "\\1", "\\g<0>", "{0}", "%s", "{{{{page}}}}"],
)
def test_value_is_never_expanded(value: str) -> None:
    template = build("A {{page}} B {{version}} C")
    assert render_prompt(template, {"page": value, "version": "1"}) == f"A {value} B 1 C"
    assert render_prompt(template, {"page": "1", "version": value}) == f"A 1 B {value} C"


def test_values_that_form_a_placeholder_together_stay_text() -> None:
    assert render_prompt(build("{{a}}{{b}}"), {"a": "{{", "b": "a}}"}) == "{{a}}"


def test_other_text_in_double_braces_is_not_a_placeholder() -> None:
    text = "Keep {{ page.title }}, {{Name}}, {{ 1a }}, {{}}, ${{ env.X }} and {a}."
    assert list_placeholders(text) == []
    assert render_prompt(build(text), {}) == text


def test_line_without_values_is_left_out() -> None:
    fields = [TemplateField(name, name, required=False) for name in ("folder", "language")]
    template = build("Check the docs.\nOnly {{folder}}.\nOnly {{language}} in {{folder}}.\n\nBe brief.", *fields)
    assert render_prompt(template, {}) == "Check the docs.\n\nBe brief."
    assert render_prompt(template, {"folder": "a"}) == "Check the docs.\nOnly a.\nOnly  in a.\n\nBe brief."


def test_default_counts_where_no_value_is_given() -> None:
    template = build("{{a}}", TemplateField("a", "A", default="x", choices=("x", "y")))
    assert [render_prompt(template, values) for values in ({}, {"a": " "}, {"a": "y"})] == ["x", "x", "y"]


def test_each_missing_unknown_and_invalid_value_is_named() -> None:
    choice = TemplateField("tone", "Tone", choices=("polite", "familiar"))
    template = build("{{page}} {{tone}} {{text}}", TemplateField("page", "Page"), choice, TemplateField("text", "Text"))
    with pytest.raises(InvalidRequest) as error:
        render_prompt(template, {"tone": "rude", "text": "x" * (MAX_VALUE_CHARS + 1), "colour": "red"})
    assert read_faults(error) == {
        "colour": "The template example has no field 'colour'.",
        "page": "Enter a value for 'Page'.",
        "tone": "The value of 'Tone' must be one of: polite, familiar.",
        "text": "The value of 'Text' has 8,001 characters. The limit is 8,000.",
    }


def test_prompt_with_its_values_is_limited() -> None:
    template = build(" ".join(f"{{{{a{number}}}}}" for number in range(5)))
    with pytest.raises(InvalidRequest, match=f"1 to {MAX_PROMPT_CHARS:,}"):
        render_prompt(template, {f"a{number}": "x" * MAX_VALUE_CHARS for number in range(5)})
    with pytest.raises(InvalidRequest, match="0 characters"):
        render_prompt(build("{{a}}", TemplateField("a", "A", required=False)), {})
    with pytest.raises(InvalidRequest, match="NUL"):
        render_prompt(build("{{a}}"), {"a": "\0"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Release"}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": "a" * 61}, "name"),
        ({"name": "new"}, "name"),
        ({"name": "../x"}, "name"),
        ({"title": " "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"description": "x" * 501}, "description"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": "x" * (MAX_TEMPLATE_CHARS + 1)}, "prompt"),
        ({"prompt": "{{a}}", "fields": []}, "fields"),
        ({"prompt": "x", "fields": [TemplateField("a", "A")]}, "fields"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "A")] * 2}, "fields"),
        ({"prompt": " ".join(f"{{{{a{each}}}}}" for each in range(MAX_FIELDS + 1))}, "fields"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "")]}, "a"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "x\ny")]}, "a"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "A", default="z", choices=("x",))]}, "a"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "A", choices=("x", " "))]}, "a"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "A", choices=("x",) * (MAX_CHOICES + 1))]}, "a"),
        ({"prompt": "{{a}}", "fields": [TemplateField("a", "A", default="x" * (MAX_VALUE_CHARS + 1))]}, "a"),
    ],
)
def test_invalid_template_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        build_template(**{"name": "a", "title": "A", "description": "", "prompt": "x", **changes})
    assert field in read_faults(error)


def test_built_in_templates_are_complete() -> None:
    templates = load_builtin()
    assert len(templates) == 10
    for template in templates.values():
        assert template.description.endswith(".")
        assert not template.title.endswith(".")
        values = {field.name: field.choices[0] if field.choices else f"<{field.name}>" for field in template.fields}
        prompt = render_prompt(template, values)
        assert list_placeholders(prompt) == []
        assert all(value in prompt for value in values.values())
        needed = {name: value for name, value in values.items() if name in find_needed(template)}
        assert list_placeholders(render_prompt(template, needed)) == []


def find_needed(template: TemplateText) -> set[str]:
    return {field.name for field in template.fields if field.required and not field.default}

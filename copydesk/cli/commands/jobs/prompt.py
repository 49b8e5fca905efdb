"""The commands `copydesk prompt list|show|preview|create|delete`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copydesk.cli.commands.jobs.assignments import parse_assignments
from copydesk.cli.commands.jobs.error_hints import explain_template_errors
from copydesk.cli.output import (
    JsonOption,
    ProjectOption,
    make_printable,
    open_client,
    print_facts,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from copydesk_client import Template, TemplateField

app = typer.Typer(
    rich_markup_mode=None,
    help="Shows and manages prompt templates over the API. Reads COPYDESK_URL and COPYDESK_API_KEY.",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(help="The name of the template.")]
MODEL_NOTE = "Built-in templates need a language model. The mechanic understands only the requests that its page lists."
FIELD_DEFAULTS: dict[str, Any] = {"required": True, "default": "", "choices": [], "multiline": False}


@app.command("list")
def list_templates(project: ProjectOption, json: JsonOption = False) -> None:
    """Lists the project's templates, and then the built-in ones."""
    with open_client(project) as client:
        templates = client.list_templates()
    if json:
        print_json(templates)
        return
    rows = [
        (each["name"], each["title"], "built-in" if each["builtIn"] else "project", _list_fields(each))
        for each in templates
    ]
    print_table(("name", "title", "from", "fields"), rows, "There are no templates.")
    typer.echo(MODEL_NOTE, err=True)


@app.command()
def show(name: NameArgument, project: ProjectOption, json: JsonOption = False) -> None:
    """Shows a template: its fields and its text."""
    with open_client(project) as client, explain_template_errors(client, name):
        template = client.get_template(name)
    if json:
        print_json(template)
        return
    facts = {"name": template["name"], "title": template["title"]}
    if template["description"]:
        facts["description"] = template["description"]
    print_facts({**facts, **{f"field {field['name']}": _describe_field(field) for field in template["fields"]}})
    typer.echo(make_printable(f"\n{template['prompt']}"))


@app.command()
def preview(
    name: NameArgument,
    project: ProjectOption,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="A value for a field; can be repeated."),
    ] = None,
) -> None:
    """Prints the prompt that a job with these values gets."""
    with open_client(project) as client, explain_template_errors(client, name):
        typer.echo(client.preview_template(name, parse_assignments("--field", field or ())))


@app.command()
def create(
    name: NameArgument,
    project: ProjectOption,
    prompt: Annotated[
        str,
        typer.Argument(help="The text, with placeholders in double braces; - reads it from standard input."),
    ] = "",
    title: Annotated[
        str | None, typer.Option("--title", metavar="TITLE", help="The title [default: from the name].")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What the template is for.")
    ] = None,
    copy: Annotated[
        str | None, typer.Option("--copy", metavar="TEMPLATE", help="Take all that is not given from this template.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="FIELD=LABEL", help="The label of a field; can be repeated."),
    ] = None,
    default: Annotated[
        list[str] | None,
        typer.Option("--default", metavar="FIELD=VALUE", help="The default of a field; can be repeated."),
    ] = None,
    choices: Annotated[
        list[str] | None,
        typer.Option("--choices", metavar="FIELD=A,B", help="The allowed values of a field; can be repeated."),
    ] = None,
    optional: Annotated[
        list[str] | None,
        typer.Option("--optional", metavar="FIELD", help="A field that may be empty; can be repeated."),
    ] = None,
    multiline: Annotated[
        list[str] | None,
        typer.Option("--multiline", metavar="FIELD", help="A field with several lines in forms; can be repeated."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the template if it exists.")] = False,
    json: JsonOption = False,
) -> None:
    """Creates a template. Each placeholder of the text is a field; by default, it is required."""
    if not prompt and copy is None:
        raise typer.BadParameter("Give the text of the template, or --copy.")
    with open_client(project) as client:
        with explain_template_errors(client, copy or name):
            source = client.get_template(copy) if copy else None
        text = sys.stdin.read() if prompt == "-" else prompt or (source["prompt"] if source else "")
        fields = _start_fields(text, source)
        _set_attribute(fields, "--label", "label", parse_assignments("--label", label or ()))
        _set_attribute(fields, "--default", "default", parse_assignments("--default", default or ()))
        allowed = parse_assignments("--choices", choices or ())
        _set_attribute(fields, "--choices", "choices", {each: _split_choices(allowed[each]) for each in allowed})
        _set_attribute(fields, "--optional", "required", dict.fromkeys(optional or (), False))
        _set_attribute(fields, "--multiline", "multiline", dict.fromkeys(multiline or (), True))
        if description is None:
            description = source["description"] if source else ""
        parts: dict[str, Any] = {
            "title": title or (source["title"] if source else name.replace("-", " ").capitalize()),
            "description": description,
            "prompt": text,
            "fields": list(fields.values()),
        }
        exists = replace and any(each["name"] == name for each in client.list_templates())
        template = client.change_template(name, **parts) if exists else client.create_template(name, **parts)
    if json:
        print_json(template)
    else:
        typer.echo(f"{'Changed' if exists else 'Created'} the template {template['name']}.")


@app.command()
def delete(name: NameArgument, project: ProjectOption) -> None:
    """Deletes a template of the project. Its jobs stay."""
    with open_client(project) as client, explain_template_errors(client, name):
        client.delete_template(name)
    typer.echo(f"Deleted {name}.")


def _start_fields(text: str, source: "Template | None") -> dict[str, dict[str, Any]]:
    """Returns a field for each placeholder of the text, by name, with the attributes of the copied template."""
    from copydesk.prompts.template import list_placeholders

    known = {field["name"]: field for field in source["fields"]} if source else {}
    return {name: {"name": name, **FIELD_DEFAULTS, **known.get(name, {})} for name in list_placeholders(text)}


def _set_attribute(fields: dict[str, dict[str, Any]], option: str, attribute: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in fields:
            raise typer.BadParameter(f"{option} names the field {name}, which the text does not use.")
        fields[name][attribute] = value


def _split_choices(text: str) -> list[str]:
    return [choice.strip() for choice in text.split(",")]


def _list_fields(template: "Template") -> str:
    """Lists the names of the fields. A question mark follows those that may be left out."""
    return ", ".join(field["name"] + ("" if _is_needed(field) else "?") for field in template["fields"])


def _is_needed(field: "TemplateField") -> bool:
    return field["required"] and not field["default"]


def _describe_field(field: "TemplateField") -> str:
    parts = [field["label"], "required" if _is_needed(field) else "optional"]
    if field["default"]:
        parts.append(f"default: {field['default']}")
    if field["choices"]:
        parts.append(f"one of: {', '.join(field['choices'])}")
    return "; ".join(parts)

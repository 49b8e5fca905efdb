"""The form that creates, copies or changes a prompt template."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.prompts.library import PromptTemplate, TemplateBuiltIn
from copydesk.prompts.template import (
    MAX_CHOICES,
    MAX_DESCRIPTION_CHARS,
    MAX_LABEL_CHARS,
    MAX_TEMPLATE_CHARS,
    MAX_VALUE_CHARS,
    TemplateField,
    TemplateText,
    build_template,
    match_fields,
)
from copydesk.web.dashboard.auth.access import EditorPost, EditorRequest, SignedInRequest
from copydesk.web.dashboard.auth.form_data import FormData
from copydesk.web.dashboard.flash_messages import redirect_with_message
from copydesk.web.responses.html import render_page

router = APIRouter()
NEW_PATH = "/projects/{project_id}/prompts/new"
EDIT_PATH = "/projects/{project_id}/prompts/{template_name}/edit"
EMPTY_TEXT = TemplateText("", "", "", "", ())
CHANGED_MEANWHILE = "This template was changed after you opened this page. Compare your entries, then save again."
LIMITS = {
    "description": MAX_DESCRIPTION_CHARS,
    "prompt": MAX_TEMPLATE_CHARS,
    "label": MAX_LABEL_CHARS,
    "value": MAX_VALUE_CHARS,
    "choices": MAX_CHOICES,
}


@router.get(NEW_PATH)
async def new_template_page(
    project_id: str, signed_in: EditorRequest, copy: Annotated[str, Query(max_length=60)] = ""
) -> Response:
    project = await signed_in.get_project(project_id)
    text = EMPTY_TEXT
    if copy:
        source = await run_in_thread(signed_in.desk.prompts.get, project.id, copy)
        text = TemplateText(f"{source.name[:57]}-2", source.title, source.description, source.prompt, source.fields)
    return _render_form(signed_in, project, None, text)


@router.post(NEW_PATH)
async def create_template(project_id: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    typed = _read_text(post.form, post.form.get("name").strip())
    if post.form.get("action") == "fields":
        return _render_form(post, project, None, typed)
    try:
        text = build_template(**vars(typed))
        template = await run_in_thread(post.desk.prompts.create, project.id, text, actor=post.person.email)
    except RequestError as error:
        return _render_form(post, project, None, typed, error)
    return _redirect_to_page(post, project, template, "Created.")


@router.get(EDIT_PATH)
async def edit_template_page(project_id: str, template_name: str, signed_in: EditorRequest) -> Response:
    project = await signed_in.get_project(project_id)
    template = await _get_own_template(signed_in, project, template_name)
    return _render_form(signed_in, project, template, template)


@router.post(EDIT_PATH)
async def change_template(project_id: str, template_name: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    template = await _get_own_template(post, project, template_name)
    typed = _read_text(post.form, template.name)
    if post.form.get("action") == "fields":
        return _render_form(post, project, template, typed)
    names = ("title", "description", "prompt", "fields")
    changes = {name: getattr(typed, name) for name in names if getattr(typed, name) != getattr(template, name)}
    try:
        if post.form.get("updated_at") != str(template.updated_at):
            raise InvalidRequest(CHANGED_MEANWHILE)
        if changes:
            changes |= {"prompt": typed.prompt, "fields": typed.fields}
            template = await run_in_thread(
                post.desk.prompts.change, project.id, template.name, changes, actor=post.person.email
            )
    except RequestError as error:
        return _render_form(post, project, template, typed, error)
    return _redirect_to_page(post, project, template, "Saved.")


async def _get_own_template(signed_in: SignedInRequest, project: Project, name: str) -> PromptTemplate:
    template = await run_in_thread(signed_in.desk.prompts.get, project.id, name)
    if template.is_builtin:
        raise TemplateBuiltIn
    return template


def _read_text(form: FormData, name: str) -> TemplateText:
    """Returns the template of the form, not validated, with a field for each placeholder of its prompt."""
    prompt = form.get("prompt").strip()
    shown = [_read_field(form, field_name) for field_name in dict.fromkeys(form.get_all("field"))]
    fields = tuple(match_fields(prompt, shown))
    return TemplateText(name, form.get("title").strip(), form.get("description").strip(), prompt, fields)


def _read_field(form: FormData, name: str) -> TemplateField:
    choices = (choice.strip() for choice in form.get(f"choices-{name}").splitlines())
    return TemplateField(
        name,
        form.get(f"label-{name}").strip(),
        f"required-{name}" in form,
        form.get(f"default-{name}").strip(),
        tuple(choice for choice in choices if choice),
        f"multiline-{name}" in form,
    )


def _redirect_to_page(post: EditorPost, project: Project, template: PromptTemplate, message: str) -> Response:
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/prompts/{template.name}", message)


def _render_form(
    signed_in: SignedInRequest,
    project: Project,
    template: PromptTemplate | None,
    text: TemplateText,
    error: RequestError | None = None,
) -> Response:
    """Renders the form with these entries; `template` is the stored one, or None for a new one."""
    return render_page(
        "prompt-form.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title="Edit template" if template else "New template",
        prompt_template=template,
        text=text,
        faults={detail.field: detail.message for detail in error.details} if error else {},
        limits=LIMITS,
    )

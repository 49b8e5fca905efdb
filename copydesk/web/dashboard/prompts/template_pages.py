"""The list of prompt templates, the page that starts a job from one, and the page that deletes one."""

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.ids import random_text
from copydesk.core.projects.projects import Project
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.prompts.library import PromptTemplate
from copydesk.prompts.template import MAX_VALUE_CHARS, render_prompt
from copydesk.web.api.schemas import JobOptionsRequest
from copydesk.web.dashboard.auth.access import EditorPost, EditorRequest, SignedInRequest, ViewerRequest
from copydesk.web.dashboard.auth.form_data import FormData
from copydesk.web.dashboard.flash_messages import delete_message, read_message, redirect_with_message
from copydesk.web.dashboard.jobs.job_list import creator_from_person, form_idempotency_key, to_form_error
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()
LIST_PATH = "/projects/{project_id}/prompts"
TEMPLATE_PATH = "/projects/{project_id}/prompts/{template_name}"
VALUE_PREFIX = "field-"
"""Inputs of fields have this prefix, so that no field has the name of another input of the form."""
OPTIONS = ("model", "ref", "title")
CHANGED_MEANWHILE = "This template was changed after you opened the page. Check the prompt and start again."


@router.get(LIST_PATH)
async def template_list_page(request: Request, project_id: str, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    message = read_message(request, signed_in.desk.settings)
    response = render_page(
        "prompts.html",
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title="Prompt templates",
        templates=await run_in_thread(signed_in.desk.prompts.list_for_project, project.id),
        message=message,
    )
    if message:
        delete_message(response, signed_in.desk.settings)
    return response


@router.get(TEMPLATE_PATH)
async def template_page(request: Request, project_id: str, template_name: str, signed_in: ViewerRequest) -> Response:
    project = await signed_in.get_project(project_id)
    template = await run_in_thread(signed_in.desk.prompts.get, project.id, template_name)
    message = read_message(request, signed_in.desk.settings)
    response = _render_template_page(signed_in, project, template, FormData(()), message=message)
    if message:
        delete_message(response, signed_in.desk.settings)
    return response


@router.post(TEMPLATE_PATH)
async def start_job(project_id: str, template_name: str, post: EditorPost) -> Response:
    """Shows the prompt with the values of the form, or starts a job with it."""
    project = await post.get_project(project_id)
    template = await run_in_thread(post.desk.prompts.get, project.id, template_name)
    form = post.form
    prompt = ""
    try:
        prompt = render_prompt(template, _read_values(template, form))
        if form.get("action") == "preview":
            return _render_template_page(post, project, template, form, preview=prompt)
        if form.get("template_version") != _version(template):
            raise InvalidRequest(
                "This template was changed after you opened the page. Check the prompt and start again."
            )
        options = {name: form.get(name).strip() or None for name in OPTIONS}
        new_job = JobOptionsRequest.model_validate({**options, "draft": "draft" in form}).build_job(prompt)
        created = await run_in_thread(
            post.desk.jobs.create,
            project,
            new_job,
            form_idempotency_key(form, new_job),
            created_by=creator_from_person(post.person),
        )
    except ValidationError as invalid:
        return _render_template_page(post, project, template, form, to_form_error(invalid), preview=prompt)
    except RequestError as error:
        return _render_template_page(post, project, template, form, error, preview=prompt)
    return redirect(f"/projects/{project.id}/jobs/{created.job.id}")


@router.get(f"{TEMPLATE_PATH}/delete")
async def deletion_page(project_id: str, template_name: str, signed_in: EditorRequest) -> Response:
    project = await signed_in.get_project(project_id)
    template = await run_in_thread(signed_in.desk.prompts.get, project.id, template_name)
    return render_page(
        "prompt-delete.html",
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title=f"Delete {template.title}",
        prompt_template=template,
    )


@router.post(f"{TEMPLATE_PATH}/delete")
async def delete_template(project_id: str, template_name: str, post: EditorPost) -> Response:
    project = await post.get_project(project_id)
    await run_in_thread(post.desk.prompts.delete, project.id, template_name, actor=post.person.email)
    return redirect_with_message(post.desk.settings, f"/projects/{project.id}/prompts", f"Deleted {template_name}.")


def _read_values(template: PromptTemplate, form: FormData) -> dict[str, str]:
    return {field.name: form.get(VALUE_PREFIX + field.name) for field in template.fields}


def _version(template: PromptTemplate) -> str:
    """Returns what changes when a template is changed. The page sends it back with its form."""
    return str(template.updated_at or "")


def _render_template_page(
    signed_in: SignedInRequest,
    project: Project,
    template: PromptTemplate,
    form: FormData,
    error: RequestError | None = None,
    *,
    preview: str = "",
    message: str = "",
) -> Response:
    is_new = not form.fields
    return render_page(
        "prompt.html",
        error=error,
        signed_in=signed_in,
        project=project,
        tab="jobs",
        title=template.title,
        prompt_template=template,
        template_version=_version(template),
        values={
            field.name: field.default if is_new else form.get(VALUE_PREFIX + field.name) for field in template.fields
        },
        faults={detail.field: detail.message for detail in error.details} if error else {},
        typed=form,
        models=signed_in.desk.jobs.allowed_models(project),
        max_value_chars=MAX_VALUE_CHARS,
        preview=preview,
        message=message,
        nonce=form.get("nonce") or random_text(22),
    )

"""The API of the prompt library: /v2/agent/{projectId}/templates"""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from copydesk.core.clock import format_iso_or_none
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.prompts.library import PromptTemplate
from copydesk.prompts.template import (
    FIELD_NAME,
    MAX_CHOICE_CHARS,
    MAX_CHOICES,
    MAX_DESCRIPTION_CHARS,
    MAX_FIELDS,
    MAX_LABEL_CHARS,
    MAX_TEMPLATE_CHARS,
    MAX_VALUE_CHARS,
    NAME_PATTERN,
    TemplateField,
    build_template,
    field_to_json,
    render_prompt,
)
from copydesk.web.api.dependencies import (
    CurrentCreator,
    CurrentProject,
    IdempotencyKey,
    OpenDesk,
    ProjectId,
    bearer,
    error_responses,
)
from copydesk.web.api.schemas import ApiModel, JobOptionsRequest, JobResponse, RequestModel

router = APIRouter(prefix="/v2/agent/{projectId}", tags=["prompt templates"], dependencies=[Depends(bearer)])

TemplateName = Annotated[str, Path(alias="templateName", description="The name of the template.")]
MAX_TITLE_CHARS = 200
FieldValues = Annotated[dict[str, Annotated[str, Field(max_length=MAX_VALUE_CHARS)]], Field(max_length=MAX_FIELDS)]


class TemplateFieldRequest(RequestModel):
    name: str = Field(pattern=f"^{FIELD_NAME}$", examples=["version"])
    """The name in the prompt's placeholders, such as `version` for `{{version}}`."""
    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)] | None = None
    """What people see. By default, this is the name."""
    required: bool = True
    """Whether a value is needed."""
    default: str = Field("", max_length=MAX_VALUE_CHARS)
    """The value if none is given."""
    choices: list[Annotated[str, Field(min_length=1, max_length=MAX_CHOICE_CHARS)]] = Field(
        default_factory=list, max_length=MAX_CHOICES
    )
    """The values that are allowed. By default, every text is."""
    multiline: bool = False
    """Whether forms offer several lines."""

    def to_field(self) -> TemplateField:
        label = self.label or self.name.replace("_", " ").capitalize()
        return TemplateField(self.name, label, self.required, self.default, tuple(self.choices), self.multiline)


FieldRequests = Annotated[list[TemplateFieldRequest], Field(max_length=MAX_FIELDS)]


class NewTemplateRequest(RequestModel):
    name: str = Field(max_length=60, pattern=f"^(?:{NAME_PATTERN.pattern})$", examples=["release-notes"])
    """The name in URLs and on the command line. It cannot be changed."""
    title: str = Field(min_length=1, max_length=MAX_TITLE_CHARS, examples=["Write the release notes"])
    description: str = Field("", max_length=MAX_DESCRIPTION_CHARS)
    prompt: str = Field(
        min_length=1, max_length=MAX_TEMPLATE_CHARS, examples=["Write the release notes of {{version}}."]
    )
    """The text, with placeholders such as `{{version}}`."""
    fields: FieldRequests | None = None
    """The fields. By default, each placeholder is a required field."""


class TemplateChangeRequest(RequestModel):
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)] | None = None
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] | None = None
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARS)] | None = None
    fields: FieldRequests | None = None
    """The fields. If only the prompt changes, the fields that it still uses are kept."""


class PreviewRequest(RequestModel):
    fields: FieldValues = Field(examples=[{"version": "1.4"}])
    """The values by the names of the fields. They are inserted as plain text."""


class TemplateJobRequest(JobOptionsRequest):
    fields: FieldValues = Field(examples=[{"version": "1.4"}])
    """The values by the names of the fields. They are inserted as plain text."""


class TemplateFieldResponse(ApiModel):
    name: str
    label: str
    required: bool
    default: str
    choices: list[str]
    multiline: bool


class TemplateResponse(ApiModel):
    name: str
    title: str
    description: str
    prompt: str
    fields: list[TemplateFieldResponse]
    built_in: bool
    """Whether every project has this template. Such a template cannot be changed."""
    created_at: str | None
    created_by: str | None
    updated_at: str | None

    @classmethod
    def from_template(cls, template: PromptTemplate) -> "TemplateResponse":
        return cls(
            name=template.name,
            title=template.title,
            description=template.description,
            prompt=template.prompt,
            fields=[TemplateFieldResponse(**field_to_json(field)) for field in template.fields],
            built_in=template.is_builtin,
            created_at=format_iso_or_none(template.created_at),
            created_by=template.created_by or None,
            updated_at=format_iso_or_none(template.updated_at),
        )


class TemplateListResponse(ApiModel):
    templates: list[TemplateResponse]
    """The project's own templates by title, and then the built-in ones."""


class PreviewResponse(ApiModel):
    prompt: str
    """The prompt that a job with these values gets."""


@router.get("/templates", responses=error_responses(), operation_id="listTemplates")
async def list_templates(project_id: ProjectId, project: CurrentProject, desk: OpenDesk) -> TemplateListResponse:
    """Lists the project's prompt templates and the built-in ones."""
    templates = await run_in_thread(desk.prompts.list_for_project, project.id)
    return TemplateListResponse(templates=[TemplateResponse.from_template(each) for each in templates])


@router.post("/templates", status_code=201, responses=error_responses(409, 413, 415), operation_id="createTemplate")
async def create_template(
    project_id: ProjectId, project: CurrentProject, body: NewTemplateRequest, desk: OpenDesk, request: Request
) -> TemplateResponse:
    """Creates a prompt template of the project."""
    fields = None if body.fields is None else [field.to_field() for field in body.fields]
    text = build_template(body.name, body.title, body.description, body.prompt, fields)
    template = await run_in_thread(desk.prompts.create, project.id, text, actor=request.state.key.id)
    return TemplateResponse.from_template(template)


@router.get("/templates/{templateName}", responses=error_responses(), operation_id="getTemplate")
async def get_template(
    project_id: ProjectId, name: TemplateName, project: CurrentProject, desk: OpenDesk
) -> TemplateResponse:
    """Returns a prompt template with its fields."""
    return TemplateResponse.from_template(await run_in_thread(desk.prompts.get, project.id, name))


@router.patch("/templates/{templateName}", responses=error_responses(409, 413, 415), operation_id="changeTemplate")
async def change_template(
    project_id: ProjectId,
    name: TemplateName,
    project: CurrentProject,
    body: TemplateChangeRequest,
    desk: OpenDesk,
    request: Request,
) -> TemplateResponse:
    """Changes the given parts of a template. Built-in templates cannot be changed."""
    changes = {part: getattr(body, part) for part in body.model_fields_set if getattr(body, part) is not None}
    if body.fields is not None:
        changes["fields"] = [field.to_field() for field in body.fields]
    template = await run_in_thread(desk.prompts.change, project.id, name, changes, actor=request.state.key.id)
    return TemplateResponse.from_template(template)


@router.delete(
    "/templates/{templateName}", status_code=204, responses=error_responses(409), operation_id="deleteTemplate"
)
async def delete_template(
    project_id: ProjectId, name: TemplateName, project: CurrentProject, desk: OpenDesk, request: Request
) -> None:
    """Deletes a template of the project. Its jobs stay."""
    await run_in_thread(desk.prompts.delete, project.id, name, actor=request.state.key.id)


@router.post("/templates/{templateName}/preview", responses=error_responses(413, 415), operation_id="previewTemplate")
async def preview_template(
    project_id: ProjectId, name: TemplateName, project: CurrentProject, body: PreviewRequest, desk: OpenDesk
) -> PreviewResponse:
    """Returns the prompt with these values, without creating a job."""
    template = await run_in_thread(desk.prompts.get, project.id, name)
    return PreviewResponse(prompt=render_prompt(template, body.fields))


@router.post(
    "/templates/{templateName}/job",
    status_code=201,
    responses=error_responses(409, 413, 415, 429),
    operation_id="createJobFromTemplate",
)
async def create_job_from_template(
    project_id: ProjectId,
    name: TemplateName,
    project: CurrentProject,
    body: TemplateJobRequest,
    desk: OpenDesk,
    creator: CurrentCreator,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobResponse:
    """Creates a job whose prompt is the template with these values."""
    template = await run_in_thread(desk.prompts.get, project.id, name)
    new_job = body.build_job(render_prompt(template, body.fields))
    created = await run_in_thread(desk.jobs.create, project, new_job, idempotency_key, created_by=creator)
    response.headers.update(created.headers)
    response.headers["Location"] = f"/v2/agent/{project.id}/job/{created.job.id}"
    if created.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    changed_files = (await run_in_thread(desk.jobs.changed_files, [created.job.id]))[created.job.id]
    return JobResponse.from_job(created.job, changed_files)

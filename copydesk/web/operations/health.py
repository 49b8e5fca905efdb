"""The routes /healthz, /readyz and /metrics."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from copydesk import __version__
from copydesk.core.errors import ErrorDetail, NotFound, RequestError
from copydesk.core.runtime.thread_pool import run_in_pool
from copydesk.desk import Desk
from copydesk.jobs.execution.worker import Worker
from copydesk.web.api.schemas import TEXT_SCHEMA, ApiModel, ErrorResponse
from copydesk.web.operations.metrics import CONTENT_TYPE, MetricsCollector
from copydesk.web.operations.readiness import Readiness

router = APIRouter(tags=["operations"])
WITHOUT_HELP = (
    "A part to ignore. With `analytics`, the service stays ready for jobs while the analytics store is unavailable."
)


class Health:
    """Readiness and metrics of this process. Both run in a separate thread pool, because all threads of the API may be
    waiting for a database that hangs."""

    def __init__(self, desk: Desk, worker: Worker | None = None) -> None:
        self.readiness = Readiness(desk, with_analytics=True)
        self.metrics = MetricsCollector(desk, self.readiness, worker)
        self.metrics_on_own_port = False


class ReadinessResponse(ApiModel):
    status: str
    parts: dict[str, str]
    """Each part of the service: `ok`, or the problem."""


class ServiceNotReady(RequestError):
    status, code = 503, "not_ready"
    message = "The service is not ready. The details say which part."


async def get_health(request: Request) -> Health:
    health: Health = request.app.state.health
    return health


CurrentHealth = Annotated[Health, Depends(get_health)]


@router.get("/healthz", operation_id="healthz")
async def healthz() -> dict[str, str]:
    """Returns 200 while the process is alive."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz", responses={503: {"model": ErrorResponse}}, operation_id="readyz")
async def readyz(
    health: CurrentHealth, without: Annotated[str, Query(description=WITHOUT_HELP)] = ""
) -> ReadinessResponse:
    """Returns 200 if this process can take requests: the stores respond, and it is not about to stop. Responds within
    two seconds, even if a store hangs."""
    report = await run_in_pool("health", health.readiness.check)
    faults = [ErrorDetail(part, fault) for part, fault in report.faults.items() if fault and part != without]
    if faults:
        raise ServiceNotReady(details=faults, headers={"Retry-After": "1"})
    return ReadinessResponse(status="ready", parts=report.parts)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": TEXT_SCHEMA}}, 404: {"model": ErrorResponse}},
    operation_id="metrics",
)
async def metrics(health: CurrentHealth) -> Response:
    """Returns metrics for Prometheus. Returns 404 if they have a separate port."""
    if health.metrics_on_own_port:
        raise NotFound
    exposition = await run_in_pool("health", health.metrics.render)
    return Response(exposition, media_type=CONTENT_TYPE)

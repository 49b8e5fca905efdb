"""For whoever watches over the service: alive, ready, and in figures."""

from fastapi import APIRouter, Response
from sqlalchemy import func, select, text

from copydesk import __version__
from copydesk.jobs.tables import jobs, runs
from copydesk.web.jobs import OpenDesk
from copydesk.web.views import ErrorView

router = APIRouter(tags=["operations"])


@router.get("/healthz", operation_id="healthz")
def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz", responses={503: {"model": ErrorView}}, operation_id="readyz")
def readyz(desk: OpenDesk) -> dict[str, str]:
    """The stores can be reached."""
    with desk.database.read() as tx:
        tx.execute(text("select 1"))
    return {"status": "ready"}


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, 503: {"model": ErrorView}},
    operation_id="metrics",
)
def metrics(desk: OpenDesk) -> Response:
    """Jobs by status and runs by state, for Prometheus."""
    with desk.database.read() as tx:
        by_status = tx.execute(select(jobs.c.status, func.count()).group_by(jobs.c.status)).all()
        by_state = tx.execute(
            select(runs.c.state, func.count()).where(runs.c.state != "done").group_by(runs.c.state)
        ).all()
    lines = ["# HELP copydesk_jobs Jobs by status.", "# TYPE copydesk_jobs gauge"]
    lines += [f'copydesk_jobs{{status="{status}"}} {count}' for status, count in by_status]
    lines += ["# HELP copydesk_runs Runs that wait or are under way.", "# TYPE copydesk_runs gauge"]
    lines += [f'copydesk_runs{{state="{state}"}} {count}' for state, count in by_state]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

"""The commands `copydesk serve`, `copydesk work`, `copydesk mcp` and `copydesk demo`."""

import logging
import os
import signal
import socket
from errno import EADDRINUSE
from typing import TYPE_CHECKING, Annotated

import typer

from copydesk.cli.output import ProjectOption, fail

if TYPE_CHECKING:
    from copydesk.core.settings import Settings
    from copydesk.desk import Desk

log = logging.getLogger(__name__)

HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port to listen on.")]


app = typer.Typer(rich_markup_mode=None)


@app.command()
def serve(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Serve only the API. Run 'copydesk work' separately.")
    ] = False,
    metrics_port: Annotated[
        int,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve /metrics on this separate port, out of users' reach; 0 for none.",
        ),
    ] = 0,
) -> None:
    """Runs the API and a worker in one process. Uses the embedded stores, unless the settings name others."""
    from copydesk.core.runtime import memory
    from copydesk.core.runtime.open_files import raise_open_files_limit
    from copydesk.core.settings import read_settings
    from copydesk.core.telemetry import logs, traces
    from copydesk.desk import open_desk
    from copydesk.web.server import Server

    memory.limit_malloc_arenas()
    raise_open_files_limit()
    settings = read_settings()
    listener = _listen(host, port)
    metrics_listener = _listen(settings.metrics_host, metrics_port, "--metrics-port") if metrics_port else None
    settings = _with_base_url(settings, host, listener.getsockname()[1])
    logs.configure_logging(settings)
    traces.start_tracing()
    desk = open_desk(settings)
    _announce(desk, settings)
    _protect_files(settings)
    server = Server(desk, with_worker=not no_worker)
    if metrics_listener:
        from copydesk.cli.probe_server import serve_probes

        server.health.metrics_on_own_port = True
        serve_probes(metrics_listener, server.health.readiness, server.health.metrics)
    server.run([listener])
    desk.close()
    traces.stop_tracing()


@app.command()
def work() -> None:
    """Runs only a worker. Uses the same database as the server."""
    from copydesk.cli.probe_server import serve_probes
    from copydesk.core.runtime import memory
    from copydesk.core.settings import read_settings
    from copydesk.core.telemetry import logs, traces
    from copydesk.desk import open_desk
    from copydesk.web.operations.metrics import MetricsCollector
    from copydesk.web.operations.readiness import Readiness

    memory.limit_malloc_arenas()
    settings = read_settings()
    logs.configure_logging(settings)
    traces.start_tracing()
    port = settings.metrics_port
    listener = _listen(settings.metrics_host, port, "COPYDESK_METRICS_PORT") if port else None
    desk = open_desk(settings)
    worker = desk.create_worker()
    readiness = Readiness(desk, with_analytics=False)

    def stop(*_: object) -> None:
        if readiness.is_draining or not settings.drain_seconds:
            worker.stop()
        else:
            worker.drain(settings.drain_seconds)
        readiness.is_draining = True

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    if listener:
        serve_probes(listener, readiness, MetricsCollector(desk, readiness, worker))
    _print_or_log(settings, f"Worker {worker.id} is waiting for jobs. Press Ctrl-C to stop.")
    _protect_files(settings)
    worker.run()
    desk.close()
    traces.stop_tracing()


@app.command()
def mcp(project: ProjectOption) -> None:
    """Serves MCP on standard input and output. An assistant starts this command and talks to it.

    Calls the API. Reads COPYDESK_URL and COPYDESK_API_KEY.
    """
    from copydesk.cli.output import open_client
    from copydesk.mcp.installation import INSTALL_HINT, is_sdk_installed

    if not is_sdk_installed():
        fail(f"The optional part for MCP is not installed. {INSTALL_HINT}")
    with open_client(project) as client:
        url, project_id = client.url, client.project
    from copydesk.mcp.stdio import run_stdio_server

    run_stdio_server(url, os.environ["COPYDESK_API_KEY"], project_id)


@app.command()
def demo(
    serve: Annotated[bool, typer.Option("--serve", help="Keep the service running afterwards.")] = False,
    port: PortOption = 0,
) -> None:
    """Runs a sample job up to its pull request.

    Creates a sample repository in a temporary folder. The exit code is 0 if everything worked.
    """
    listener = _listen("127.0.0.1", port)
    typer.echo("Starting Copydesk with temporary data. This takes a few seconds.")
    from copydesk.cli.demo.run import run_demo  # imports the whole service, which takes most of these seconds

    run_demo(listener, keep_serving=serve)


def _protect_files(settings: "Settings") -> None:
    """Makes files private that a copy left readable for other users. Logs a warning if it fails."""
    from copydesk.core.runtime.private_files import make_files_private

    changed, failed = make_files_private(settings)
    if changed:
        log.warning("other users could read %s; the permissions are fixed now", ", ".join(map(str, changed)))
    if failed:
        log.warning(
            "other users can read %s, and this user is not allowed to change the permissions",
            ", ".join(map(str, failed)),
        )


def _announce(desk: "Desk", settings: "Settings") -> None:
    """Prints the address and the first administrator's link. JSON logs, which programs collect, omit the link."""
    _print_or_log(
        settings,
        f"Copydesk is running at {settings.base_url} (data in {settings.data.absolute()}). Press Ctrl-C to stop.",
    )
    if secret := desk.people.create_first_admin_link():
        is_shown = settings.log_format == "text"
        how = f"at {settings.base_url}/join/{secret}" if is_shown else "with: copydesk person first-link"
        _print_or_log(settings, f"There is no administrator yet. Create the first one {how}")


def _print_or_log(settings: "Settings", message: str) -> None:
    if settings.log_format == "json":
        log.info(message)
    else:
        typer.echo(message, err=True)


def _listen(host: str, port: int, setting: str = "--port") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address in parentheses
        hint = f" Choose another port with {setting}." if error.errno == EADDRINUSE else ""
        fail(f"Cannot listen on {host}:{port}: {reason}.{hint}")


def _with_base_url(settings: "Settings", host: str, port: int) -> "Settings":
    """Returns the settings with a base URL for links: the configured one, or the address that the server listens on."""
    if "base_url" in settings.model_fields_set:
        return settings
    link_host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    return settings.model_copy(
        update={"base_url": f"http://{f'[{link_host}]' if ':' in link_host else link_host}:{port}"}
    )

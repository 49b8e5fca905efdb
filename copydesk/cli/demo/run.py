"""The command `copydesk demo`: runs the whole service on one machine, over the real API, with the mechanic."""

import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pygit2
import typer

from copydesk.cli.demo.sample_traffic import generate_week
from copydesk.cli.job_watcher import watch_job
from copydesk.core.settings import Settings, read_settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.workspace.git_repository import create_bare_repository, open_repository
from copydesk.web.server import Server
from copydesk_client import Client

SAMPLE_FOLDER = Path(__file__).parent / "sample"
PROMPT = "Rename docs/setup.md to docs/install.md, and replace “colour” with “color” on every page."
BROKEN_PAGE = "docs/guides/export.md"
BROKEN_SENTENCE = "\nTo change the colours of a chart, see [themes](theme.md).\n"


def run_demo(listener: socket.socket, *, keep_serving: bool) -> None:
    """Runs the demo. Exits with 1 if there is no pull request or the visitor numbers are wrong."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-demo-"))
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = read_settings(data=folder / "data", database_url="", base_url=base_url, model="mechanic")
    desk = open_desk(settings)
    server = Server(desk)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    thread.start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        succeeded = _run_scenario(desk, settings, folder)
        if succeeded and keep_serving:
            link = f"{base_url}/join/{desk.people.create_first_admin_link()}"
            _print_note(f"The service is running. Press Ctrl-C to stop. Dashboard: {link}")
            thread.join()
        elif succeeded:
            _print_note("Add --serve to keep the service running and open these pages.")
    except KeyboardInterrupt:
        succeeded = True
    finally:
        server.stop()
        thread.join(timeout=15)
        desk.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if succeeded else 1)


def _run_scenario(desk: Desk, settings: Settings, folder: Path) -> bool:
    repository = folder / "docs.git"
    create_sample_repository(repository)
    project = desk.projects.create("Demo", repository=str(repository), ref="main", actor="demo")
    _, secret = desk.keys.create(project.id, name="demo", actor="demo")
    _print_step("Sample repository", str(repository))
    _print_step(
        "Project and API key",
        f"COPYDESK_URL={settings.base_url} COPYDESK_PROJECT={project.id} COPYDESK_API_KEY={secret}",
    )
    with Client(settings.base_url, secret, project.id) as client:
        _print_step("Job", f"POST {settings.base_url}/v2/agent/{project.id}/job")
        job = watch_job(client, client.create_job(PROMPT)["id"]).job
        _print_step("Changes", "")
        typer.echo(client.diff(job["id"]).decode())
        if job["prLink"] is None:
            _print_note(f"The job ended as {job['status']} without a pull request: {job['message']}")
            return False
        branch = open_repository(repository).lookup_reference(f"refs/heads/{job['branch']}")
        _print_step("Branch", f"{job['branch']} at {str(branch.target)[:12]}")
        _print_step("Pull request", job["prLink"])
        has_readers = _show_readership(client, f"{settings.base_url}/v1/analytics/{project.id}")
        return has_readers and _show_automation(client, repository)


def _show_readership(client: Client, analytics_url: str) -> bool:
    events = list(generate_week())
    result = client.send_events(events)
    _print_step("One week of sample page views", f"POST {analytics_url}/events")
    typer.echo(f"  {result['accepted']} accepted, {len(result['dropped'])} dropped")
    report = client.visitors()
    _print_step("Visitors", f"GET {analytics_url}/visitors")
    rows = [*report["visitors"], {"path": "whole site", **report["totals"]}]
    typer.echo(f"  {'page':<20}{'human':>8}{'ai':>8}{'total':>8}")
    for row in rows:
        typer.echo(f"  {row['path']:<20}{row['human']:>8}{row['ai']:>8}{row['total']:>8}")
    totals = report["totals"]
    if result["accepted"] != len(events) or totals["human"] + totals["ai"] != totals["total"] + 1:
        _print_note("The numbers are not as expected.")
        return False
    _print_note("One visitor came both as a person and through an assistant. The total counts them once.")
    return True


def _show_automation(client: Client, repository: Path) -> bool:
    """Pushes a page with a broken link, and runs an automation that fixes it. Returns whether it did."""
    page = (SAMPLE_FOLDER / BROKEN_PAGE).read_text("utf-8") + BROKEN_SENTENCE
    commit_files(open_repository(repository), {BROKEN_PAGE: page.encode()}, "Mention the themes")
    automation = client.create_automation(kind="broken_links")
    _print_step("Automation", f"{automation['name']}, every Monday at 6:00 UTC, and now")
    job = watch_job(client, client.run_automation(automation["id"])["jobId"]).job
    [run] = client.list_automation_runs(automation["id"])["runs"]
    typer.echo("".join(f"  {line}\n" for line in client.diff(job["id"]).decode().splitlines() if line[:1] in "+-"))
    _print_step("Outcome of the run", f"{run['outcome'].replace('_', ' ')}: {job['prLink'] or job['message']}")
    return run["outcome"] == "review_needed"


def create_sample_repository(path: Path) -> None:
    """Creates a bare repository of a small documentation site, with one commit on main."""
    files = sorted(file for file in SAMPLE_FOLDER.rglob("*") if file.is_file())
    contents = {file.relative_to(SAMPLE_FOLDER).as_posix(): file.read_bytes() for file in files}
    commit_files(create_bare_repository(path, initial_head="main"), contents, "Sample documentation")


def commit_files(repository: pygit2.Repository, files: Mapping[str, bytes], message: str) -> None:
    """Adds or replaces files on main."""
    index, parents = pygit2.Index(), []
    if "refs/heads/main" in repository.references:
        parents = [repository.lookup_reference("refs/heads/main").target]
        index.read_tree(repository[parents[0]].peel(pygit2.Tree))
    for path, data in files.items():
        index.add(pygit2.IndexEntry(path, repository.create_blob(data), pygit2.enums.FileMode.BLOB))
    author = pygit2.Signature("Copydesk", "copydesk@localhost")
    repository.create_commit("refs/heads/main", author, author, message, index.write_tree(repository), parents)


def _print_step(heading: str, detail: str) -> None:
    typer.echo(f"\n{typer.style(heading, bold=True)}")
    if detail:
        typer.echo(f"  {detail}")


def _print_note(text: str) -> None:
    typer.echo(f"\n{text}")

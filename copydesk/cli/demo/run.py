"""copydesk demo: the whole flow on one machine, over the real API, with the model that needs no network."""

import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import pygit2
import typer

from copydesk.cli.demo.sample_traffic import sample_week
from copydesk.cli.job_watcher import follow
from copydesk.client import Client
from copydesk.core.settings import Settings, read_settings
from copydesk.desk import Desk, open_desk
from copydesk.web.server import Server

SAMPLE = Path(__file__).parent / "sample"
PROMPT = "Rename docs/setup.md to docs/install.md, and replace “colour” with “color” on every page."


def run_demo(*, keep_serving: bool, port: int) -> None:
    """Exits with 1 unless a pull request and the right numbers came of it."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-demo-"))
    listener = socket.create_server(("127.0.0.1", port))
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
        worked = _show(desk, settings, folder)
        if worked and keep_serving:
            _say(f"Serving until Ctrl-C. The dashboard: {base_url}/join/{desk.people.first_link()}")
            thread.join()
    except KeyboardInterrupt:
        worked = True
    finally:
        server.stop()
        thread.join(timeout=15)
        desk.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if worked else 1)


def _show(desk: Desk, settings: Settings, folder: Path) -> bool:
    repository = folder / "docs.git"
    make_sample_repository(repository)
    project = desk.projects.create("Demo", repository=str(repository), ref="main", actor="demo")
    _, secret = desk.keys.create(project.id, name="demo", actor="demo")
    _step("A sample documentation repository", str(repository))
    _step(
        "A project and its API key",
        f"COPYDESK_URL={settings.base_url} COPYDESK_PROJECT={project.id} COPYDESK_API_KEY={secret}",
    )
    with Client(settings.base_url, secret, project.id) as client:
        _step("A job", f"POST {settings.base_url}/v2/agent/{project.id}/job")
        job = follow(client, client.create_job(PROMPT)["id"])
        _step("What it changed", "")
        typer.echo(client.diff(job["id"]).decode())
        if job["prLink"] is None:
            _say(f"The job ended as {job['status']} without a pull request: {job['message']}")
            return False
        pushed = pygit2.Repository(str(repository)).lookup_reference(f"refs/heads/{job['branch']}")
        _step("The branch in the repository", f"{job['branch']} at {str(pushed.target)[:12]}")
        _step("The pull request", job["prLink"])
        return _show_readership(client, f"{settings.base_url}/v1/analytics/{project.id}")


def _show_readership(client: Client, address: str) -> bool:
    events = list(sample_week())
    answer = client.send_events(events)
    _step("A week of page views", f"POST {address}/events")
    typer.echo(f"  {answer['accepted']} accepted, {len(answer['dropped'])} dropped")
    found = client.visitors()
    _step("Who read it", f"GET {address}/visitors")
    rows = [*found["visitors"], {"path": "the whole site", **found["totals"]}]
    typer.echo(f"  {'page':<20}{'human':>8}{'ai':>8}{'total':>8}")
    for row in rows:
        typer.echo(f"  {row['path']:<20}{row['human']:>8}{row['ai']:>8}{row['total']:>8}")
    totals = found["totals"]
    if answer["accepted"] != len(events) or totals["human"] + totals["ai"] != totals["total"] + 1:
        _say("These are not the numbers that were to be expected.")
        return False
    _say("One visitor read as a person and through an assistant: the total counts them once.")
    return True


def make_sample_repository(path: Path) -> None:
    """A small documentation site, as a bare repository with one commit on main."""
    repository = pygit2.init_repository(str(path), bare=True, initial_head="main")
    index = pygit2.Index()
    for file in sorted(p for p in SAMPLE.rglob("*") if p.is_file()):
        blob = repository.create_blob(file.read_bytes())
        index.add(pygit2.IndexEntry(file.relative_to(SAMPLE).as_posix(), blob, pygit2.enums.FileMode.BLOB))
    author = pygit2.Signature("Copydesk", "copydesk@localhost")
    repository.create_commit(
        "refs/heads/main", author, author, "Sample documentation", index.write_tree(repository), []
    )


def _step(heading: str, detail: str) -> None:
    typer.echo(f"\n{typer.style(heading, bold=True)}")
    if detail:
        typer.echo(f"  {detail}")


def _say(text: str) -> None:
    typer.echo(f"\n{text}")

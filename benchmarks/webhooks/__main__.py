"""python -m benchmarks.webhooks [--count 10000] [--endpoints 10] [--hanging 0] [--postgres]: prints the cost.

The receiver runs in a process of its own, so that its CPU is not counted. Hanging endpoints get as many deliveries as
the others and answer nothing.
"""

import argparse
import asyncio
import resource
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from multiprocessing import Process, Queue
from pathlib import Path

from sqlalchemy import event

from copydesk.core.projects.project_events import EventType, record_event
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from tests.support.postgres import dedicated_server, new_database

OK = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
PER_JOB = 4
"""Events of one job, which are sent in order."""


def serve_receiver(ports: "Queue[int]") -> None:
    """Accepts everything at /, and answers nothing at /hang."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST /hang"):
            await reader.read()
        else:
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(OK)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def queue_events(desk: Desk, urls: Sequence[str], count: int) -> tuple[float, int]:
    """Records events for all endpoints. Returns the seconds, and how many deliveries there are."""
    project = desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="benchmark")
    job = {"id": "job_x", "title": "Use color", "summary": "x" * 500, "prompt": "p" * 300, "message": None}
    for url in urls:
        desk.webhooks.endpoints.add(project.id, url, actor="benchmark")
    per_endpoint = count // len(urls)
    started = time.monotonic()
    for number in range(per_endpoint):
        with desk.database.write() as tx:
            key = f"job_{number // PER_JOB}"
            record_event(desk.database, tx, project.id, EventType.JOB_FAILED, key, lambda: {"job": job}, order_key=key)
    return time.monotonic() - started, per_endpoint * len(urls)


def measure(url: str, folder: Path, arguments: argparse.Namespace, port: int) -> None:
    paths = ["hang" if number < arguments.hanging else "ok" for number in range(arguments.endpoints)]
    urls = tuple(f"http://127.0.0.1:{port}/{path}/{number}" for number, path in enumerate(paths))
    settings = Settings(data=folder, database_url=url, webhook_allow_private=True)
    desk = open_desk_lazily(settings)
    seconds, total = queue_events(desk, urls, arguments.count)
    expected = total * (arguments.endpoints - arguments.hanging) // arguments.endpoints
    print(f"queued {total:,} deliveries in {seconds:.1f} s")
    statements = 0

    def count_statement(*_: object) -> None:
        nonlocal statements
        statements += 1

    event.listen(desk.database.engine, "before_cursor_execute", count_statement)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    memory_before, started = usage.ru_maxrss, time.monotonic()
    threading.Thread(target=desk.webhooks.dispatcher.tick, daemon=True).start()
    while count_delivered(desk) < expected:
        time.sleep(0.2)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    print(
        f"delivered {expected:,} in {wall:.1f} s: {expected / wall:.0f} per second, {expected / cpu:.0f} per CPU second"
    )
    growth = (after.ru_maxrss - memory_before) / 1024
    print(f"{statements / expected:.1f} statements each, {after.ru_maxrss / 1024:.0f} MiB at most (+{growth:.0f})")


def count_delivered(desk: Desk) -> int:
    with desk.database.read() as tx:
        query = "select count(*) from event_deliveries where outcome = 'delivered'"
        return int(tx.exec_driver_sql(query).scalar_one())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhooks", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--endpoints", type=int, default=10)
    parser.add_argument("--hanging", type=int, default=0)
    parser.add_argument("--postgres", action="store_true")
    arguments = parser.parse_args()
    ports: Queue[int] = Queue()
    receiver = Process(target=serve_receiver, args=(ports,), daemon=True)
    receiver.start()
    with tempfile.TemporaryDirectory() as folder, dedicated_server() if arguments.postgres else nullcontext():
        url = new_database() if arguments.postgres else ""
        measure(url, Path(folder), arguments, ports.get())
        receiver.kill()


if __name__ == "__main__":
    main()

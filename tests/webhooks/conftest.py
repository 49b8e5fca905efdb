"""Fixtures of webhooks: a desk on each database, its project, and a dispatcher with a short timeout."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from copydesk.core.projects.event_tables import delivery_attempts, event_deliveries
from copydesk.core.projects.project_events import EventType, record_event
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.webhooks.dispatcher import Dispatcher

BASE_URL = "https://copydesk.example.org"


@pytest.fixture
def desk(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("data")
    settings = Settings(data=folder, database_url=migrated_url, base_url=BASE_URL, webhook_allow_private=True)
    opened = open_desk_lazily(settings)
    yield opened
    opened.close()


@pytest.fixture
def project_id(desk: Desk) -> str:
    return desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test").id


class Deliveries:
    """Queues events of a project, and reads and changes their deliveries."""

    def __init__(self, desk: Desk, project_id: str) -> None:
        self.desk = desk
        self.project_id = project_id

    def add_endpoint(self, url: str, **options: Any) -> str:
        created = self.desk.webhooks.endpoints.add(self.project_id, url, actor="test", **options)
        return created.endpoint.id

    def record(
        self, number: int = 1, job: str | None = None, event_type: EventType = EventType.FEEDBACK_CREATED
    ) -> None:
        """Records an event with a number, in the order of a job if one is named."""
        feedback = {"id": "fb_1", "path": f"/{number}", "helpful": None, "comment": str(number)}
        with self.desk.database.write() as tx:
            data = {"feedback": feedback, "number": number}
            event_type = EventType.FEEDBACK_CREATED
            record_event(self.desk.database, tx, self.project_id, event_type, "x", lambda: data, order_key=job)

    def make_dispatcher(self, timeout_seconds: float = 2.0, **options: Any) -> Dispatcher:
        real = self.desk.webhooks.dispatcher
        changed = real.options._replace(timeout_seconds=timeout_seconds, **options)
        return Dispatcher(self.desk.webhooks.outbox, self.desk.secrets, changed)

    def send_due(self, **options: Any) -> None:
        self.make_dispatcher(**options).tick()

    def list_rows(self) -> list[Any]:
        with self.desk.database.read() as tx:
            return list(tx.execute(select(event_deliveries).order_by(event_deliveries.c.id)).all())

    def list_attempts(self) -> list[Any]:
        with self.desk.database.read() as tx:
            return list(tx.execute(select(delivery_attempts).order_by(delivery_attempts.c.at)).all())

    def change(self, **values: Any) -> None:
        with self.desk.database.write() as tx:
            tx.execute(update(event_deliveries).where(event_deliveries.c.outcome.is_(None)).values(**values))

    def make_due(self) -> None:
        self.change(next_attempt_at=0)


@pytest.fixture
def deliveries(desk: Desk, project_id: str) -> Deliveries:
    return Deliveries(desk, project_id)


@pytest.fixture
def numbers() -> Callable[[Any], list[int]]:
    """Returns a function that lists the numbers of the events that a receiver got, in order."""
    return lambda receiver: [request.json["data"]["number"] for request in receiver.requests]

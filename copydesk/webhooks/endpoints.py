"""The webhook endpoints of a project: where its events go, which ones, and with which secret they are signed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import projects
from copydesk.core.errors import Conflict, InvalidRequest, NotFound, ProjectNotFound
from copydesk.core.ids import is_id, new_id
from copydesk.core.projects.event_tables import event_deliveries, webhook_endpoints
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.projects.project_events import EventType, delete_deliveries
from copydesk.core.projects.sealed_secrets import SealedSecrets
from copydesk.webhooks.signatures import new_secret
from copydesk.webhooks.targets import ALLOW_HINT, TargetRefused, find_addresses, mask_url, parse_target

FORMATS = ("json", "slack")
EVENT_TYPES = tuple(event_type.value for event_type in EventType if event_type is not EventType.TEST)
MAX_ENDPOINTS = 20
SECRET_OVERLAP_MS = clock.DAY
"""How long deliveries are also signed with the previous secret after a rotation."""
LONG_FAILURE_MS = clock.HOUR
"""An endpoint that has failed for this long is shown as failing."""

endpoints = webhook_endpoints


class WebhookNotFound(NotFound):
    code = "webhook_not_found"
    message = "Webhook not found in this project."


class TooManyWebhooks(Conflict):
    code = "too_many_webhooks"
    message = f"A project can have {MAX_ENDPOINTS} webhooks. Remove one before you add another."


class WebhookAlreadyCreated(Conflict):
    code = "webhook_already_created"
    message = "This form was already submitted. The secret was shown then; rotate it to get a new one."


@dataclass(frozen=True)
class Endpoint:
    id: str
    project_id: str
    shown_url: str
    """The URL without what may be secret."""
    format: str
    events: tuple[str, ...]
    enabled: bool
    is_gone: bool
    """Whether the receiver answered 410, which disabled the endpoint."""
    created_at: int
    created_by: str
    previous_secret_until: int | None
    last_success_at: int | None
    failing_since: int | None
    last_error: str | None

    @property
    def is_failing_long(self) -> bool:
        return self.failing_since is not None and self.failing_since + LONG_FAILURE_MS < clock.now()

    @property
    def state(self) -> str:
        """Returns `enabled`, `disabled`, `gone`, or `failing` for one that has failed for long."""
        if not self.enabled:
            return "gone" if self.is_gone else "disabled"
        return "failing" if self.is_failing_long else "enabled"


class CreatedEndpoint(NamedTuple):
    endpoint: Endpoint
    secret: str


class RefusedEndpoint(NamedTuple):
    endpoint: Endpoint
    reason: str


ENDPOINT_COLUMNS = tuple(endpoints.c[field.name] for field in fields(Endpoint))


class Endpoints:
    def __init__(self, database: Database, secrets: SealedSecrets, *, allow_private: bool) -> None:
        self.database = database
        self.secrets = secrets
        self.allow_private = allow_private

    def add(
        self,
        project_id: str,
        url: str,
        *,
        payload_format: str = "json",
        events: Sequence[str] = (),
        endpoint_id: str | None = None,
        actor: str,
    ) -> CreatedEndpoint:
        """Adds an endpoint. Returns it with its secret, which cannot be shown again. No events means all.

        Resolves the URL's host, so call it in a thread. A caller that may submit twice passes `endpoint_id`, and gets
        WebhookAlreadyCreated instead of a second endpoint.
        """
        if endpoint_id is not None and not is_id(endpoint_id, "hook"):
            raise InvalidRequest("This is not the ID of a webhook. Reload the page and try again.")
        endpoint_id = endpoint_id or new_id("hook")
        values: dict[str, Any] = {
            "id": endpoint_id,
            "project_id": project_id,
            "shown_url": self._check_url(url, validate_format(payload_format)),
            "format": payload_format,
            "events": list(validate_events(events or EVENT_TYPES)),
            "enabled": True,
            "is_gone": False,
            "created_at": clock.now(),
            "created_by": actor,
            "is_slow": False,
            "hold_until": 0,
        }
        secret = new_secret()
        try:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                if tx.execute(select(projects.c.id).where(projects.c.id == project_id)).first() is None:
                    raise ProjectNotFound
                self._require_room(tx, project_id)
                tx.execute(endpoints.insert().values(values))
                self.secrets.store_in(tx, project_id, url_secret_name(endpoint_id), url)
                self.secrets.store_in(tx, project_id, endpoint_id, secret)
                shown = {"url": values["shown_url"], "events": values["events"]}
                audit_log.record(tx, project_id, actor, "webhook.added", endpoint_id, **shown)
        except IntegrityError:
            raise WebhookAlreadyCreated from None
        return CreatedEndpoint(self.get(project_id, endpoint_id), secret)

    def get(self, project_id: str, endpoint_id: str) -> Endpoint:
        """Returns an endpoint. Raises WebhookNotFound for an unknown one and another project's one alike."""
        with self.database.read() as tx:
            return self.get_in(tx, project_id, endpoint_id)

    def get_in(self, tx: Connection, project_id: str, endpoint_id: str) -> Endpoint:
        same_row = (endpoints.c.id == endpoint_id) & (endpoints.c.project_id == project_id)
        row = tx.execute(select(*ENDPOINT_COLUMNS).where(same_row)).first() if is_id(endpoint_id, "hook") else None
        if row is None:
            raise WebhookNotFound
        return _endpoint_from_row(row)

    def list_for_project(self, project_id: str) -> list[Endpoint]:
        """Returns the endpoints of a project, oldest first."""
        query = select(*ENDPOINT_COLUMNS).where(endpoints.c.project_id == project_id).order_by(endpoints.c.id)
        with self.database.read() as tx:
            return [_endpoint_from_row(row) for row in tx.execute(query)]

    def list_unhealthy(self) -> list[Endpoint]:
        """Returns the endpoints of all projects that have failed for long or are gone."""
        is_unhealthy = endpoints.c.is_gone | (endpoints.c.failing_since < clock.now() - LONG_FAILURE_MS)
        with self.database.read() as tx:
            rows = tx.execute(select(*ENDPOINT_COLUMNS).where(is_unhealthy).order_by(endpoints.c.id)).all()
        return [each for each in map(_endpoint_from_row, rows) if each.enabled or each.is_gone]

    def list_refused(self) -> list[RefusedEndpoint]:
        """Returns the enabled endpoints of all projects to which nothing is sent, because the address is not allowed.

        Checks each URL with the settings of this process, and reads the last error, because the settings of the service
        can differ. Resolves the hosts.
        """
        with self.database.read() as tx:
            rows = tx.execute(select(*ENDPOINT_COLUMNS).where(endpoints.c.enabled).order_by(endpoints.c.id)).all()
        checked = [(each, self._find_refusal(each)) for each in map(_endpoint_from_row, rows)]
        return [RefusedEndpoint(endpoint, refusal) for endpoint, refusal in checked if refusal]

    def _find_refusal(self, endpoint: Endpoint) -> str | None:
        """Returns why the address is not allowed, or None. A host that is not found is another problem."""
        messages = [endpoint.last_error or ""]
        url = self.secrets.all(endpoint.project_id).get(url_secret_name(endpoint.id))
        try:
            if url is not None:
                self._check_url(url, endpoint.format)
        except InvalidRequest as refusal:
            messages.append(str(refusal))
        return next((message for message in messages if ALLOW_HINT in message), None)

    def count(self) -> int:
        """Returns how many endpoints all projects have."""
        with self.database.read() as tx:
            return tx.execute(select(func.count()).select_from(endpoints)).scalar_one()

    def change(
        self,
        project_id: str,
        endpoint_id: str,
        *,
        url: str | None = None,
        payload_format: str | None = None,
        events: Sequence[str] | None = None,
        enabled: bool | None = None,
        actor: str,
    ) -> Endpoint:
        """Changes what is not None. Enabling an endpoint forgets its earlier failures.

        A new URL needs no new secret. Resolves its host, so call this in a thread.
        """
        endpoint = self.get(project_id, endpoint_id)
        values: dict[str, Any] = {}
        if payload_format is not None:
            values["format"] = validate_format(payload_format)
        chosen_format = values.get("format", endpoint.format)
        if url is not None:
            values["shown_url"] = self._check_url(url, chosen_format)
        elif chosen_format != endpoint.format:
            stored_url = self.secrets.get(project_id, url_secret_name(endpoint_id)) or ""
            values["shown_url"] = self._check_url(stored_url, chosen_format)
        if events is not None:
            values["events"] = list(validate_events(events))
        if enabled is not None:
            values["enabled"] = enabled
        if enabled or url is not None:
            values |= {"is_gone": False, "failing_since": None, "last_error": None, "is_slow": False, "hold_until": 0}
        if values:
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                if not tx.execute(update(endpoints).where(endpoints.c.id == endpoint_id).values(values)).rowcount:
                    raise WebhookNotFound
                if url is not None:
                    self.secrets.store_in(tx, project_id, url_secret_name(endpoint_id), url)
                names = ("shown_url", "format", "events", "enabled")
                shown = {name.removeprefix("shown_"): values[name] for name in names if name in values}
                audit_log.record(tx, project_id, actor, "webhook.changed", endpoint_id, **shown)
        return self.get(project_id, endpoint_id)

    def rotate_secret(self, project_id: str, endpoint_id: str, *, actor: str) -> CreatedEndpoint:
        """Creates a new secret. For a day, deliveries are signed with the secret before, too."""
        secret = new_secret()
        before = self.secrets.get(project_id, endpoint_id)
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            self.get_in(tx, project_id, endpoint_id)
            until = clock.now() + SECRET_OVERLAP_MS
            tx.execute(update(endpoints).where(endpoints.c.id == endpoint_id).values(previous_secret_until=until))
            if before is not None:
                self.secrets.store_in(tx, project_id, previous_secret_name(endpoint_id), before)
            self.secrets.store_in(tx, project_id, endpoint_id, secret)
            audit_log.record(tx, project_id, actor, "webhook.secret_rotated", endpoint_id)
        return CreatedEndpoint(self.get(project_id, endpoint_id), secret)

    def remove(self, project_id: str, endpoint_id: str, *, actor: str) -> Endpoint:
        """Removes an endpoint with its deliveries, also those that wait, and its secrets."""
        with self.database.write() as tx:
            tx.execute(select(endpoints.c.id).where(endpoints.c.id == endpoint_id).with_for_update())
            endpoint = self.get_in(tx, project_id, endpoint_id)
            delete_deliveries(tx, select(event_deliveries.c.id).where(event_deliveries.c.endpoint_id == endpoint_id))
            tx.execute(delete(endpoints).where(endpoints.c.id == endpoint_id))
            for name in (endpoint_id, url_secret_name(endpoint_id), previous_secret_name(endpoint_id)):
                self.secrets.delete_in(tx, project_id, name)
            audit_log.record(tx, project_id, actor, "webhook.removed", endpoint_id, url=endpoint.shown_url)
        return endpoint

    def _check_url(self, url: str, payload_format: str) -> str:
        """Returns the URL as it is shown. Raises InvalidRequest if it cannot be used."""
        target = parse_target(url.strip(), allow_private=self.allow_private)
        try:
            find_addresses(target, allow_private=self.allow_private)
        except TargetRefused as refusal:
            raise InvalidRequest(str(refusal)) from None
        return mask_url(target, hide_path=payload_format == "slack")

    def _require_room(self, tx: Connection, project_id: str) -> None:
        count = select(func.count()).select_from(endpoints).where(endpoints.c.project_id == project_id)
        if tx.execute(count).scalar_one() >= MAX_ENDPOINTS:
            raise TooManyWebhooks


def url_secret_name(endpoint_id: str) -> str:
    return f"{endpoint_id}_url"


def previous_secret_name(endpoint_id: str) -> str:
    return f"{endpoint_id}_previous"


def validate_format(payload_format: str) -> str:
    if payload_format not in FORMATS:
        raise InvalidRequest(f"Unknown format '{payload_format[:40]}'. Use {' or '.join(FORMATS)}.")
    return payload_format


def validate_events(events: Sequence[str]) -> tuple[str, ...]:
    """Returns the events in their usual order. Raises InvalidRequest for unknown events, or if there are none."""
    for event in events:
        if event not in EVENT_TYPES:
            raise InvalidRequest(f"Unknown event '{event[:40]}'. Use {', '.join(EVENT_TYPES)}.")
    if not events:
        raise InvalidRequest("Choose at least one event.")
    return tuple(event for event in EVENT_TYPES if event in events)


def _endpoint_from_row(row: Row[Any]) -> Endpoint:
    return Endpoint(**{**row._mapping, "events": tuple(row.events)})

"""Effects of a project's options on its views, and how soon a change of options applies."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.analytics.classification import ip_ranges
from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import run_pipeline
from copydesk.analytics.ingest.raw_view import RawView, raw_view_from_event
from copydesk.analytics.ingest.site_registry import AiClassesChanging, SiteRegistry, ranges_file
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.core.clock import DAY, now
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from tests.support import migrated_databases

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    opened = open_desk(Settings(data=tmp_path, database_url=migrated_databases.new_sqlite(tmp_path)))
    yield opened
    opened.close()


@pytest.fixture
def sites(desk: Desk) -> SiteRegistry:
    return desk.sites


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="/srv/docs", ref="main", actor="test")


def convert_view(sites: SiteRegistry, project: Project, path: str = "/", ago: int = 0) -> PageView:
    event = Event(path=path, ip="192.0.2.7", user_agent=BROWSER, timestamp=now() - ago)
    raw = raw_view_from_event(event, sites.for_project(project), now())
    assert isinstance(raw, RawView), raw
    kept = run_pipeline(raw)
    assert isinstance(kept, PageView), kept
    return kept


def test_a_visitor_is_the_same_in_every_process_that_has_the_projects_key(
    desk: Desk, sites: SiteRegistry, project: Project
) -> None:
    other = SiteRegistry(desk.projects, desk.secrets, Path())
    assert convert_view(sites, project).visitor == convert_view(other, project).visitor


def test_two_projects_do_not_share_their_visitors(desk: Desk, sites: SiteRegistry, project: Project) -> None:
    other = desk.projects.create("Blog", repository="/srv/blog", ref="main", actor="test")
    assert convert_view(sites, project).visitor != convert_view(sites, other).visitor


def test_changed_options_apply_to_the_next_view(desk: Desk, sites: SiteRegistry, project: Project) -> None:
    assert convert_view(sites, project, "/docs/start").path == "/docs/start"
    assert convert_view(sites, project).visitor == convert_view(sites, project, ago=2 * DAY).visitor
    project = desk.projects.change(project.id, {"base_path": "/docs", "privacy": "daily"}, actor="test")
    assert convert_view(sites, project, "/docs/start").path == "/start"
    assert convert_view(sites, project, "/docs/").visitor != convert_view(sites, project, "/docs/", ago=2 * DAY).visitor


def test_site_is_found_by_its_public_id(sites: SiteRegistry, project: Project) -> None:
    found, site = sites.find_by_site_id(project.site_id)
    assert (found.id, site.project_id) == (project.id, project.id)


def test_refreshed_address_ranges_apply_immediately(desk: Desk, sites: SiteRegistry, project: Project) -> None:
    assert convert_view(sites, project).kind is VisitorClass.HUMAN
    shipped = next(listed for listed in ip_ranges.load_shipped_lists() if listed.kind is VisitorClass.ASSISTANT)
    listed = replace(shipped, fetched="2099-01-01", prefixes=("192.0.2.0/24",))
    ranges_file(desk.settings.data).write_text(ip_ranges.format_range_lists([listed]))
    assert convert_view(sites, project).kind is VisitorClass.ASSISTANT


def test_damaged_address_ranges_fall_back_to_the_bundled_ones(
    desk: Desk, sites: SiteRegistry, project: Project
) -> None:
    ranges_file(desk.settings.data).write_text("{")
    assert convert_view(sites, project).kind is VisitorClass.HUMAN


def test_request_gives_up_waiting_while_ai_classes_are_changed(
    desk: Desk, sites: SiteRegistry, project: Project
) -> None:
    with sites._ai_classes_lock, pytest.raises(AiClassesChanging):
        sites.apply_ai_classes(project, desk.store, timeout_seconds=0.1)
    sites.apply_ai_classes(project, desk.store, timeout_seconds=0.1)

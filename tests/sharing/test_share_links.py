"""Links in the database: their limits, and their owners."""

from collections.abc import Iterator

import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest, ProjectNotFound
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.sharing import share_links, tables
from copydesk.sharing.share_links import ShareLinks, ShareNotFound, TooManyShares


@pytest.fixture
def desk(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    opened = open_desk_lazily(Settings(data=tmp_path_factory.mktemp("data"), database_url=migrated_url))
    yield opened
    opened.close()


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="https://example.org/docs", ref="main", actor="test")


@pytest.fixture
def links(desk: Desk) -> ShareLinks:
    return desk.sharing.links


def test_token_opens_its_link_and_project(links: ShareLinks, project: Project) -> None:
    created = links.create(project.id, parts=["missing", "overview"], actor="test")
    opened = links.open(created.token)
    assert (opened.link, opened.project) == (created.link, project)
    assert opened.link.parts == ("overview", "missing")
    assert links.open(created.token, "missing").link == created.link
    for part in ("pages", "badge", "jobs"):
        with pytest.raises(ShareNotFound):
            links.open(created.token, part)


def test_expired_link_does_not_open(links: ShareLinks, project: Project) -> None:
    created = links.create(project.id, expires_in=clock.HOUR, actor="test")
    assert links.open(created.token)
    expired = links.create(project.id, expires_in=1, actor="test")
    assert created.link.is_active
    while expired.link.is_active:
        pass
    with pytest.raises(ShareNotFound):
        links.open(expired.token)


def test_link_of_another_project_cannot_be_revoked(desk: Desk, links: ShareLinks, project: Project) -> None:
    other = desk.projects.create("Other", repository="https://example.org/other", ref="main", actor="test")
    created = links.create(project.id, actor="test")
    with pytest.raises(ShareNotFound):
        links.revoke(other.id, created.link.id, actor="test")
    assert links.open(created.token)


def test_number_of_active_links_is_limited(
    links: ShareLinks, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_links, "MAX_ACTIVE_LINKS", 2)
    first = links.create(project.id, actor="test")
    links.create(project.id, actor="test")
    with pytest.raises(TooManyShares):
        links.create(project.id, actor="test")
    links.revoke(project.id, first.link.id, actor="test")
    links.create(project.id, actor="test")


def test_expired_links_do_not_count_towards_the_limit(
    links: ShareLinks, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_links, "MAX_ACTIVE_LINKS", 1)
    expired = links.create(project.id, expires_in=clock.HOUR, actor="test").link
    with pytest.raises(TooManyShares):
        links.create(project.id, actor="test")
    with links.database.write() as tx:
        tx.execute(update(tables.share_links).where(tables.share_links.c.id == expired.id).values(expires_at=1))
    current = links.create(project.id, expires_in=clock.HOUR, actor="test").link
    assert current.is_active
    with pytest.raises(TooManyShares):
        links.create(project.id, actor="test")


def test_invalid_links_are_refused(links: ShareLinks, project: Project) -> None:
    for parts in (["badge", "pages"], ["jobs"], ["feedback"], [""]):
        with pytest.raises(InvalidRequest):
            links.create(project.id, parts=parts, actor="test")
    for name in ("a\nb", "x" * 201):
        with pytest.raises(InvalidRequest):
            links.create(project.id, name=name, actor="test")
    with pytest.raises(InvalidRequest):
        links.create(project.id, expires_in=clock.DAY * 4000, actor="test")
    with pytest.raises(ProjectNotFound):
        links.create("proj_none", actor="test")


def test_commands_create_list_and_revoke(desk: Desk, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(desk.settings.data))
    monkeypatch.setenv("COPYDESK_DATABASE_URL", desk.settings.database_url)
    run = CliRunner()
    url = run.invoke(app, ["share", "create", "--project", "Docs", "--show", "badge", "--quiet"]).stdout.strip()
    token = url.split("/")[-2]
    link = desk.sharing.links.open(token, "badge").link
    listed = run.invoke(app, ["share", "list", "--project", "Docs"])
    assert listed.stdout.split("\t")[:4] == [link.id, "Shared analytics", "badge", "active"]
    assert run.invoke(app, ["share", "revoke", link.id, "--project", "Docs"]).exit_code == 0
    with pytest.raises(ShareNotFound):
        desk.sharing.links.open(token, "badge")
    refused = run.invoke(app, ["share", "create", "--project", "Docs", "--show", "jobs"])
    assert refused.exit_code != 0

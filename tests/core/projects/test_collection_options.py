"""A project's options for its views."""

import pytest

from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.projects import SiteNotFound
from copydesk.desk import Desk


def test_typed_values_are_parsed() -> None:
    chosen = CollectionOptions().with_values(
        {
            "origins": "https://Docs.example.com/, https://*.example.org",
            "base_path": "docs/",
            "page_parameters": "version,lang",
            "ai_classes": "training,assistant,training",
            "privacy": "daily",
            "do_not_track": "true",
            "raw_retention_days": "90",
        }
    )
    assert chosen.origins == ("https://docs.example.com", "https://*.example.org")
    assert chosen.base_path == "/docs"
    assert chosen.page_parameters == ("version", "lang")
    assert chosen.ai_classes == ("assistant", "training")
    assert (chosen.privacy, chosen.do_not_track, chosen.raw_retention_days) == ("daily", True, 90)
    assert chosen.with_values({"raw_retention_days": "", "base_path": "/"}) == chosen.with_values(
        {"raw_retention_days": None, "base_path": ""}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origins", "docs.example.com"),
        ("origins", "https://docs.example.com/path"),
        ("origins", "*"),
        ("origins", "https://evil.example.com@docs.example.com"),
        ("base_path", "/docs?x=1"),
        ("base_path", "/../docs"),
        ("base_path", "/a\nb"),
        ("ai_classes", "human"),
        ("privacy", "hourly"),
        ("raw_retention_days", "0"),
        ("raw_retention_days", "soon"),
        ("collect", "yes"),
    ],
)
def test_invalid_value_is_refused_with_its_field_name(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        CollectionOptions().with_values({name: value})
    assert [detail.field for detail in refusal.value.details] == [name]


def test_policy_and_collection_options_change_together(desk: Desk) -> None:
    project = desk.projects.create("Docs", repository="/srv/docs", ref="main", actor="test")
    desk.projects.change(project.id, {"draft": "true", "base_path": "/docs"}, actor="test")
    kept = desk.projects.get_by_site_id(project.site_id)
    assert kept.id == project.id
    assert (kept.policy.draft, kept.collecting.base_path) == (True, "/docs")


def test_unknown_site_is_not_found(desk: Desk) -> None:
    with pytest.raises(SiteNotFound):
        desk.projects.get_by_site_id("site_nobody")


def test_service_secret_is_created_once_and_hidden_from_people(desk: Desk) -> None:
    project = desk.projects.create("Docs", repository="/srv/docs", ref="main", actor="test")
    made = desk.secrets.get_or_create(project.id, "visitor_key")
    assert desk.secrets.get_or_create(project.id, "visitor_key") == made
    assert len(bytes.fromhex(made)) == 32
    assert desk.secrets.read_update_times(project.id) == {}
    with pytest.raises((InvalidRequest, NotFound)):
        desk.secrets.remove(project.id, "visitor_key", actor="test")
    assert desk.secrets.get_or_create(project.id, "visitor_key") == made

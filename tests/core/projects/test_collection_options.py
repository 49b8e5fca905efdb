"""What a project may choose about its views."""

import pytest

from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.projects.collection_options import CollectionOptions
from copydesk.core.projects.projects import SiteNotFound
from copydesk.desk import Desk


def test_what_a_person_types_is_understood() -> None:
    chosen = CollectionOptions().with_values(
        {
            "origins": "https://Docs.example.com/, https://*.example.org",
            "base_path": "docs/",
            "kept_parameters": "version,lang",
            "ai_classes": "training,assistant,training",
            "privacy": "daily",
            "do_not_track": "true",
            "raw_days": "90",
        }
    )
    assert chosen.origins == ("https://docs.example.com", "https://*.example.org")
    assert chosen.base_path == "/docs"
    assert chosen.kept_parameters == ("version", "lang")
    assert chosen.ai_classes == ("assistant", "training")
    assert (chosen.privacy, chosen.do_not_track, chosen.raw_days) == ("daily", True, 90)
    assert chosen.with_values({"raw_days": "", "base_path": "/"}) == chosen.with_values(
        {"raw_days": None, "base_path": ""}
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
        ("raw_days", "0"),
        ("raw_days", "soon"),
        ("collect", "yes"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        CollectionOptions().with_values({name: value})
    assert [detail.field for detail in refusal.value.details] == [name]


def test_the_choices_of_both_halves_are_changed_at_once(desk: Desk) -> None:
    project = desk.projects.create("Docs", repository="/srv/docs", ref="main", actor="test")
    desk.projects.change(project.id, {"draft": "true", "base_path": "/docs"}, actor="test")
    kept = desk.projects.get_by_site_id(project.site_id)
    assert kept.id == project.id
    assert (kept.policy.draft, kept.collecting.base_path) == (True, "/docs")


def test_a_site_that_nobody_has_is_not_found(desk: Desk) -> None:
    with pytest.raises(SiteNotFound):
        desk.projects.get_by_site_id("site_nobody")


def test_a_secret_of_the_service_is_made_once_and_is_not_a_persons_to_see_or_remove(desk: Desk) -> None:
    project = desk.projects.create("Docs", repository="/srv/docs", ref="main", actor="test")
    made = desk.secrets.get_or_create(project.id, "visitor_key")
    assert desk.secrets.get_or_create(project.id, "visitor_key") == made
    assert len(bytes.fromhex(made)) == 32
    assert desk.secrets.read_update_times(project.id) == {}
    with pytest.raises((InvalidRequest, NotFound)):
        desk.secrets.remove(project.id, "visitor_key", actor="test")
    assert desk.secrets.get_or_create(project.id, "visitor_key") == made

"""API keys: their format, their access, and their end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from copydesk.core import audit_log, clock
from copydesk.core.accounts.api_keys import ApiKeys, KeyNotFound, parse_lifetime
from copydesk.core.db.tables import keys, limits
from copydesk.core.errors import AddressRefused, InvalidRequest, KeyRejected, ProjectNotFound, ScopeMissing
from copydesk.core.ids import BASE62, is_wellformed_key, new_id, new_key
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.desk import Desk


def test_a_key_has_the_prefix_32_random_characters_and_a_checksum() -> None:
    key = new_key()
    assert key.startswith("desk_")
    assert len(key) == 5 + 32 + 6
    assert is_wellformed_key(key)


@given(st.integers(0, 37), st.sampled_from(BASE62))
def test_checksum_detects_a_typo_without_a_lookup(position: int, letter: str) -> None:
    key = new_key()
    typo = key[: 5 + position] + letter + key[6 + position :]
    assert is_wellformed_key(typo) == (typo == key)


@given(st.text())
def test_no_other_text_is_accepted_as_a_key(text: str) -> None:
    assert not is_wellformed_key(text)
    assert not is_wellformed_key(f"desk_{text}")


def test_the_key_itself_is_not_stored(desk: Desk, project: Project) -> None:
    _, secret = desk.keys.create(project.id, actor="ada")
    with desk.database.read() as tx:
        stored = str(tx.execute(select(keys)).mappings().one())
    assert secret not in stored
    assert secret[9:20] not in stored


def test_scopes_default_to_both_and_write_implies_read(desk: Desk, project: Project) -> None:
    assert desk.keys.create(project.id, actor="ada")[0].scopes == ("read", "write")
    assert desk.keys.create(project.id, scopes=["write"], actor="ada")[0].scopes == ("read", "write")
    reader, secret = desk.keys.create(project.id, scopes=["read"], actor="ada")
    assert reader.scopes == ("read",)
    desk.keys.authenticate(secret, project.id, "read", None)
    with pytest.raises(ScopeMissing):
        desk.keys.authenticate(secret, project.id, "write", None)


def test_a_key_for_events_has_no_other_scope_and_write_includes_it(desk: Desk, project: Project) -> None:
    sender, secret = desk.keys.create(project.id, scopes=["events"], actor="ada")
    assert sender.scopes == ("events",)
    assert desk.keys.create(project.id, scopes=["events", "read"], actor="ada")[0].scopes == ("read", "events")
    assert desk.keys.create(project.id, scopes=["events", "write"], actor="ada")[0].scopes == ("read", "write")
    desk.keys.authenticate(secret, project.id, "events", None)
    for scope in ("read", "write"):
        with pytest.raises(ScopeMissing):
            desk.keys.authenticate(secret, project.id, scope, None)


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0", "10.0.0.0/0", "somewhere", "1.2.3.4/33", ""])
def test_allow_list_that_admits_everyone_or_is_invalid_is_refused(desk: Desk, project: Project, network: str) -> None:
    with pytest.raises(InvalidRequest):
        desk.keys.create(project.id, allow=[network], actor="ada")


@pytest.mark.parametrize(
    ("address", "admitted"),
    [
        ("192.0.2.7", True),
        ("192.0.3.7", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("::ffff:192.0.2.7", True),
        (None, False),
        ("testclient", False),
    ],
)
def test_allow_list_admits_only_its_addresses(
    desk: Desk, project: Project, address: str | None, admitted: bool
) -> None:
    _, secret = desk.keys.create(project.id, allow=["192.0.2.0/24", "2001:db8::/32"], actor="ada")
    if admitted:
        desk.keys.authenticate(secret, project.id, "read", address)
    else:
        with pytest.raises(AddressRefused):
            desk.keys.authenticate(secret, project.id, "read", address)


def test_an_expired_key_is_rejected(desk: Desk, project: Project) -> None:
    key, secret = desk.keys.create(project.id, expires_in=parse_lifetime("1h"), actor="ada")
    desk.keys.authenticate(secret, project.id, "read", None)
    with desk.database.write() as tx:
        tx.execute(update(keys).where(keys.c.id == key.id).values(expires_at=clock.now()))
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(secret, project.id, "read", None)


def test_revoked_key_is_rejected_and_revoking_is_idempotent(desk: Desk, project: Project) -> None:
    key, secret = desk.keys.create(project.id, actor="ada")
    first = desk.keys.revoke(key.id, actor="grace")
    assert desk.keys.revoke(key.id, actor="grace") == first
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(secret, project.id, "read", None)
    with pytest.raises(KeyNotFound):
        desk.keys.revoke(new_id("key"), actor="grace")


def test_a_key_opens_no_other_project(desk: Desk, project: Project) -> None:
    other = desk.projects.create("Other", repository="/srv/other.git", ref="main", actor="ada")
    _, secret = desk.keys.create(project.id, actor="ada")
    with pytest.raises(ProjectNotFound):
        desk.keys.authenticate(secret, other.id, "read", None)


def test_last_use_is_recorded(desk: Desk, project: Project) -> None:
    _, secret = desk.keys.create(project.id, actor="ada")
    assert desk.keys.list_for_project(project.id)[0].last_used_at is None
    key, _ = desk.keys.authenticate(secret, project.id, "read", None)
    assert key.should_record_use
    desk.keys.record_use(key)
    assert not desk.keys.authenticate(secret, project.id, "read", None)[0].should_record_use
    noted = desk.keys.list_for_project(project.id)[0].last_used_at
    assert noted is not None
    assert abs(noted - clock.now()) < 10_000


def test_at_most_ten_keys_per_project_and_hour(desk: Desk, project: Project) -> None:
    for _ in range(10):
        desk.keys.create(project.id, actor="ada")
    with pytest.raises(TooManyRequests) as refusal:
        desk.keys.create(project.id, actor="ada")
    assert 3590 <= int(refusal.value.headers["Retry-After"]) <= 3600
    other = desk.projects.create("Other", repository="/srv/other.git", ref="main", actor="ada")
    desk.keys.create(other.id, actor="ada")
    with desk.database.write() as tx:
        tx.execute(update(limits).values(started_at=clock.now() - clock.HOUR - 1))
    desk.keys.create(project.id, actor="ada")


def test_every_change_of_a_key_or_project_is_in_the_audit_log(desk: Desk, project: Project) -> None:
    key, secret = desk.keys.create(project.id, name="ci", actor="ada")
    desk.keys.revoke(key.id, actor="grace")
    entries = audit_log.list_entries(desk.database, project.id)
    seen = [(entry["action"], entry["actor"], entry["subject"]) for entry in entries]
    assert seen == [
        ("key.revoked", "grace", key.id),
        ("key.created", "ada", key.id),
        ("project.created", "ada", project.id),
    ]
    assert secret not in str(entries)


@pytest.mark.parametrize("text", ["", "90", "d", "0d", "-1d", "90 days", "1.5d", "999999d"])
def test_a_lifetime_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_lifetime(text)
    assert parse_lifetime("90d") == 90 * clock.DAY


@pytest.fixture
def mint_keys(desk: Desk) -> ApiKeys:
    return ApiKeys(desk.database, 1000, ["mint_"])


def test_key_with_an_extra_prefix_is_created_and_accepted(mint_keys: ApiKeys, desk: Desk, project: Project) -> None:
    _, secret = mint_keys.create(project.id, prefix="mint_", actor="ada")
    assert secret.startswith("mint_")
    assert len(secret) == 5 + 32 + 6
    assert mint_keys.authenticate(secret, project.id, "write", None)[1].id == project.id
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(secret, project.id, "write", None)  # this service does not accept the prefix
    with pytest.raises(InvalidRequest, match="COPYDESK_EXTRA_KEY_PREFIXES"):
        desk.keys.create(project.id, prefix="mint_", actor="ada")


def test_imported_key_is_accepted_and_stored_as_a_digest(mint_keys: ApiKeys, desk: Desk, project: Project) -> None:
    secret = "mint_" + "x1Y2z3" * 4
    key, _ = mint_keys.create(project.id, name="Old", scopes=["read"], imported=secret, actor="ada")
    assert mint_keys.authenticate(secret, project.id, "read", None)[0].id == key.id
    with pytest.raises(ScopeMissing):
        mint_keys.authenticate(secret, project.id, "write", None)
    with desk.database.read() as tx:
        assert secret not in str(tx.execute(select(keys)).mappings().all())
    mint_keys.revoke(key.id, actor="ada")
    with pytest.raises(KeyRejected):
        mint_keys.authenticate(secret, project.id, "read", None)


@pytest.mark.parametrize(
    "secret", ["", "mint_", "mint_short", "desk_" + "x" * 38, "mint_" + "ä" * 30, "x" * 40, "mint_" + "x" * 201]
)
def test_key_that_is_no_secret_with_an_extra_prefix_is_not_imported(
    mint_keys: ApiKeys, project: Project, secret: str
) -> None:
    with pytest.raises(InvalidRequest, match="An imported key must begin with a prefix"):
        mint_keys.create(project.id, imported=secret, actor="ada")


def test_key_is_imported_once(mint_keys: ApiKeys, desk: Desk, project: Project) -> None:
    other = desk.projects.create("Other", repository="/srv/other.git", ref="main", actor="ada")
    mint_keys.create(project.id, imported="mint_" + "x" * 24, actor="ada")
    with pytest.raises(InvalidRequest, match="imported before"):
        mint_keys.create(other.id, imported="mint_" + "x" * 24, actor="ada")

"""Accounts, roles, invitations and sessions, on each database."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import delete, insert, select, update

from copydesk.core import audit_log, clock
from copydesk.core.accounts import passwords
from copydesk.core.accounts.password_resets import PasswordResets
from copydesk.core.accounts.people import InvitationGone, LastAdmin, NotInvited, WrongPassword
from copydesk.core.accounts.person import Person
from copydesk.core.accounts.sign_in_limits import ATTEMPTS_KEPT_MS, SIGN_IN_LIMIT_PER_ADDRESS, SIGN_IN_LIMIT_PER_PERSON
from copydesk.core.db.tables import audit as log
from copydesk.core.db.tables import invitations, keys, limits, people, project_roles, sessions
from copydesk.core.errors import Conflict, InvalidRequest, KeyRejected
from copydesk.core.projects.projects import Project
from copydesk.core.rate_limits.limits import TooManyRequests
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.people import CHEAP_HASHER, PASSWORD, add_person

ISSUER = "https://login.example.org"


@pytest.fixture(scope="module", autouse=True)
def cheap_hashing() -> Iterator[None]:
    """Hashes passwords as usual, but with low cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", lambda: CHEAP_HASHER)
        passwords._dummy_hash.cache_clear()
        yield
    passwords._dummy_hash.cache_clear()


@pytest.fixture(scope="module", params=DATABASES)
def shared_desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("people")
    desk = open_desk(Settings(data=folder, database_url=migrated_databases.new_database(request.param, folder)))
    yield desk
    desk.close()


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    """A desk without accounts."""
    with shared_desk.database.write() as tx:
        for table in (sessions, invitations, project_roles, people, keys, limits, log):
            tx.execute(delete(table))
    return shared_desk


def test_first_link_is_invalid_once_there_is_an_administrator(desk: Desk) -> None:
    older, newer = desk.people.create_first_admin_link(), desk.people.create_first_admin_link()
    assert older
    assert newer
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(older)
    add_person(desk, "other@example.org", "admin")
    with pytest.raises(InvitationGone):
        desk.people.accept_invitation(newer, "ada@example.org", "Ada", PASSWORD)
    assert desk.people.create_first_admin_link() is None


def test_invitation_creates_one_account_with_its_role_and_email(desk: Desk) -> None:
    secret = desk.people.invite(" Ada@Example.org ", "editor", actor="test")
    made = desk.people.accept_invitation(secret, "eve@example.org", "Ada", PASSWORD)
    assert (made.email, made.role) == ("ada@example.org", "editor")
    with pytest.raises(InvitationGone):
        desk.people.accept_invitation(secret, "ada@example.org", "Ada", PASSWORD)


def test_invitation_cannot_take_over_an_existing_account(desk: Desk) -> None:
    first, other = (
        desk.people.create_first_admin_link() or "",
        desk.people.invite("ada@example.org", "viewer", actor="test"),
    )
    desk.people.accept_invitation(first, "ada@example.org", "Ada", PASSWORD)
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(other)


def test_refused_password_does_not_use_up_the_link(desk: Desk) -> None:
    secret = desk.people.invite("ada@example.org", "viewer", actor="test")
    for password in ("short", "x" * 1001):
        with pytest.raises(InvalidRequest):
            desk.people.accept_invitation(secret, "", "Ada", password)
    assert desk.people.get_invitation(secret).email == "ada@example.org"


def test_link_used_concurrently_creates_one_account(desk: Desk) -> None:
    secret, outcomes = desk.people.create_first_admin_link() or "", list[str]()

    def use(number: int) -> None:
        try:
            outcomes.append(desk.people.accept_invitation(secret, f"{number}@example.org", "One", PASSWORD).role)
        except InvitationGone:
            outcomes.append("gone")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["admin", "gone"]


def test_expired_invitation_is_refused(desk: Desk) -> None:
    secret = desk.people.invite("ada@example.org", "viewer", actor="test")
    with desk.database.write() as tx:
        tx.execute(update(invitations).values(expires_at=clock.now() - 1))
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(secret)
    assert desk.people.list_invitations() == []


def test_second_invitation_invalidates_the_first_link(desk: Desk) -> None:
    older = desk.people.invite("ada@example.org", "viewer", actor="test")
    newer = desk.people.invite("ada@example.org", "admin", actor="test")
    assert desk.people.get_invitation(newer).role == "admin"
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(older)
    desk.people.withdraw_invitation("ada@example.org", actor="test")
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(newer)


def test_a_reset_sets_a_new_password_and_ends_every_session(desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "editor")
    session = desk.people.sessions.create(ada, "192.0.2.1", "a browser")
    secret = desk.people.create_reset_link(ada, actor="test")
    assert desk.people.get_invitation(secret).is_reset
    assert desk.people.accept_invitation(secret, "eve@example.org", "Eve", PASSWORD) == ada
    assert desk.people.sessions.find_by_secret(session) is None
    assert desk.people.sign_in("Ada@example.org ", PASSWORD, "192.0.2.1") == ada


@pytest.mark.parametrize(
    "email", ["ada", "a@b@c", "ada@example.org\r\nBcc: eve@example.org", "<ada@example.org>", "a b@c"]
)
def test_invalid_email_is_refused(desk: Desk, email: str) -> None:
    with pytest.raises(InvalidRequest):
        desk.people.invite(email, "viewer", actor="test")


def test_longest_email_fits_into_the_audit_log(desk: Desk) -> None:
    email = f"{'a' * 100}@{'b' * 90}"
    desk.people.invite(email, "viewer", actor="test")
    add_person(desk, "ada@example.org", "admin")
    assert audit_log.list_entries(desk.database, audit_log.NO_PROJECT)[0]["details"]["email"] == email


def test_password_guesses_at_one_account_are_limited_across_addresses(desk: Desk) -> None:
    assert sign_in_wrongly(desk, "ada@example.org", "192.0.2.1") is WrongPassword
    set_guess_count(desk, SIGN_IN_LIMIT_PER_PERSON.quota - 1, "sign-in:%")
    assert sign_in_wrongly(desk, "ada@example.org", "192.0.2.2") is WrongPassword
    assert sign_in_wrongly(desk, "ada@example.org", "192.0.2.3") is TooManyRequests


def test_password_guesses_from_one_network_are_limited_across_accounts(desk: Desk) -> None:
    assert sign_in_wrongly(desk, "ada@example.org", "2001:db8::1") is WrongPassword
    set_guess_count(desk, SIGN_IN_LIMIT_PER_ADDRESS.quota, "sign-in-address:%")
    assert sign_in_wrongly(desk, "another@example.org", "2001:db8::ffff") is TooManyRequests
    assert sign_in_wrongly(desk, "another@example.org", "2001:db8:0:1::1") is WrongPassword


def test_counted_sign_in_attempts_are_deleted_after_a_day(desk: Desk) -> None:
    sign_in_wrongly(desk, "ada@example.org", "192.0.2.1")
    sign_in_wrongly(desk, "eve@example.org", "192.0.2.2")
    with desk.database.write() as tx:
        old = limits.c.bucket != "sign-in-address:192.0.2.2"
        tx.execute(update(limits).where(old).values(started_at=limits.c.started_at - ATTEMPTS_KEPT_MS - 1000))
        tx.execute(insert(limits).values(bucket="jobs:proj_1", started_at=1, used=1))
    sign_in_wrongly(desk, "bob@example.org", "192.0.2.3")
    with desk.database.read() as tx:
        buckets = set(tx.execute(select(limits.c.bucket)).scalars())
    assert {"sign-in-address:192.0.2.2", "sign-in-address:192.0.2.3", "jobs:proj_1"} < buckets
    assert len(buckets) == 4


def set_guess_count(desk: Desk, times: int, which: str) -> None:
    with desk.database.write() as tx:
        assert tx.execute(update(limits).where(limits.c.bucket.like(which)).values(used=times)).rowcount


def sign_in_wrongly(desk: Desk, email: str, address: str | None) -> type[Exception]:
    with pytest.raises((WrongPassword, TooManyRequests)) as refused:
        desk.people.sign_in(email, "x" * 2000, address)
    return refused.type


def test_correct_password_works_after_earlier_wrong_guesses(desk: Desk) -> None:
    add_person(desk, "ada@example.org", "admin")
    assert sign_in_wrongly(desk, "ada@example.org", None) is WrongPassword
    set_guess_count(desk, SIGN_IN_LIMIT_PER_PERSON.quota - 1, "sign-in:%")
    for _ in range(2):
        assert desk.people.sign_in("ada@example.org", PASSWORD, "192.0.2.1").role == "admin"


def test_a_new_password_needs_the_old_one_and_ends_all_other_sessions(desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "admin")
    here, there = (desk.people.sessions.create(ada, None, "") for _ in range(2))
    found = desk.people.sessions.find_by_secret(here)
    assert found
    with pytest.raises(InvalidRequest):
        desk.people.change_password(ada, "a guess", "another password", found[1].id)
    desk.people.change_password(ada, PASSWORD, "another password", found[1].id)
    assert desk.people.sessions.find_by_secret(here)
    assert desk.people.sessions.find_by_secret(there) is None
    assert desk.people.sign_in("ada@example.org", "another password", None) == ada


def test_last_administrator_cannot_be_removed_or_demoted(desk: Desk) -> None:
    ada, eve = add_person(desk, "ada@example.org", "admin"), add_person(desk, "eve@example.org", "viewer")
    with pytest.raises(LastAdmin):
        desk.people.remove(ada.id, actor="test")
    with pytest.raises(LastAdmin):
        desk.people.change_role(ada.id, "editor", actor="test")
    desk.people.change_role(eve.id, "admin", actor="test")
    desk.people.change_role(ada.id, "editor", actor="test")
    assert [person.role for person in desk.people.all()] == ["editor", "admin"]


def test_two_administrators_who_remove_each_other_at_once_leave_one(desk: Desk) -> None:
    both = [add_person(desk, "ada@example.org", "admin"), add_person(desk, "eve@example.org", "admin")]
    refused = []

    def remove(person: Person) -> None:
        try:
            desk.people.remove(person.id, actor="test")
        except LastAdmin:
            refused.append(person)

    threads = [threading.Thread(target=remove, args=(person,)) for person in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert desk.people.all() == refused
    assert len(refused) == 1


def test_removing_a_person_revokes_their_keys_and_ends_their_sessions(desk: Desk, project: Project) -> None:
    add_person(desk, "ada@example.org", "admin")
    eve = add_person(desk, "eve@example.org", "admin")
    _, key = desk.keys.create(project.id, name="CI", actor=eve.email)
    desk.keys.create(project.id, name="Another's", actor="ada@example.org")
    session = desk.people.sessions.create(eve, "192.0.2.1", "a browser")
    link = desk.people.create_reset_link(eve, actor="test")
    assert desk.people.count_keys_by_creator() == {"eve@example.org": 1, "ada@example.org": 1}
    assert desk.people.remove(eve.id, actor="ada@example.org") == 1
    assert desk.people.sessions.find_by_secret(session) is None
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(key, project.id, "read", None)
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(link)
    assert desk.people.count_keys_by_creator() == {"ada@example.org": 1}


def test_demoting_an_administrator_revokes_their_keys_and_links(desk: Desk, project: Project) -> None:
    ada = add_person(desk, "ada@example.org", "admin")
    eve = add_person(desk, "eve@example.org", "admin")
    _, key = desk.keys.create(project.id, name="CI", actor=eve.email)
    _, other = desk.keys.create(project.id, name="Another's", actor=ada.email)
    links = [
        desk.people.invite("friend@example.org", "admin", actor=eve.email),
        desk.people.create_reset_link(ada, actor=eve.email),
    ]
    desk.keys.authenticate(key, project.id, "write", None)
    assert [(each.key.name, each.project_name) for each in desk.keys.list_created_by(eve.email)] == [
        ("CI", project.name)
    ]
    assert desk.people.change_role(eve.id, "editor", actor=ada.email) == 1
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(key, project.id, "read", None)
    desk.keys.authenticate(other, project.id, "write", None)
    for link in links:
        with pytest.raises(InvitationGone):
            desk.people.accept_invitation(link, "friend@example.org", "Friend", PASSWORD)
    assert desk.keys.list_created_by(eve.email) == []
    with desk.database.read() as tx:
        rows = tx.execute(select(log.c.action, log.c.actor, log.c.details)).all()
    told = {row.action: (row.actor, row.details) for row in rows}
    assert told["key.revoked"] == (ada.email, {"because": "eve@example.org is no longer an administrator"})
    assert told["person.role_changed"] == (
        ada.email,
        {
            "email": eve.email,
            "before": "admin",
            "role": "editor",
            "links_withdrawn": 2,
            "keys": "1 revoked",
        },
    )


def test_keys_of_a_demoted_administrator_can_be_kept(desk: Desk, project: Project) -> None:
    add_person(desk, "ada@example.org", "admin")
    eve = add_person(desk, "eve@example.org", "admin")
    _, key = desk.keys.create(project.id, name="CI", actor=eve.email)
    assert desk.people.change_role(eve.id, "viewer", actor="test", keep_keys=True) == 0
    desk.keys.authenticate(key, project.id, "write", None)
    assert desk.people.change_role(eve.id, "editor", actor="test") == 0, "which is no loss"
    desk.keys.authenticate(key, project.id, "write", None)


def test_links_of_a_removed_administrator_are_invalid(desk: Desk) -> None:
    ada, eve = add_person(desk, "ada@example.org", "admin"), add_person(desk, "eve@example.org", "admin")
    links = [
        desk.people.invite("friend@example.org", "admin", actor=eve.email),
        desk.people.create_reset_link(ada, actor=eve.email),
    ]
    desk.people.remove(eve.id, actor=ada.email)
    for link in links:
        with pytest.raises(InvitationGone):
            desk.people.get_invitation(link)


def test_session_ends_by_expiry_and_only_by_its_own_person(desk: Desk) -> None:
    ada, eve = add_person(desk, "ada@example.org", "viewer"), add_person(desk, "eve@example.org", "viewer")
    secret = desk.people.sessions.create(ada, "192.0.2.1", "a browser")
    [session] = desk.people.sessions.list_for_person(ada.id)
    desk.people.sessions.end(eve, session.id)
    assert desk.people.sessions.find_by_secret(secret) == (ada, session)
    with desk.database.write() as tx:
        tx.execute(update(sessions).values(expires_at=clock.now() - 1))
    assert desk.people.sessions.find_by_secret(secret) is None
    assert desk.people.sessions.list_for_person(ada.id) == []


def test_ending_other_sessions_keeps_this_one_and_those_of_others(desk: Desk) -> None:
    ada, eve = add_person(desk, "ada@example.org", "viewer"), add_person(desk, "eve@example.org", "viewer")
    secrets = [desk.people.sessions.create(person, None, "a browser") for person in (ada, ada, ada, eve)]
    [_, kept, _] = desk.people.sessions.list_for_person(ada.id)
    assert desk.people.sessions.end_others(ada, kept.id) == 2
    assert desk.people.sessions.list_for_person(ada.id) == [kept]
    assert desk.people.sessions.find_by_secret(secrets[3]) is not None


def test_people_are_found_by_their_open_sessions_only(desk: Desk) -> None:
    ada, eve = add_person(desk, "ada@example.org", "viewer"), add_person(desk, "eve@example.org", "editor")
    for person in (ada, eve):
        desk.people.sessions.create(person, "192.0.2.1", "a browser")
    [open_session] = desk.people.sessions.list_for_person(ada.id)
    [expired] = desk.people.sessions.list_for_person(eve.id)
    assert desk.people.sessions.find_people([open_session.id, expired.id]) == {open_session.id: ada, expired.id: eve}
    with desk.database.write() as tx:
        tx.execute(update(sessions).where(sessions.c.id == expired.id).values(expires_at=clock.now() - 1))
    assert desk.people.sessions.find_people([open_session.id, expired.id, "sess_unknown"]) == {open_session.id: ada}


def test_no_secret_is_in_the_database(desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "admin")
    link = desk.people.invite("eve@example.org", "viewer", actor="test")
    session = desk.people.sessions.create(ada, "192.0.2.1", "a browser")
    with desk.database.read() as tx:
        kept = str([tx.execute(select(table)).all() for table in (people, invitations, sessions, log)])
    assert [secret for secret in (PASSWORD, link, session) if secret in kept] == []


def test_oidc_sign_in_matches_subject_then_email_then_invitation(desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "editor")
    assert desk.people.sign_in_with_provider("1", ISSUER, "Ada@example.org", "Ada", None) == ada
    assert desk.people.sign_in_with_provider("1", ISSUER, "renamed@example.org", "Ada", None) == ada
    desk.people.invite("eve@example.org", "admin", actor="test")
    assert desk.people.sign_in_with_provider("2", ISSUER, "eve@example.org", "Eve", "viewer").role == "admin"
    assert desk.people.list_invitations() == []
    assert desk.people.sign_in_with_provider("3", ISSUER, "new@example.org", "", "viewer").name == "new@example.org"
    with pytest.raises(NotInvited):
        desk.people.sign_in_with_provider("4", ISSUER, "stranger@example.org", "", None)


def test_email_reassigned_at_the_provider_opens_no_existing_account(desk: Desk) -> None:
    desk.people.sign_in_with_provider("1", ISSUER, "ada@example.org", "Ada", "viewer")
    with pytest.raises(NotInvited):
        desk.people.sign_in_with_provider("2", ISSUER, "ada@example.org", "Eve", "viewer")
    moved = desk.people.sign_in_with_provider("2", "https://id.example.org", "ada@example.org", "Ada", None)
    assert moved.email == "ada@example.org"


def test_oidc_account_has_no_password(desk: Desk) -> None:
    ada = desk.people.sign_in_with_provider("1", ISSUER, "ada@example.org", "Ada", "viewer")
    assert not desk.people.has_password(ada)
    with pytest.raises(WrongPassword):
        desk.people.sign_in("ada@example.org", "", None)
    with pytest.raises(Conflict):
        desk.people.change_password(ada, "", PASSWORD, "")


def test_forgotten_password_brings_a_link_only_to_people_who_have_one(desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "viewer")
    desk.people.sign_in_with_provider("1", ISSUER, "eve@example.org", "Eve", "viewer")
    resets = PasswordResets(desk.people)
    link = resets.create_link(ada.email)
    assert link is not None
    assert link.person == ada
    assert resets.create_link("eve@example.org") is None
    assert [invitation.email for invitation in desk.people.list_invitations()] == [ada.email]


def test_audit_log_pages_are_stable_during_writes(desk: Desk) -> None:
    with desk.database.write() as tx:
        for number in range(7):
            audit_log.record(tx, "proj_a", "ada" if number % 2 else "eve", f"act.{number}", "")
        audit_log.record(tx, "proj_b", "ada", "act.other", "")
    first = audit_log.list_entries(desk.database, "proj_a", 3)
    with desk.database.write() as tx:
        audit_log.record(tx, "proj_a", "ada", "act.late", "")
    second = audit_log.list_entries(desk.database, "proj_a", 10, before=audit_log.encode_cursor(first[-1]))
    assert [entry["action"] for entry in first + second] == [f"act.{number}" for number in range(6, -1, -1)]
    assert [
        entry["action"] for entry in audit_log.list_entries(desk.database, "proj_a", actor="eve", action="act.4")
    ] == ["act.4"]
    assert audit_log.list_actions_and_actors(desk.database, "proj_b") == (["act.other"], ["ada"])
    with pytest.raises(InvalidRequest):
        audit_log.list_entries(desk.database, "proj_a", before="1.' or 1=1 --")

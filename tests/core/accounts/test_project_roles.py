"""Roles in single projects, and invitations to them, on each database."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete, select

from copydesk.core import audit_log
from copydesk.core.accounts import passwords
from copydesk.core.accounts.people import InvitationGone
from copydesk.core.accounts.person import GLOBAL_ROLES, NO_ROLE, ROLES, Person, PersonNotFound
from copydesk.core.db.tables import audit, invitations, keys, people, project_roles, sessions
from copydesk.core.errors import InvalidRequest, KeyRejected, ProjectNotFound
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.people import CHEAP_HASHER, PASSWORD, add_person

ADMIN = "boss@example.org"


@pytest.fixture(scope="module", autouse=True)
def cheap_hashing() -> Iterator[None]:
    """Hashes passwords as usual, but with low cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", lambda: CHEAP_HASHER)
        yield


@pytest.fixture(scope="module", params=DATABASES)
def shared_desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("access")
    desk = open_desk(Settings(data=folder, database_url=migrated_databases.new_database(request.param, folder)))
    yield desk
    desk.close()


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    """A desk with one account, an administrator's."""
    with shared_desk.database.write() as tx:
        for table in (sessions, invitations, project_roles, people, keys, audit):
            tx.execute(delete(table))
    add_person(shared_desk, ADMIN, "admin")
    return shared_desk


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")


@pytest.fixture
def other(desk: Desk) -> Project:
    return desk.projects.create("Other", repository="/srv/other.git", ref="main", actor="test")


@pytest.fixture
def eve(desk: Desk) -> Person:
    return add_person(desk, "eve@example.org", NO_ROLE)


def read_person(desk: Desk, person: Person) -> Person:
    """Returns the person as a request of a session sees them."""
    known = desk.people.sessions.find_by_secret(desk.people.sessions.create(person, None, "a test"))
    assert known
    return known[0]


def list_actions(desk: Desk, project_id: str) -> list[str]:
    entries = audit_log.list_entries(desk.database, project_id)
    return [entry["action"] for entry in reversed(entries) if entry["action"].startswith("access.")]


@pytest.mark.parametrize("everywhere", GLOBAL_ROLES)
@pytest.mark.parametrize("here", GLOBAL_ROLES)
def test_the_role_that_allows_more_counts(everywhere: str, here: str) -> None:
    person = Person("pers_1", "eve@example.org", "Eve", everywhere, 0, {"proj_1": here} if here != NO_ROLE else {})
    assert person.role_in("proj_1") == max(everywhere, here, key=GLOBAL_ROLES.index)
    assert person.role_in("proj_2") == everywhere
    assert person.sees("proj_2") is (everywhere != NO_ROLE)
    for role in ROLES:
        assert person.may(role) is (GLOBAL_ROLES.index(everywhere) >= GLOBAL_ROLES.index(role))


def test_role_in_a_project_is_seen_by_open_sessions_at_once(
    desk: Desk, project: Project, other: Project, eve: Person
) -> None:
    secret = desk.people.sessions.create(eve, None, "a test")
    roles_seen = []
    for role in ("viewer", "admin", "editor", NO_ROLE):
        desk.people.project_roles.set_role(eve.id, project.id, role, actor=ADMIN)
        known = desk.people.sessions.find_by_secret(secret)
        assert known
        roles_seen.append(known[0].role_in(project.id))
        assert not known[0].sees(other.id)
    assert roles_seen == ["viewer", "admin", "editor", NO_ROLE]
    assert list_actions(desk, project.id) == ["access.granted", "access.changed", "access.changed", "access.removed"]


def test_setting_the_same_role_again_changes_nothing(desk: Desk, project: Project, eve: Person) -> None:
    for _ in range(2):
        desk.people.project_roles.set_role(eve.id, project.id, "viewer", actor=ADMIN)
    assert list_actions(desk, project.id) == ["access.granted"]
    [member] = desk.people.project_roles.list_members(project.id)
    assert (member.person.email, member.role, member.created_by) == (eve.email, "viewer", ADMIN)


def test_roles_set_at_the_same_time_leave_one_of_them(desk: Desk, project: Project, eve: Person) -> None:
    wanted = [role for role in ROLES for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda role: desk.people.project_roles.set_role(eve.id, project.id, role, actor=ADMIN), wanted))
    assert desk.people.project_roles.load(eve)[project.id] in ROLES


def test_who_was_administrator_of_a_project_loses_the_keys_created_in_it(
    desk: Desk, project: Project, other: Project, eve: Person
) -> None:
    roles = desk.people.project_roles
    secrets = []
    for each in (project, other):
        roles.set_role(eve.id, each.id, "admin", actor=ADMIN)
        secrets.append(desk.keys.create(each.id, actor=eve.email)[1])
    assert roles.set_role(eve.id, project.id, "editor", actor=ADMIN) == 1
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(secrets[0], project.id, "read", None)
    desk.keys.authenticate(secrets[1], other.id, "read", None)
    assert roles.set_role(eve.id, other.id, NO_ROLE, actor=ADMIN, keep_keys=True) == 0
    desk.keys.authenticate(secrets[1], other.id, "read", None)


def test_removed_person_has_no_roles_left(desk: Desk, project: Project, eve: Person) -> None:
    desk.people.project_roles.set_role(eve.id, project.id, "viewer", actor=ADMIN)
    desk.people.remove(eve.id, actor=ADMIN)
    with desk.database.read() as tx:
        assert tx.execute(select(project_roles)).all() == []
    assert list_actions(desk, project.id) == ["access.granted", "access.removed"]


def test_unknown_person_project_or_role_is_refused(desk: Desk, project: Project, eve: Person) -> None:
    roles = desk.people.project_roles
    with pytest.raises(PersonNotFound):
        roles.set_role("pers_0", project.id, "viewer", actor=ADMIN)
    with pytest.raises(ProjectNotFound):
        roles.set_role(eve.id, "proj_0", "viewer", actor=ADMIN)
    with pytest.raises(InvalidRequest):
        roles.set_role(eve.id, project.id, "owner", actor=ADMIN)


def test_invitation_to_a_project_gives_no_other_access(desk: Desk, project: Project, other: Project) -> None:
    secret = desk.people.invite_to_project(" Ada@example.org", project.id, "editor", actor=ADMIN)
    ada = read_person(desk, desk.people.accept_invitation(secret, "x@example.org", "Ada", PASSWORD))
    assert (ada.email, ada.role, ada.project_roles) == ("ada@example.org", NO_ROLE, {project.id: "editor"})
    assert not ada.sees(other.id)
    assert list_actions(desk, project.id) == ["access.invited", "access.joined"]
    assert list_actions(desk, audit_log.NO_PROJECT) == ["access.invited"]


def test_second_invitation_also_gives_what_the_first_gave(desk: Desk, project: Project, other: Project) -> None:
    first = desk.people.invite_to_project("ada@example.org", project.id, "editor", actor=ADMIN)
    second = desk.people.invite_to_project("ada@example.org", other.id, "viewer", actor=ADMIN)
    with pytest.raises(InvitationGone):
        desk.people.get_invitation(first)
    ada = desk.people.accept_invitation(second, "", "Ada", PASSWORD)
    assert desk.people.project_roles.load(ada) == {project.id: "editor", other.id: "viewer"}


def test_invitation_to_all_projects_replaces_one_to_a_project(desk: Desk, project: Project) -> None:
    desk.people.invite_to_project("ada@example.org", project.id, "admin", actor=ADMIN)
    ada = desk.people.accept_invitation(desk.people.invite("ada@example.org", "viewer", actor=ADMIN), "", "A", PASSWORD)
    assert (ada.role, desk.people.project_roles.load(ada)) == ("viewer", {})


def test_invitation_to_a_deleted_project_still_creates_the_account(
    desk: Desk, project: Project, other: Project
) -> None:
    desk.people.invite_to_project("ada@example.org", project.id, "editor", actor=ADMIN)
    secret = desk.people.invite_to_project("ada@example.org", other.id, "editor", actor=ADMIN)
    desk.delete_project(project, actor=ADMIN)
    ada = desk.people.accept_invitation(secret, "", "Ada", PASSWORD)
    assert desk.people.project_roles.load(ada) == {other.id: "editor"}


def test_invited_person_can_join_with_the_identity_provider(desk: Desk, project: Project) -> None:
    desk.people.invite_to_project("ada@example.org", project.id, "editor", actor=ADMIN)
    ada = desk.people.sign_in_with_provider("1", "https://id.example.org", "ada@example.org", "Ada", "admin")
    assert (ada.role, desk.people.project_roles.load(ada)) == (NO_ROLE, {project.id: "editor"})


def test_person_with_an_account_cannot_be_invited_again(desk: Desk, project: Project, eve: Person) -> None:
    with pytest.raises(InvalidRequest, match="already has an account"):
        desk.people.invite_to_project(eve.email, project.id, "viewer", actor=ADMIN)
    with pytest.raises(ProjectNotFound):
        desk.people.invite_to_project("ada@example.org", "proj_0", "viewer", actor=ADMIN)


def test_password_link_changes_no_role(desk: Desk, project: Project, eve: Person) -> None:
    desk.people.project_roles.set_role(eve.id, project.id, "viewer", actor=ADMIN)
    desk.people.accept_invitation(desk.people.create_reset_link(eve, actor=ADMIN), "", "", PASSWORD)
    assert read_person(desk, eve).project_roles == {project.id: "viewer"}

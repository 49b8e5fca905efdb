"""The page /account: a person's name, password and sessions."""

from fastapi import APIRouter, Response

from copydesk.core.accounts.passwords import MIN_PASSWORD_CHARS
from copydesk.core.errors import InvalidRequest, RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.web.dashboard.admin.browser_names import describe_browser
from copydesk.web.dashboard.auth.access import AccountPost, AccountRequest, SignedInRequest
from copydesk.web.dashboard.auth.project_role_names import list_project_roles
from copydesk.web.dashboard.auth.sign_in_flow import provider_name, run_password_check
from copydesk.web.responses.html import render_page
from copydesk.web.responses.redirects import redirect

router = APIRouter()


@router.get("/account")
async def account_page(signed_in: AccountRequest, done: str = "") -> Response:
    return await _render_account_page(signed_in, done=done)


@router.post("/account/password")
async def change_password(post: AccountPost) -> Response:
    old, new, repeated = (post.form.get(name) for name in ("old", "new", "again"))
    try:
        if new != repeated:
            raise InvalidRequest("The new passwords do not match.")
        await run_password_check(post.desk.people.change_password, post.person, old, new, post.session.id)
    except RequestError as error:
        return await _render_account_page(post, error)
    return redirect("/account?done=password")


@router.post("/account/sessions/end")
async def end_session(post: AccountPost) -> Response:
    await run_in_thread(post.desk.people.sessions.end, post.person, post.form.get("session"))
    return redirect("/account?done=session")


@router.post("/account/sessions/end-others")
async def end_other_sessions(post: AccountPost) -> Response:
    await run_in_thread(post.desk.people.sessions.end_others, post.person, post.session.id)
    return redirect("/account?done=sessions")


DONE_MESSAGES = {
    "password": "Your password was changed. All other sessions were ended.",
    "session": "The session was ended.",
    "sessions": "All other sessions were ended.",
}


async def _render_account_page(
    signed_in: SignedInRequest, error: RequestError | None = None, done: str = ""
) -> Response:
    people = signed_in.desk.people
    return render_page(
        "account.html",
        signed_in=signed_in,
        tab="account",
        title="Account",
        project_roles=await run_in_thread(list_project_roles, signed_in.desk, signed_in.person.project_roles),
        has_password=await run_in_thread(people.has_password, signed_in.person),
        provider=provider_name(signed_in.desk.settings),
        sessions=[
            (session, describe_browser(session.agent))
            for session in await run_in_thread(people.sessions.list_for_person, signed_in.person.id)
        ],
        min_password_chars=MIN_PASSWORD_CHARS,
        done=DONE_MESSAGES.get(done, ""),
        error=error,
    )

"""/account: one's own name, password and sessions."""

from fastapi import APIRouter, Response

from copydesk.core.accounts.passwords import SHORTEST
from copydesk.core.errors import InvalidRequest, Refusal
from copydesk.core.runtime.thread_pool import call
from copydesk.web.dashboard.admin.browser_names import in_words
from copydesk.web.dashboard.auth.session import Viewer, ViewerPost, Visit, see
from copydesk.web.dashboard.auth.sign_in_flow import at_the_door, provider_name
from copydesk.web.responses.html import page

router = APIRouter()


@router.get("/account")
async def account(visit: Viewer, done: str = "") -> Response:
    return await _page(visit, done=done)


@router.post("/account/password")
async def change_password(post: ViewerPost) -> Response:
    old, new, again = (post.form.get(name) for name in ("old", "new", "again"))
    try:
        if new != again:
            raise InvalidRequest("The new password was not typed the same way twice.")
        await at_the_door(post.desk.people.change_password, post.person, old, new, post.session.id)
    except Refusal as refusal:
        return await _page(post, refusal)
    return see("/account?done=password")


@router.post("/account/sessions/end")
async def end_session(post: ViewerPost) -> Response:
    await call(post.desk.people.sessions.end, post.person, post.form.get("session"))
    return see("/account?done=session")


@router.post("/account/sessions/end-others")
async def end_others(post: ViewerPost) -> Response:
    await call(post.desk.people.sessions.end_others, post.person, post.session.id)
    return see("/account?done=sessions")


DONE = {
    "password": "Your password is changed; all other sessions have ended.",
    "session": "The session has ended.",
    "sessions": "All other sessions have ended.",
}


async def _page(visit: Visit, refusal: Refusal | None = None, done: str = "") -> Response:
    people = visit.desk.people
    return page(
        "account.html",
        refusal.status if refusal else 200,
        refusal.headers if refusal else None,
        visit=visit,
        tab="account",
        title="Account",
        has_password=await call(people.has_password, visit.person),
        provider=provider_name(visit.desk.settings),
        sessions=[
            (session, in_words(session.agent)) for session in await call(people.sessions.of_person, visit.person.id)
        ],
        shortest=SHORTEST,
        done=DONE.get(done, ""),
        error=refusal.message if refusal else "",
    )

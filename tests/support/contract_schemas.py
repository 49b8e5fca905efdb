"""JSON Schemas of the responses that clients of the original service expect. Written by hand from the contract.

They allow additional fields: responses may gain some. They are independent of the application's own schemas.
"""

from typing import Any

from jsonschema_rs import Draft202012Validator

TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
COUNT = {"type": "integer", "minimum": 0}
FLAG = {"type": "boolean"}


def an_object(**fields: Any) -> dict[str, Any]:
    """Returns the schema of an object with these required fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def a_list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


COUNTS = {"human": COUNT, "ai": COUNT, "total": COUNT}
PAGE_COUNTS = an_object(path={"type": "string", "pattern": "^/"}, **COUNTS)
FEEDBACK_STATUS = {"enum": ["pending", "in_progress", "resolved", "dismissed"]}
ENTRY = {"id": TEXT, "path": TEXT, "comment": TEXT_OR_NULL, "createdAt": TIME, "status": FEEDBACK_STATUS}
RATING = an_object(**ENTRY, source={"enum": ["contextual", "agent", "thumbs_only"]}, helpful=FLAG, contact=TEXT_OR_NULL)
SNIPPET = an_object(**ENTRY, source={"const": "code_snippet"}, code=TEXT, filename=TEXT_OR_NULL, lang=TEXT_OR_NULL)
SESSION = an_object(
    sessionId=TEXT,
    subdomain=TEXT,
    branch=TEXT_OR_NULL,
    haulted=FLAG,
    haultReason={"enum": ["completed", "github_missconfigured", "error", "processing", "interrupted"]},
    pullRequestLink=TEXT,
    messageToUser=TEXT,
    todos=a_list(an_object(content=TEXT, status=TEXT, priority=TEXT, id=TEXT)),
    userId=TEXT,
    title=TEXT,
    createdAt=TIME,
)
CONVERSATION = an_object(
    id=TEXT,
    timestamp=TIME,
    query=TEXT,
    response=TEXT,
    sources=a_list(an_object(title=TEXT, url=TEXT)),
    resolutionStatus={"enum": ["answered", "unanswered"]},
    queryCategory=TEXT_OR_NULL,
    pageUrl=TEXT_OR_NULL,
)

SCHEMAS = {
    "session": SESSION,
    "sessions": an_object(allSessions=a_list(SESSION)),
    "visitors": an_object(totals=an_object(**COUNTS), visitors=a_list(PAGE_COUNTS), hasMore=FLAG),
    "views": an_object(totals=an_object(**COUNTS), views=a_list(PAGE_COUNTS), hasMore=FLAG),
    "agents": an_object(
        agents=a_list(
            an_object(
                agent=TEXT_OR_NULL,
                operator=TEXT_OR_NULL,
                visitors=COUNT,
                views=COUNT,
                **{"class": {"enum": ["human", "assistant", "search", "training", "other"]}},
            )
        ),
        hasMore=FLAG,
    ),
    "timeseries": an_object(
        timeseries=a_list(
            an_object(date={"type": "string", "pattern": r"^\d{4}-\d\d-\d\d"}, views=an_object(**COUNTS), **COUNTS)
        )
    ),
    "feedback": an_object(feedback=a_list({"oneOf": [RATING, SNIPPET]}), nextCursor=TEXT_OR_NULL, hasMore=FLAG),
    "feedback/by-page": an_object(
        feedback=a_list(an_object(path=TEXT, thumbsUp=COUNT, thumbsDown=COUNT, code=COUNT, total=COUNT)), hasMore=FLAG
    ),
    "searches": an_object(
        searches=a_list(
            an_object(
                searchQuery=TEXT,
                hits={"type": "integer", "minimum": 1},
                ctr={"type": "number", "minimum": 0, "maximum": 100},
                topClickedPage=TEXT_OR_NULL,
                lastSearchedAt=TIME,
            )
        ),
        totalSearches=COUNT,
        nextCursor=TEXT_OR_NULL,
    ),
    "assistant": an_object(conversations=a_list(CONVERSATION), nextCursor=TEXT_OR_NULL, hasMore=FLAG),
    "assistant/caller-stats": an_object(web=COUNT, api=COUNT, other=COUNT, total=COUNT),
    "assistant/threads": an_object(
        threadId=TEXT,
        createdAt=TIME,
        messages=a_list(an_object(id=TEXT, role={"enum": ["user", "assistant"]}, content=TEXT, createdAt=TIME)),
    ),
}
CONVERSATION["properties"]["responseType"] = {"enum": ["answer", "clarifying_question"]}


def check_response(name: str, body: Any) -> Any:
    """Returns the body. Raises ValidationError if it does not match the schema of this name."""
    Draft202012Validator(SCHEMAS[name]).validate(body)
    return body

"""Entity tags: what a client has already need not be sent again."""


def etag_matches(etag: str, if_none_match: str) -> bool:
    """Whether the client has the answer with this tag; weak tags will do, since every answer is sent whole."""
    return if_none_match.strip() == "*" or etag in (
        each.strip().removeprefix("W/") for each in if_none_match.split(",")
    )

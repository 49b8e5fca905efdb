"""Entity tags: what a client has already need not be sent again."""


def is_known(tag: str, if_none_match: str) -> bool:
    """Whether the client has the answer with this tag; weak tags will do, since every answer is sent whole."""
    return if_none_match.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in if_none_match.split(","))

"""ETags, which save sending a response that the client already has."""


def etag_matches(etag: str, if_none_match: str) -> bool:
    """Returns whether the client has the response with this ETag. Weak ETags match too: responses are never partial."""
    return if_none_match.strip() == "*" or etag in (
        each.strip().removeprefix("W/") for each in if_none_match.split(",")
    )

"""The part of GitHub's GraphQL API that a publisher needs: only GraphQL converts drafts."""

from collections.abc import Callable
from typing import Any

from graphql import GraphQLError, build_schema, graphql_sync

from tests.support.forges.state import Pull

PUBLISHED_SCHEMA = build_schema("""
type Query { viewer: User! }
type User { login: String! }
type PullRequest { id: ID! number: Int! isDraft: Boolean! state: PullRequestState! title: String! url: String! }
enum PullRequestState { CLOSED MERGED OPEN }
input MarkPullRequestReadyForReviewInput { clientMutationId: String pullRequestId: ID! }
type MarkPullRequestReadyForReviewPayload { clientMutationId: String pullRequest: PullRequest }
input ConvertPullRequestToDraftInput { clientMutationId: String pullRequestId: ID! }
type ConvertPullRequestToDraftPayload { clientMutationId: String pullRequest: PullRequest }
type Mutation {
  markPullRequestReadyForReview(input: MarkPullRequestReadyForReviewInput!): MarkPullRequestReadyForReviewPayload
  convertPullRequestToDraft(input: ConvertPullRequestToDraftInput!): ConvertPullRequestToDraftPayload
}
""")


def execute(login: str, find: Callable[[str], Pull | None], url: str, request: Any) -> dict[str, Any]:
    """Runs a query or mutation; `find` looks up a pull request by node id."""

    def set_draft(draft: bool) -> Callable[..., dict[str, Any]]:
        def resolve(_info: object, input: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
            pull = find(input["pullRequestId"])
            if pull is None:
                raise GraphQLError(f"Could not resolve to a node with the global id of '{input['pullRequestId']}'")
            pull.draft = draft
            return {"clientMutationId": input.get("clientMutationId"), "pullRequest": shape(pull)}

        return resolve

    def shape(pull: Pull) -> dict[str, Any]:
        state = "MERGED" if pull.merged else pull.state.upper()
        page = f"{url}/{pull.repository.path}/pull/{pull.number}"
        about = {"number": pull.number, "isDraft": pull.draft, "state": state, "title": pull.title}
        return {"id": f"PR_{pull.id}", "url": page, **about}

    root = {
        "viewer": {"login": login},
        "markPullRequestReadyForReview": set_draft(False),
        "convertPullRequestToDraft": set_draft(True),
    }
    result = graphql_sync(PUBLISHED_SCHEMA, request.get("query", ""), root, variable_values=request.get("variables"))
    return dict(result.formatted)

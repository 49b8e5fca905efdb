"""The lists of a pull request's own commits, on GitHub and GitLab."""

from typing import Any

import pygit2
from pydantic import BaseModel

from tests.support.forges.calls import Call, Reply, route
from tests.support.forges.gitlab_published import describe_operation
from tests.support.forges.state import list_pull_commits

WHEN = "2024-01-01T00:00:00Z"
GITLAB_COMMITS = "/projects/{id}/merge_requests/{merge_request_iid}/commits"


class GitHubCommits:
    @route(
        "GET",
        "/repos/{owner}/{repo}/pulls/{pull_number:int}/commits",
        "pulls.list_commits",
        needs=("pull_requests=read", "pull_requests=write"),
    )
    def list_commits(self, call: Call) -> Reply:
        """Returns the commits oldest first; those that were pushed after the merge are not among them."""
        own: Any = self
        pull = call.repository.find(int(call.params["pull_number"]))
        if pull is None:
            raise own.refusal(404)
        pull.update_heads()
        commits = [build_github_commit(own.api, commit) for commit in reversed(list_pull_commits(pull))]
        reply: Reply = own.paginate_reply(call, commits)
        return reply


def build_github_commit(api: str, commit: pygit2.Commit) -> dict[str, Any]:
    url = f"{api}/commits/{commit.id}"
    person = {"name": commit.author.name, "email": commit.author.email, "date": WHEN}
    return {
        "sha": str(commit.id),
        "node_id": f"C_{commit.id}",
        "url": url,
        "html_url": url,
        "comments_url": f"{url}/comments",
        "author": None,
        "committer": None,
        "commit": {
            "url": url,
            "message": commit.message,
            "author": person,
            "committer": person,
            "comment_count": 0,
            "tree": {"sha": str(commit.tree_id), "url": url},
        },
        "parents": [{"sha": str(parent), "url": url, "html_url": url} for parent in commit.parent_ids],
    }


class GitLabCommit(BaseModel):
    """A commit, as GitLab documents it."""

    id: str
    short_id: str
    title: str
    author_name: str
    author_email: str
    created_at: str
    message: str


GITLAB_OPERATION = describe_operation(f"GET {GITLAB_COMMITS}", list[GitLabCommit])


class GitLabCommits:
    @route("GET", GITLAB_COMMITS.replace("iid}", "iid:int}"), GITLAB_COMMITS, needs=("api", "read_api"))
    def list_commits(self, call: Call) -> Reply:
        own: Any = self
        pull = own.find_requested_pull(call)
        pull.update_heads()
        reply: Reply = own.paginate_reply(call, [build_gitlab_commit(one) for one in list_pull_commits(pull)])
        return reply


def build_gitlab_commit(commit: pygit2.Commit) -> dict[str, Any]:
    return {
        "id": str(commit.id),
        "short_id": str(commit.id)[:8],
        "title": commit.message.partition("\n")[0],
        "author_name": commit.author.name,
        "author_email": commit.author.email,
        "created_at": WHEN,
        "message": commit.message,
    }

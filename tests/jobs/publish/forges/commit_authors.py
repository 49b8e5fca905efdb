"""The lists of a repository's commits with the accounts of their authors, and a commit's merge requests on GitLab.

An account has the address `LOGIN@example.org`. GitLab's search finds only addresses that their owners publish.
"""

from typing import Any

import pygit2

from tests.jobs.publish.forges.pull_commits import GitLabCommit, build_github_commit, build_gitlab_commit
from tests.support.forges.calls import Call, Reply, route
from tests.support.forges.gitlab_entities import MergeRequestBasic
from tests.support.forges.gitlab_published import describe_operation
from tests.support.forges.state import User

REPO = "/repos/{owner}/{repo}"
GITLAB_LIST = "/projects/{id}/repository/commits"
GITLAB_REQUESTS = GITLAB_LIST + "/{sha}/merge_requests"
MAIL_HOST = "@example.org"


def walk_commits(forge: Any, call: Call, start: str) -> list[pygit2.Commit]:
    repository = pygit2.Repository(str(call.repository.folder))
    if start not in repository:
        raise forge.refusal(404)
    return list(repository.walk(start))


def find_account(forge: Any, commit: pygit2.Commit) -> User | None:
    user: User | None = forge.users.get(commit.author.email.removesuffix(MAIL_HOST))
    return user


class GitHubAuthors:
    @route("GET", REPO + "/commits", "repos.list_commits", needs=("contents=read", "contents=write"))
    def list_repository_commits(self, call: Call) -> Reply:
        """Returns the author's account; an empty object or null if there is none."""
        own: Any = self
        shapes = []
        for commit in walk_commits(own, call, call.query["sha"]):
            user = find_account(own, commit)
            author = own.shapes.user(user) if user else {}
            shapes.append({**build_github_commit(own.api, commit), "author": author})
        reply: Reply = own.paginate_reply(call, shapes)
        return reply


class GiteaAuthors:
    @route("GET", REPO + "/commits", "repository.repo_get_all_commits", needs=("read:repository", "write:repository"))
    def list_repository_commits(self, call: Call) -> Reply:
        own: Any = self
        shapes = []
        for commit in walk_commits(own, call, call.query["sha"]):
            user = find_account(own, commit)
            shape = own.shapes.commit(call.repository, commit)
            shapes.append({**shape, "author": own.shapes.user(user) if user else None})
        reply: Reply = own.paginate_reply(call, shapes)
        return reply


GITLAB_AUTHOR_OPERATIONS = {
    GITLAB_LIST: describe_operation(f"GET {GITLAB_LIST}", list[GitLabCommit]),
    GITLAB_REQUESTS: describe_operation(f"GET {GITLAB_REQUESTS}", list[MergeRequestBasic]),
}


class GitLabAuthors:
    @route("GET", GITLAB_LIST, GITLAB_LIST, needs=("api", "read_api"))
    def list_repository_commits(self, call: Call) -> Reply:
        own: Any = self
        commits = walk_commits(own, call, call.query["ref_name"])
        reply: Reply = own.paginate_reply(call, [build_gitlab_commit(commit) for commit in commits])
        return reply

    @route("GET", GITLAB_REQUESTS, GITLAB_REQUESTS, needs=("api", "read_api"))
    def list_merge_requests_of_commit(self, call: Call) -> Reply:
        """Returns the merge requests that contain the commit or were merged as it."""
        own: Any = self
        pulls = [pull for pull in call.repository.pulls if call.params["sha"] in (pull.sha, pull.merge_sha)]
        reply: Reply = own.paginate_reply(call, [own.shapes.listed_merge_request(pull) for pull in pulls])
        return reply

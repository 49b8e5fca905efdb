"""Finds the rules of a repository that a job's commit would break, before a model is paid for it."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from copydesk.core.text.safe_regex import search_re2
from copydesk.jobs.publish.forges.forge import PlannedCommit

SAMPLE_FILE_NAMES = ("page.md", "guide/page.md")
"""Stand for the files that a job may change. A rule that forbids them all forbids every change of pages."""
SIGN_ADVICE = "Set the secret signing_key, so that Copydesk signs its commits."
EMAIL_ADVICE = "Set author_email to an address that the rule allows."


class PatternParameters(BaseModel):
    operator: str
    pattern: str
    negate: bool | None = False

    def allows(self, text: str) -> bool:
        """Returns whether the rule allows the text. A pattern that cannot be read counts as allowing it."""
        tests = {"starts_with": text.startswith, "ends_with": text.endswith, "contains": lambda part: part in text}
        is_match = tests[self.operator](self.pattern) if self.operator in tests else search_re2(self.pattern, text)
        return is_match is None or is_match != bool(self.negate)


class GitHubRule(BaseModel):
    """One rule of a ruleset that applies to a branch."""

    type: str
    ruleset_id: int | None = None
    parameters: Mapping[str, Any] | None = None


class GitLabPushRules(BaseModel):
    """The push rules of a project; GitLab Premium has them."""

    branch_name_regex: str | None = None
    author_email_regex: str | None = None
    file_name_regex: str | None = None
    reject_unsigned_commits: bool | None = Field(default=False)
    reject_non_dco_commits: bool | None = Field(default=False)
    commit_committer_check: bool | None = Field(default=False)
    member_check: bool | None = Field(default=False)


def find_broken_github_rule(rule: GitHubRule, branch: str, planned: PlannedCommit) -> str | None:
    """Returns what is wrong with a job's commit under this rule, as the end of a sentence; None if nothing is."""
    parameters = rule.parameters or {}
    match rule.type:
        case "creation" | "update":
            return f"has a rule that forbids branches such as {branch}."
        case "required_signatures":
            return None if planned.is_signed else f"has a rule that requires signed commits. {SIGN_ADVICE}"
        case "commit_author_email_pattern" | "committer_email_pattern":
            if not _allows(parameters, planned.author_email):
                return f"has a rule that forbids commits by {planned.author_email}. {EMAIL_ADVICE}"
        case "branch_name_pattern":
            if not _allows(parameters, branch):
                return f"has a rule that forbids branch names such as {branch}. Set branch_prefix."
        case "file_path_restriction":
            patterns = parameters.get("restricted_file_paths")
            if _match_all_samples(patterns, planned.root):
                return f"has a rule that forbids changes below {planned.root or 'its root folder'}."
        case "file_extension_restriction":
            extensions = [str(name).lstrip("*") for name in parameters.get("restricted_file_extensions") or ()]
            if ".md" in extensions or "md" in extensions:
                return "has a rule that forbids pushing .md files."
    return None


def find_broken_gitlab_rules(rules: GitLabPushRules, branch: str, planned: PlannedCommit) -> Iterator[str]:
    """Yields what is wrong with a job's commit under the push rules, as the ends of sentences."""
    is_unknown_address = planned.author_email.endswith("@localhost")
    if rules.branch_name_regex and search_re2(rules.branch_name_regex, branch) is False:
        yield f"has a push rule that forbids branch names such as {branch}. Set branch_prefix."
    if rules.author_email_regex and search_re2(rules.author_email_regex, planned.author_email) is False:
        yield f"has a push rule that forbids commits by {planned.author_email}. {EMAIL_ADVICE}"
    elif is_unknown_address and (rules.commit_committer_check or rules.member_check):
        yield f"has a push rule that allows only addresses of its members as authors. {EMAIL_ADVICE}"
    if rules.reject_unsigned_commits and not planned.is_signed:
        yield f"has a push rule that requires signed commits. {SIGN_ADVICE}"
    if rules.reject_non_dco_commits and not planned.is_signed_off:
        yield "has a push rule that requires a Signed-off-by line. Set sign_off."
    if rules.file_name_regex and all(
        search_re2(rules.file_name_regex, posixpath.join(planned.root, name)) for name in SAMPLE_FILE_NAMES
    ):
        yield "has a push rule that forbids the names of pages such as page.md."


def _allows(parameters: Mapping[str, Any], text: str) -> bool:
    """Returns whether a rule's pattern allows the text. Parameters that cannot be read count as allowing it."""
    try:
        return PatternParameters.model_validate(parameters).allows(text)
    except ValidationError:
        return True


def _match_all_samples(patterns: object, root: str) -> bool:
    """Returns whether the path patterns forbid every sample file below the documentation's folder."""
    if not isinstance(patterns, Sequence) or isinstance(patterns, str):
        return False
    samples = [posixpath.join(root, name) for name in SAMPLE_FILE_NAMES]
    return bool(patterns) and all(
        any(fnmatchcase(sample, str(pattern).replace("**/", "*").replace("**", "*")) for pattern in patterns)
        for sample in samples
    )

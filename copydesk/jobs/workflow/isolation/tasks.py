"""Functions that run in a child process. Their arguments and results are plain data that can be pickled."""

from collections.abc import Sequence
from typing import NamedTuple

from copydesk.jobs.agent import evidence
from copydesk.jobs.agent.conversation import Conversation, Reply
from copydesk.jobs.agent.evidence import Evidence
from copydesk.jobs.agent.mechanic.model import build_reply
from copydesk.jobs.agent.overview.repository_overview import render_overview
from copydesk.jobs.agent.tools.declarations import Declarations
from copydesk.jobs.agent.tools.finish_tools import Citation
from copydesk.jobs.agent.tools.tool import RepositoryArguments, ToolArguments, ToolOutput
from copydesk.jobs.agent.tools.toolbox import TOOLS
from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.pages.redirects import AddressChange, find_new_addresses, find_vanished_addresses
from copydesk.jobs.publish.guard import publish_guard
from copydesk.jobs.publish.guard.executed_files import ExecutedFile, find_executed_files
from copydesk.jobs.publish.guard.external_resources import find_external_resources, find_hosts, format_resources
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.edit_scope import count_reformatted_lines, explain_overreach
from copydesk.jobs.workspace.git_repository import open_repository
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import pair_renames
from copydesk.jobs.workspace.repository_limits import RepositoryLimits
from copydesk.jobs.workspace.workspace import Changes, Workspace


class ContextCopy(NamedTuple):
    """The data needed to open a context repository again in another process."""

    name: str
    repository: str
    commit: str


class WorkspaceCopy(NamedTuple):
    """The data needed to open a workspace again in another process."""

    repository: str
    commit: str
    changes: Changes
    root: str
    allowed_paths: tuple[str, ...]
    """Patterns of protected paths that the project lets jobs change."""
    limits: RepositoryLimits
    contexts: tuple[ContextCopy, ...] = ()

    @classmethod
    def from_workspace(cls, workspace: Workspace, allowed_paths: Sequence[str] = ()) -> "WorkspaceCopy":
        tree = workspace.tree
        contexts = tuple(
            ContextCopy(name, context.tree.repository.path, context.tree.commit)
            for name, context in workspace.contexts.items()
        )
        return cls(
            tree.repository.path,
            tree.commit,
            workspace.changes(),
            workspace.root,
            tuple(allowed_paths),
            tree.limits,
            contexts,
        )

    def open(self) -> Workspace:
        def check_path(path: str) -> None:
            publish_guard.refuse_protected(path, self.allowed_paths, self.root)

        contexts = [
            ContextTree(context.name, open_tree(context.repository, context.commit, self.limits))
            for context in self.contexts
        ]
        workspace = Workspace(open_tree(self.repository, self.commit, self.limits), check_path, self.root, contexts)
        workspace.restore(self.changes)
        return workspace


class ChangeNotes(NamedTuple):
    executed_files: list[ExecutedFile]
    """The changed files that a browser, a build or a host executes."""
    external_addresses: list[str]
    """One line for each address that the change adds."""
    vanished_addresses: list[str]
    """The addresses of the site that the change removes without a redirect."""
    new_addresses: list[AddressChange]
    """The pages that the change adds or shows at another address."""


class Overreach(NamedTuple):
    """A file whose change goes beyond an edit."""

    path: str
    advice: str | None
    """Why the model should take it back; None if the model declared the reason."""
    reformatted_lines: int
    reason: str | None
    """The model's reason for reformatting the file; None if it gave none."""


class ToolOutcome(NamedTuple):
    output: ToolOutput
    changes: Changes | None
    """The workspace's changes after the call; None if the call changed nothing."""


def open_tree(repository: str, commit: str, limits: RepositoryLimits) -> Tree:
    return Tree(open_repository(repository), commit, limits)


def describe_repository(repository: str, commit: str, limits: RepositoryLimits, root: str) -> str:
    """Returns the overview of the repository that a model gets before its first turn."""
    return render_overview(open_tree(repository, commit, limits), root)


def reply_as_mechanic(copy: WorkspaceCopy, conversation: Conversation) -> Reply:
    return build_reply(conversation, copy.open())


def run_tool(copy: WorkspaceCopy, name: str, arguments: ToolArguments) -> ToolOutcome:
    """Runs a tool. Redacts secrets in what it read from a context repository, so that they cannot reach a page."""
    workspace = copy.open()
    output = TOOLS[name].execute(workspace, arguments)
    if isinstance(arguments, RepositoryArguments) and arguments.repository:
        output = output._replace(text=redact_secrets(output.text, ()))
    changes = workspace.changes()
    return ToolOutcome(output, None if changes == copy.changes else changes)


def check_workspace(
    copy: WorkspaceCopy,
    origin_commit: str,
    required_fields: Sequence[str],
    ignored_checks: Sequence[str],
    request: str,
) -> CheckReport:
    """Returns the findings of the checks, divided into those introduced since `origin_commit` and older ones."""
    return check(
        copy.open(),
        root=copy.root,
        required_fields=required_fields,
        ignored=ignored_checks,
        origin=open_tree(copy.repository, origin_commit, copy.limits),
        request=request,
    )


def check_publishable(
    copy: WorkspaceCopy, known_secrets: Sequence[str], texts: Sequence[str], prompts: Sequence[str]
) -> None:
    """Raises PublishRefused unless the change may be published. `known_secrets` must not appear in it."""
    workspace = copy.open()
    publish_guard.check_publishable(
        workspace.tree,
        copy.changes,
        copy.allowed_paths,
        root=copy.root,
        known_secrets=known_secrets,
        texts=texts,
        allowed_hosts=find_hosts(prompts),
    )


def describe_change(copy: WorkspaceCopy) -> ChangeNotes:
    """Returns the executed files and external addresses that the pull request lists for its reviewer."""
    workspace = copy.open()
    tree = workspace.tree
    return ChangeNotes(
        find_executed_files(tree, copy.changes),
        format_resources(find_external_resources(tree, copy.changes)),
        find_vanished_addresses(workspace),
        find_new_addresses(workspace, pair_renames(copy.changes, workspace.read_original)),
    )


def verify_citations(copy: WorkspaceCopy, citations: Sequence[Citation]) -> list[Evidence]:
    return evidence.verify_citations(copy.open(), citations)


def find_overreach(copy: WorkspaceCopy, declarations: Declarations) -> list[Overreach]:
    """Returns the files that were reformatted or rewritten rather than edited, sorted by path."""
    workspace = copy.open()
    overreach = []
    for path, data in sorted(copy.changes.items()):
        old = workspace.read_original(declarations.moves.get(path, path))
        if old is None or data is None:
            continue
        reason = declarations.reformats.get(path)
        advice = explain_overreach(old, data, path in declarations.rewrites, reason is not None)
        line_count = count_reformatted_lines(old, data)
        if advice or line_count:
            overreach.append(Overreach(path, advice, line_count, reason))
    return overreach

"""The agent loop: take up messages, think, act, observe, until the work is finished. Each turn is journalled."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import ColumnElement, Connection, select, update

from copydesk.core.settings import Settings
from copydesk.jobs.agent import stuck_detection as steering
from copydesk.jobs.agent.brief import Brief, Briefable
from copydesk.jobs.agent.conversation import Conversation, Model, ModelFailed, Observed, Prompt, Reply
from copydesk.jobs.agent.models import usage_metrics as spending
from copydesk.jobs.agent.repository_overview import opening
from copydesk.jobs.agent.tool_round import Acted, splices
from copydesk.jobs.agent.tools import LONGEST_SUMMARY, Finished, RunTool, Toolbox, run_here, toolset
from copydesk.jobs.execution.journal import EarlierRun, Journal
from copydesk.jobs.execution.worker import Attempt
from copydesk.jobs.job import JobFailed, Reason, Usage
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.storage.tables import messages
from copydesk.jobs.workspace.git_tree import Tree, with_changes
from copydesk.jobs.workspace.patches import FilePatch, patches_between
from copydesk.jobs.workspace.workspace import Workspace


@dataclass(frozen=True)
class Budget:
    requests: int
    tokens: int
    cost_usd: float

    @classmethod
    def of(cls, settings: Settings) -> "Budget":
        return cls(settings.job_requests, settings.job_tokens, settings.job_cost_usd)

    def check(self, used: Usage) -> None:
        """Before each request: JobFailed when there is nothing left for it."""
        over = None
        if used.requests >= self.requests:
            over = f"{self.requests} model requests"
        elif used.input_tokens + used.output_tokens >= self.tokens:
            over = f"{self.tokens:,} tokens"
        elif used.cost_usd is not None and used.cost_usd >= self.cost_usd:
            over = f"{self.cost_usd} US dollars"
        if over:
            raise JobFailed(f"The job used up its budget of {over} before it was finished.", Reason.BUDGET_EXCEEDED)


class Pinned(BaseModel):
    """What a run starts from. `head` is the job's own branch where it exists already."""

    base: str
    head: str | None

    @property
    def start(self) -> str:
        return self.head or self.base


class Review(BaseModel):
    """What was found when the model took itself for finished."""

    found: str | None


MOST_REVIEWS = 3


class Editor:
    """Lets a model work on a workspace. `origin` is the tree that the job as a whole began with.

    `root` is the documentation's folder. `check` is the tool of that name. `review` is asked when the model calls
    finish: what it finds goes back to the model, up to three times. `describe` says what a model is told about the
    repository. `run_tool` runs the tools, perhaps in another process.
    """

    def __init__(
        self,
        model: Model,
        journal: Journal,
        attempt: Attempt,
        budget: Budget,
        origin: Tree,
        *,
        root: str = "",
        check: Callable[[Workspace], str] | None = None,
        review: Callable[[Workspace], str | None] | None = None,
        describe: Callable[[Tree, str], str] = opening,
        run_tool: RunTool = run_here,
    ) -> None:
        self.journal, self.attempt, self.budget, self.origin = journal, attempt, budget, origin
        self.check, self.review, self.run_tool = check, review, run_tool
        self.tools = toolset(check)
        if isinstance(model, Briefable):
            model = model.briefed(Brief(describe(origin, root), tuple(self.tools.values()), attempt.deadline))
        self.model = model

    def run(self, workspace: Workspace) -> Finished:
        conversation = self._history(workspace)
        used = sum((entry.usage for entry in conversation if isinstance(entry, Reply)), Usage())
        sent_back, proposed = 0, None
        with asyncio.Runner() as runner:
            for turn in count(1):
                if prompts := self._take_new_messages(turn):
                    conversation += prompts
                    proposed = None
                reply = self._query_model(turn, conversation, workspace, used, runner)
                used += reply.usage
                conversation.append(reply)
                if reply.calls:
                    acted = self._execute_tool_calls(turn, reply, workspace, sent_back < MOST_REVIEWS)
                    conversation.append(Observed(results=acted.results))
                    if acted.finished is not None:
                        return acted.finished
                    if acted.sent_back is not None:
                        sent_back, proposed = sent_back + 1, acted.sent_back
                elif proposed is not None:
                    return proposed  # it has nothing to add to the findings
                match steering.verdict(conversation, self.tools):
                    case steering.Accepted(text):
                        finished = Finished(title=_first_line(text), summary=text[:LONGEST_SUMMARY])
                        found = self._review(turn, workspace) if sent_back < MOST_REVIEWS else None
                        if found is None:
                            return finished
                        conversation.append(Prompt(text=found))
                        sent_back, proposed = sent_back + 1, finished
                    case steering.GivenUp(why):
                        raise JobFailed(why, Reason.MODEL_ERROR)
        raise AssertionError("count() never ends")

    def _take_new_messages(self, turn: int) -> list[Prompt]:
        """Returns the messages that arrived since the last turn. Once the turn's reply is stored, it is too late."""
        name = f"turn-{turn}-inbox"
        if not self.journal.has(name) and (self.journal.has(f"turn-{turn}-reply") or not self._has_unread_messages()):
            return []
        with self.journal.step(name, list[Prompt]) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    step.save(self._mark_messages_read(tx))
        return step.result

    def _query_model(
        self, turn: int, conversation: Conversation, workspace: Workspace, used: Usage, runner: asyncio.Runner
    ) -> Reply:
        with self.journal.step(f"turn-{turn}-reply", Reply) as step:
            if not step.is_done:
                self.budget.check(used)
                self.attempt.check()
                self.journal.guard()
                reply = self._ask_model(conversation, workspace, used, runner)
                events = [NewEvent(EventKind.THOUGHT, {"text": reply.text[:4000]})] if reply.text else []
                step.save(reply, events=events, job={"usage": (used + reply.usage).model_dump()})
        return step.result

    def _ask_model(
        self, conversation: Conversation, workspace: Workspace, used: Usage, runner: asyncio.Runner
    ) -> Reply:
        """Returns the model's reply. Raises JobFailed when it has none; what the failed tries cost is stored."""
        began = time.monotonic()
        try:
            advised = steering.advised(conversation, self.tools)
            reply = self.attempt.wait_for(runner, self.model.reply(advised, workspace))
        except ModelFailed as failure:
            spending.note(self.model.name, began, failure.usage, "failed")
            self.journal.keep(usage=(used + failure.usage).model_dump())
            raise JobFailed(str(failure), Reason.MODEL_ERROR) from None
        spending.note(self.model.name, began, reply.usage, "answered")
        return reply

    def _execute_tool_calls(self, turn: int, reply: Reply, workspace: Workspace, may_send_back: bool) -> Acted:
        """Runs the tools that the model called, and the review if it called finish. A stored round is replayed."""
        with self.journal.step(f"turn-{turn}-acts", Acted) as step:
            if step.is_done:
                step.result.replay(workspace)
            else:
                acted = self._call_tools(reply, workspace, may_send_back)
                patches = self._patches(workspace) if acted.splices else None
                step.save(acted, events=_tool_events(reply, acted), files=patches)
        return step.result

    def _call_tools(self, reply: Reply, workspace: Workspace, may_send_back: bool) -> Acted:
        before, toolbox = workspace.changes(), Toolbox(workspace, self.check, self.run_tool)
        results = []
        for call in reply.calls:
            self.attempt.check()
            results.append(toolbox.call(call))
        acted = Acted(results=tuple(results), splices=splices(before, workspace), finished=toolbox.finished)
        if toolbox.finished and self.review and may_send_back and (findings := self.review(workspace)):
            acted = acted.sent_back_with(findings)
        return acted

    def _review(self, turn: int, workspace: Workspace) -> str | None:
        """Reviews the work of a model that ended with text; one that calls finish is reviewed with that call."""
        if self.review is None:
            return None
        review = self.review
        return self.journal.run_step(f"turn-{turn}-review", Review, lambda: Review(found=review(workspace))).found

    def _history(self, workspace: Workspace) -> Conversation:
        """What was said in the job's earlier runs. Edits of one that ended before it could publish are not lost."""
        said: Conversation = []
        for run in self.journal.earlier():
            goes_on = run.reason is not Reason.PUBLISH_REFUSED and _start(run) == workspace.tree.commit
            for name, data in run.results.items():
                if name.endswith("-inbox"):
                    said += TypeAdapter(list[Prompt]).validate_json(data)
                elif name.endswith("-reply"):
                    said.append(Reply.model_validate_json(data))
                elif name.endswith("-review") and (found := Review.model_validate_json(data).found):
                    said.append(Prompt(text=found))
                elif name.endswith("-acts"):
                    acted = Acted.model_validate_json(data)
                    said.append(Observed(results=acted.results))
                    if goes_on:
                        acted.replay(workspace)
        if said:
            self.journal.keep_files(self._patches(workspace))
        return said

    def _patches(self, workspace: Workspace) -> list[FilePatch]:
        """What the job as a whole has changed so far."""
        now = with_changes(workspace.tree, workspace.changes())
        return patches_between(workspace.tree.repository, self.origin.root, now)

    def _has_unread_messages(self) -> bool:
        with self.journal.database.read() as tx:
            return tx.execute(select(messages.c.id).where(self._unread())).first() is not None

    def _mark_messages_read(self, tx: Connection) -> list[Prompt]:
        wanted = select(messages.c.prompt).where(self._unread()).order_by(messages.c.created_at, messages.c.id)
        taken = tx.execute(wanted).scalars().all()
        tx.execute(update(messages).where(self._unread()).values(run_id=self.journal.claim.run_id))
        return [Prompt(text=prompt) for prompt in taken]

    def _unread(self) -> ColumnElement[bool]:
        return (messages.c.job_id == self.journal.claim.job_id) & messages.c.run_id.is_(None)


def _start(run: EarlierRun) -> str | None:
    return Pinned.model_validate_json(run.results["pin"]).start if "pin" in run.results else None


def _tool_events(reply: Reply, acted: Acted) -> list[NewEvent]:
    """Returns an event for each tool call."""
    events: list[NewEvent] = []
    for call, result in zip(reply.calls, acted.results, strict=True):
        about = {"tool": call.name, "ok": result.ok, "result": _first_line(result.text)}
        path = call.arguments.get("path")
        events.append(NewEvent(EventKind.TOOL, {**about, "path": path} if isinstance(path, str) else about))
    return events


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["Done"])[0][:200]

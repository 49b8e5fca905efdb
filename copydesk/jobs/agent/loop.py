"""The agent loop: reads messages, asks the model and runs its tool calls until it finishes. Each turn is journaled."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import ColumnElement, Connection, select, update

from copydesk.jobs.agent import stuck_detection
from copydesk.jobs.agent.brief import Brief, Briefable, hold_connection
from copydesk.jobs.agent.budget import Budget
from copydesk.jobs.agent.conversation import (
    Conversation,
    LookResult,
    Model,
    ModelFailed,
    Prompt,
    Reply,
    ToolResults,
)
from copydesk.jobs.agent.models import usage_metrics
from copydesk.jobs.agent.overview.repository_overview import render_overview
from copydesk.jobs.agent.starting_point import Opening
from copydesk.jobs.agent.tool_round import ToolRound, build_splices
from copydesk.jobs.agent.tools import (
    MAX_SUMMARY_CHARS,
    CheckTools,
    Finished,
    Question,
    RunTool,
    Toolbox,
    build_toolset,
    run_in_process,
)
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import JobFailed, Reason, Usage
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.storage.tables import messages
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.patches import FilePatch, diff_trees
from copydesk.jobs.workspace.workspace import Workspace


class ReviewFindings(BaseModel):
    """The findings of a review of finished work; None means that there are none."""

    findings: str | None


MAX_REVIEWS = 3
OPENING_STEP = "opening"
ReviewFinish = Callable[[Workspace, Finished, Conversation], str | None]
"""Reviews finished work, with the finish call and the conversation so far. None means that the model may finish."""
TakeSecondLook = Callable[[Workspace, Finished, Sequence[FilePatch], asyncio.Runner], LookResult]
"""Asks another model for objections to finished work, with the patches of the whole job. It raises no model error."""


class AgentLoop:
    """Runs a model on a workspace until it finishes. `origin` is the tree that the job as a whole started from.

    `root` is the documentation folder. `checks` implements the tools check and run_checks. `review` runs when the model
    says that it is finished; its findings go back to the model, at most MAX_REVIEWS times. `describe_repository`
    returns the overview that the model gets before its first turn; `context_overview` describes the context
    repositories, if there are any. `run_tool` runs the tools, possibly in another process. `second_look` runs once,
    after the first review without findings; `may_send_back` says whether its objections go back to the model. `opening`
    precedes the messages of a follow-up, and says whether its conversation begins anew.
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
        checks: CheckTools | None = None,
        review: ReviewFinish | None = None,
        describe_repository: Callable[[Tree, str], str] = render_overview,
        run_tool: RunTool = run_in_process,
        context_overview: str = "",
        second_look: TakeSecondLook | None = None,
        may_send_back: bool = True,
        opening: Opening = Opening(),  # noqa: B008 - never changed
    ) -> None:
        self.journal = journal
        self.attempt = attempt
        self.budget = budget
        self.origin = origin
        self.checks = checks
        self.review = review
        self.run_tool = run_tool
        self.second_look = second_look
        self.may_send_back = may_send_back
        self.opening = opening
        self.look: LookResult | None = None
        """The second look of this run, once it was taken."""
        self.tools = build_toolset(checks, has_contexts=bool(context_overview))
        if isinstance(model, Briefable):
            overview = "\n\n".join(filter(None, (context_overview, describe_repository(origin, root))))
            model = model.with_brief(Brief(overview, tuple(self.tools.values()), attempt.deadline))
        self.model = model
        self.conversation: Conversation = []
        self.left_out: Conversation = []
        """What earlier runs said before the conversation began anew. The model does not get it."""

    @property
    def whole_conversation(self) -> Conversation:
        """Returns what all runs of the job said: the declarations of an earlier run hold for its part of the change."""
        return [*self.left_out, *self.conversation]

    def run(self, workspace: Workspace) -> Finished | Question:
        """Returns how the model described its finished work, or the question that it asks instead."""
        conversation = self.conversation = self._load_history(workspace)
        used = Usage()
        rejections = 0
        pending_finish = None
        with asyncio.Runner() as runner, hold_connection(self.model, runner):
            for turn in count(1):
                if prompts := self._take_new_messages(turn):
                    conversation += prompts
                    pending_finish = None
                if pending_finish is not None and self._has_spent_budget_after_look(turn, used):
                    return pending_finish
                reply = self._run_reply_step(turn, conversation, workspace, used, runner)
                used += reply.usage
                conversation.append(reply)
                if reply.calls:
                    tool_round = self._run_tools_step(turn, reply, workspace, rejections < MAX_REVIEWS)
                    conversation.append(ToolResults(results=tool_round.results))
                    if tool_round.question is not None:
                        return tool_round.question
                    if tool_round.finished is not None:
                        look = self._run_look_step(turn, workspace, tool_round.finished, used, runner)
                        used += look.usage
                        if not self._should_send_back(look, used):
                            return tool_round.finished
                        conversation.append(look.to_prompt())
                        pending_finish = tool_round.finished
                        continue
                    if tool_round.sent_back is not None:
                        rejections += 1
                        pending_finish = tool_round.sent_back
                elif pending_finish is not None:
                    return pending_finish  # the model does not act on the findings
                match stuck_detection.judge_latest_turn(conversation, self.tools):
                    case stuck_detection.FinishedInText(text):
                        finished = Finished(title=_first_line(text), summary=text[:MAX_SUMMARY_CHARS])
                        may_review = rejections < MAX_REVIEWS
                        findings = self._run_review_step(turn, workspace, finished) if may_review else None
                        if findings is None:
                            look = self._run_look_step(turn, workspace, finished, used, runner)
                            used += look.usage
                            if not self._should_send_back(look, used):
                                return finished
                            conversation.append(look.to_prompt())
                        else:
                            conversation.append(Prompt(text=findings))
                            rejections += 1
                        pending_finish = finished
                    case stuck_detection.GiveUp() if self.look is not None and pending_finish is not None:
                        return pending_finish  # the work was finished before the second look
                    case stuck_detection.GiveUp(reason):
                        raise JobFailed(reason, Reason.MODEL_ERROR)
        raise AssertionError("count() never ends")

    def _take_new_messages(self, turn: int) -> list[Prompt]:
        """Returns the messages that arrived since the last turn.

        Once this turn's reply is stored, new messages wait for the next turn.
        """
        step_name = f"turn-{turn}-inbox"
        if not self.journal.has_result(step_name) and (
            self.journal.has_result(f"turn-{turn}-reply") or not self._has_unread_messages(turn)
        ):
            return []
        with self.journal.step(step_name, list[Prompt]) as step:
            if not step.is_done:
                with step.transaction() as tx:
                    step.save(self._mark_messages_read(tx, turn))
        return step.result

    def _run_reply_step(
        self, turn: int, conversation: Conversation, workspace: Workspace, used: Usage, runner: asyncio.Runner
    ) -> Reply:
        """Returns the reply of this turn: the stored one, or else queries the model and stores its reply."""
        with self.journal.step(f"turn-{turn}-reply", Reply) as step:
            if not step.is_done:
                self.budget.check(used)
                self.attempt.raise_if_stopped()
                self.journal.check_lease()
                reply = self._query_model(conversation, workspace, used, runner)
                events = [NewEvent(EventKind.THOUGHT, {"text": reply.text[:4000]})] if reply.text else []
                step.save(reply, events=events, job={"usage": self._add_usage(reply.usage)})
        return step.result

    def _query_model(
        self, conversation: Conversation, workspace: Workspace, used: Usage, runner: asyncio.Runner
    ) -> Reply:
        """Returns the model's reply. If the model fails, stores the usage of its attempts and raises JobFailed."""
        started = time.monotonic()
        try:
            advised_conversation = stuck_detection.add_advice(conversation, self.tools)
            reply = self.attempt.run_coroutine(runner, self.model.reply(advised_conversation, workspace))
        except ModelFailed as failure:
            usage_metrics.record_model_usage(self.model.name, started, failure.usage, "failed")
            self.journal.save_job_values(usage=self._add_usage(failure.usage))
            raise JobFailed(str(failure), Reason.MODEL_ERROR) from None
        usage_metrics.record_model_usage(self.model.name, started, reply.usage, "answered")
        return reply

    def _run_tools_step(self, turn: int, reply: Reply, workspace: Workspace, may_review: bool) -> ToolRound:
        """Returns the round of tool calls of this turn: replays the stored one, or else executes the calls."""
        with self.journal.step(f"turn-{turn}-acts", ToolRound) as step:
            if step.is_done:
                step.result.replay(workspace)
            else:
                tool_round = self._execute_tool_calls(reply, workspace, may_review)
                patches = self._build_patches(workspace) if tool_round.splices else None
                step.save(tool_round, events=_build_tool_events(reply, tool_round), files=patches)
        return step.result

    def _execute_tool_calls(self, reply: Reply, workspace: Workspace, may_review: bool) -> ToolRound:
        """Runs the tools that the model called, and the review if it called finish."""
        changes_before = workspace.changes()
        toolbox = Toolbox(workspace, self.checks, self.run_tool)
        results = []
        for call in reply.calls:
            self.attempt.raise_if_stopped()
            results.append(toolbox.call(call))
        tool_round = ToolRound(
            results=tuple(results),
            splices=build_splices(changes_before, workspace),
            finished=toolbox.finished,
            question=None if toolbox.finished else toolbox.question,
        )
        if toolbox.finished and self.review and may_review:
            conversation = [*self.whole_conversation, ToolResults(results=tool_round.results)]
            if findings := self.review(workspace, toolbox.finished, conversation):
                tool_round = tool_round.with_review_findings(findings)
        return tool_round

    def _run_review_step(self, turn: int, workspace: Workspace, finished: Finished) -> str | None:
        """Reviews the work of a model that ended with text. A finish call includes the review already."""
        if self.review is None:
            return None
        review = self.review
        return self.journal.run_step(
            f"turn-{turn}-review",
            ReviewFindings,
            lambda: ReviewFindings(findings=review(workspace, finished, self.whole_conversation)),
        ).findings

    def _run_look_step(
        self, turn: int, workspace: Workspace, finished: Finished, used: Usage, runner: asyncio.Runner
    ) -> LookResult:
        """Returns the second look after this turn: the stored one, or else asks for it. Later looks are empty."""
        if self.second_look is None or self.look is not None:
            return LookResult()
        patches = self._build_patches(workspace)
        if not patches:
            return LookResult()
        with self.journal.step(f"turn-{turn}-look", LookResult) as step:
            if not step.is_done:
                self.attempt.raise_if_stopped()
                self.journal.check_lease()
                if self.budget.is_exhausted(used):
                    look = LookResult(note="It was skipped, because the run has used up its budget.")
                else:
                    look = self.second_look(workspace, finished, patches, runner)
                step.save(look, job={"usage": self._add_usage(look.usage)})
        self.look = step.result
        return step.result

    def _should_send_back(self, look: LookResult, used: Usage) -> bool:
        return bool(look.objections) and self.may_send_back and not self.budget.is_exhausted(used)

    def _has_spent_budget_after_look(self, turn: int, used: Usage) -> bool:
        """Returns whether the work must stay as it is: it was finished once, and only the second look went on."""
        is_stored = self.journal.has_result(f"turn-{turn}-reply")
        return self.look is not None and not is_stored and self.budget.is_exhausted(used)

    def _add_usage(self, usage: Usage) -> dict[str, Any]:
        """Returns the usage of the job with this added, for its row. Only this run's counts against the budget."""
        return (self.journal.load_job().usage + usage).model_dump()

    def _load_history(self, workspace: Workspace) -> Conversation:
        """Returns the conversation of the job's earlier runs since one that began anew, and this run's opening."""
        conversation: Conversation = []
        runs = self.journal.list_earlier_runs()
        for run in runs:
            for step_name, data in run.results.items():
                if step_name == OPENING_STEP:
                    conversation = self._open_conversation(conversation, Opening.model_validate_json(data))
                elif step_name.endswith("-inbox"):
                    conversation += TypeAdapter(list[Prompt]).validate_json(data)
                elif step_name.endswith("-reply"):
                    conversation.append(Reply.model_validate_json(data))
                elif step_name.endswith("-review") and (findings := ReviewFindings.model_validate_json(data).findings):
                    conversation.append(Prompt(text=findings))
                elif step_name.endswith("-look") and self.may_send_back:
                    look = LookResult.model_validate_json(data)
                    conversation += [look.to_prompt()] if look.objections else []
                elif step_name.endswith("-acts"):
                    conversation.append(ToolResults(results=ToolRound.model_validate_json(data).results))
        if runs:
            self.journal.save_changed_files(self._build_patches(workspace))
        return self._open_conversation(conversation, self.opening)

    def _open_conversation(self, conversation: Conversation, opening: Opening) -> Conversation:
        """Returns the conversation with the opening of a run, or the opening alone if it begins a new one."""
        if opening.begins_anew:
            self.left_out += conversation
            conversation = []
        return [*conversation, Prompt(text=opening.text)] if opening.text else conversation

    def _build_patches(self, workspace: Workspace) -> list[FilePatch]:
        """Returns the changes of the job as a whole so far."""
        current_root = write_changed_tree(workspace.tree, workspace.changes())
        return diff_trees(workspace.tree.repository, self.origin.root, current_root)

    def _has_unread_messages(self, turn: int) -> bool:
        with self.journal.database.read() as tx:
            return tx.execute(select(messages.c.id).where(self._unread_filter(tx, turn))).first() is not None

    def _mark_messages_read(self, tx: Connection, turn: int) -> list[Prompt]:
        is_unread = self._unread_filter(tx, turn)
        unread = select(messages.c.prompt, messages.c.data).where(is_unread)
        rows = tx.execute(unread.order_by(messages.c.created_at, messages.c.id)).all()
        tx.execute(update(messages).where(is_unread).values(run_id=self.journal.claim.run_id))
        return [Prompt(text=row.prompt, data=row.data or "") for row in rows]

    def _unread_filter(self, tx: Connection, turn: int) -> ColumnElement[bool]:
        """Returns the condition for the messages that this turn reads.

        A message of an automation begins a run, which sees the newest commits. So only the first turn reads some, and
        only if the oldest message is one of them.
        """
        is_automatic = turn == 1 and self.journal.is_started_by_automation_in(tx)
        is_kind = messages.c.origin.is_not(None) if is_automatic else messages.c.origin.is_(None)
        return (messages.c.job_id == self.journal.claim.job_id) & messages.c.run_id.is_(None) & is_kind


def _build_tool_events(reply: Reply, tool_round: ToolRound) -> list[NewEvent]:
    """Returns an event for each tool call."""
    events: list[NewEvent] = []
    for call, result in zip(reply.calls, tool_round.results, strict=True):
        data = {"tool": call.name, "ok": result.ok, "result": _first_line(result.text)}
        path = call.arguments.get("path")
        events.append(NewEvent(EventKind.TOOL, {**data, "path": path} if isinstance(path, str) else data))
    return events


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["Done"])[0][:200]

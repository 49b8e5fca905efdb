"""A model that follows a script. The conversation determines the turn, so that a resumed run continues correctly."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from copydesk.jobs.agent.conversation import Conversation, Prompt, Reply, ToolCall
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace, short_hash

Turn = Reply | Callable[[Conversation, Workspace], Reply]


@dataclass
class ScriptedModel:
    """Answers the n-th request of a conversation with the n-th turn of the script, later ones with an empty reply.

    A run of an automation begins a new conversation, which tells of the earlier requests: it begins after the
    `turns_per_run` turns of each.
    """

    script: Sequence[Turn]
    name: str = "scripted"
    requests: list[Conversation] = field(default_factory=list)
    turns_per_run: int = 2

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.requests.append(list(conversation))
        turn_number = count_replies(conversation, self.turns_per_run)
        turn = self.script[turn_number] if turn_number < len(self.script) else Reply()
        return turn if isinstance(turn, Reply) else turn(conversation, workspace)


def count_replies(conversation: Conversation, turns_per_run: int = 2) -> int:
    """Returns the number of the job's replies so far. Those of runs before a new conversation are assumed."""
    first = conversation[0] if conversation else None
    earlier = len(re.findall(r"^Request \d+: ", first.text, re.M)) if isinstance(first, Prompt) else 0
    return earlier * turns_per_run + sum(isinstance(entry, Reply) for entry in conversation)


def calls(*calls: tuple[str, dict[str, Any]], text: str = "", usage: Usage | None = None) -> Reply:
    tool_calls = tuple(
        ToolCall(id=f"call-{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(calls, 1)
    )
    return Reply(text=text, calls=tool_calls, usage=usage or Usage(requests=1, input_tokens=10, output_tokens=5))


def finish(title: str = "A change", summary: str = "It was made.") -> Reply:
    return calls(("finish", {"title": title, "summary": summary}))


def edit(path: str, old: str, new: str) -> Turn:
    def turn(_conversation: Conversation, workspace: Workspace) -> Reply:
        file_hash = short_hash(workspace.read(path))
        return calls(("edit", {"path": path, "hash": file_hash, "replacements": [{"old": old, "new": new}]}))

    return turn

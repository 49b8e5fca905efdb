"""A model that follows a script. The conversation determines the turn, so that a resumed run continues correctly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from copydesk.jobs.agent.conversation import Conversation, Reply, ToolCall
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace, short_hash

Turn = Reply | Callable[[Conversation, Workspace], Reply]


@dataclass
class ScriptedModel:
    """Answers the n-th request of a conversation with the n-th turn of the script, later ones with an empty reply."""

    script: Sequence[Turn]
    name: str = "scripted"
    asked: list[Conversation] = field(default_factory=list)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.asked.append(list(conversation))
        said = sum(isinstance(entry, Reply) for entry in conversation)
        turn = self.script[said] if said < len(self.script) else Reply()
        return turn if isinstance(turn, Reply) else turn(conversation, workspace)


def calls(*calls: tuple[str, dict[str, Any]], text: str = "", usage: Usage | None = None) -> Reply:
    made = tuple(ToolCall(id=f"call-{n}", name=name, arguments=given) for n, (name, given) in enumerate(calls, 1))
    return Reply(text=text, calls=made, usage=usage or Usage(requests=1, input_tokens=10, output_tokens=5))


def finish(title: str = "A change", summary: str = "It was made.") -> Reply:
    return calls(("finish", {"title": title, "summary": summary}))


def edit(path: str, old: str, new: str) -> Turn:
    def turn(_conversation: Conversation, workspace: Workspace) -> Reply:
        seen = short_hash(workspace.read(path))
        return calls(("edit", {"path": path, "hash": seen, "replacements": [{"old": old, "new": new}]}))

    return turn

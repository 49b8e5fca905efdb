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
    requests: list[Conversation] = field(default_factory=list)

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.requests.append(list(conversation))
        turn_number = sum(isinstance(entry, Reply) for entry in conversation)
        turn = self.script[turn_number] if turn_number < len(self.script) else Reply()
        return turn if isinstance(turn, Reply) else turn(conversation, workspace)


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

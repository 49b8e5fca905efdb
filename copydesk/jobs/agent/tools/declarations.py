"""What a model declared about its own edits: the pages that it moved, rewrote as a whole, or reformatted on request.

Read from the conversation, which the journal stores, so that a resumed run reads the same declarations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from copydesk.jobs.agent.conversation import ConversationEntry, Reply, ToolResults


@dataclass
class Declarations:
    reformats: dict[str, str] = field(default_factory=dict)
    """Why a page was reformatted, by path."""
    rewrites: set[str] = field(default_factory=set)
    """The pages that were rewritten as a whole."""
    moves: dict[str, str] = field(default_factory=dict)
    """The first path of each page that was moved, by its present path."""

    def add_call(self, tool: str, arguments: dict[str, Any]) -> None:
        path = arguments.get("path")
        if not isinstance(path, str):
            return
        if isinstance(reason := arguments.get("reformat"), str) and reason.strip():
            self.reformats[path] = reason.strip()
        if arguments.get("whole") is True:
            self.rewrites.add(path)
        if tool == "move" and isinstance(to := arguments.get("to"), str):
            self._follow_move(path, to)

    def _follow_move(self, path: str, to: str) -> None:
        self.moves[to] = self.moves.pop(path, path)
        if path in self.reformats:
            self.reformats[to] = self.reformats.pop(path)
        if path in self.rewrites:
            self.rewrites.discard(path)
            self.rewrites.add(to)


def read_declarations(conversation: Iterable[ConversationEntry]) -> Declarations:
    """Returns the declarations of all calls that were carried out."""
    declarations = Declarations()
    for tool, arguments in _list_successful_calls(conversation):
        declarations.add_call(tool, arguments)
    return declarations


def _list_successful_calls(conversation: Iterable[ConversationEntry]) -> Iterator[tuple[str, dict[str, Any]]]:
    calls = {}
    for entry in conversation:
        if isinstance(entry, Reply):
            calls = {call.id: call for call in entry.calls}
        elif isinstance(entry, ToolResults):
            successful = (calls.get(result.call_id) for result in entry.results if result.ok)
            yield from ((call.name, call.arguments) for call in successful if call is not None)

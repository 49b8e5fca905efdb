"""A model that follows a script: it runs the harness without a network and makes its figures checkable."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmarks.agent.cases import InvalidCase
from copydesk.jobs.agent.conversation import Conversation, Reply, ToolCall
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace, short_hash

TOOLS_WITH_HASH = ("edit", "write")


class ScriptedTurn(BaseModel):
    """One reply. A call is the tool's name with its arguments; a missing file hash is filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    say: str = ""
    calls: tuple[dict[str, dict[str, Any]], ...] = ()
    tokens: tuple[int, int] = (0, 0)
    """Input and output tokens."""
    cost: float | None = Field(None, ge=0)


Script = Mapping[str, list[ScriptedTurn]]


def read_script(path: Path) -> Script:
    """Reads replies by case from YAML or JSON."""
    if not path.is_file():
        raise InvalidCase(f"There is no script {path}.")
    try:
        return TypeAdapter(dict[str, list[ScriptedTurn]]).validate_python(yaml.safe_load(path.read_bytes()))
    except yaml.YAMLError as error:
        raise InvalidCase(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidCase(f"{path}, {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


@dataclass(frozen=True)
class ScriptedModel:
    """Answers the n-th request of a job with the n-th turn; repeats the finish call after the last turn."""

    turns: list[ScriptedTurn]
    name: str = "scripted"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        number = sum(isinstance(entry, Reply) for entry in conversation)
        turn = self.turns[number] if number < len(self.turns) else self._repeat_finish()
        calls = [(tool, arguments) for call in turn.calls for tool, arguments in call.items()]
        return Reply(
            text=turn.say,
            calls=tuple(
                ToolCall(id=f"call-{number}-{n}", name=tool, arguments=_add_hash(tool, arguments, workspace))
                for n, (tool, arguments) in enumerate(calls)
            ),
            usage=Usage(requests=1, input_tokens=turn.tokens[0], output_tokens=turn.tokens[1], cost_usd=turn.cost),
        )

    def _repeat_finish(self) -> ScriptedTurn:
        finish_calls = [call for turn in self.turns for call in turn.calls if "finish" in call]
        return ScriptedTurn(calls=tuple(finish_calls[-1:]))


def _add_hash(tool: str, arguments: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    path = arguments.get("path")
    if tool not in TOOLS_WITH_HASH or "hash" in arguments or not isinstance(path, str) or not workspace.exists(path):
        return arguments
    return {**arguments, "hash": short_hash(workspace.read(path))}

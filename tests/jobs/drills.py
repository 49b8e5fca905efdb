"""A project on a fake forge with its own secrets, and an HTTP model that a test scripts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from pathlib import Path
from secrets import token_hex
from typing import Any

from copydesk.core.projects.policy import Policy
from copydesk.jobs.agent.conversation import Conversation, Reply, ToolCall
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace, short_hash
from copydesk_client import Client, Job
from tests.jobs.publish.forges.extra_calls import FAKE_FORGES
from tests.jobs.publish.forges.stage import GITHUB_APP, REPOSITORY
from tests.jobs.publish.forges.test_github_app import make_key_pair
from tests.support.forges.server import ForgeHandler
from tests.support.model_server import ModelAnswer, ModelServer, Turn, call
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

SCRIPTED_MODEL = "openai-compatible:scripted"
PAGE = b"# Hello\n\nThe colour of things.\n"
FILES = {"docs/index.md": PAGE, "docs/other.md": b"# Other\n"}

LAST_TURN_REPEATS = 4
"""How often the model repeats its last turn."""

RawResponse = tuple[int, list[tuple[str, str]], bytes]
ResponseRule = Callable[[Message], RawResponse | None]


class RecordingHandler(ForgeHandler):
    """Records the headers of callers, and gives some responses that no forge should give."""

    def _serve(self) -> None:
        forge: Any = self.server.forge
        if authorization := self.headers.get("Authorization"):
            forge.shown.add(authorization)
        for where, rule in forge.rules:
            if re.search(where, f"{self.command} {self.path}") and (answer := rule(self.headers)):
                self._is_answer_lost, self._read = False, self._read_request_body()
                return self._send(*answer)
        return super()._serve()

    def _read_request_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


@dataclass
class InProcessModel:
    """The same without HTTP, for many fast drills: answers with its turns, and repeats the last one."""

    script: Sequence[Turn] = ()
    name: str = SCRIPTED_MODEL
    requests: list[Conversation] = field(default_factory=list)

    async def reply(self, conversation: Conversation, _workspace: Workspace) -> Reply:
        self.requests.append(list(conversation))
        answer = self.script[min(sum(isinstance(entry, Reply) for entry in conversation), len(self.script) - 1)]
        assert isinstance(answer, ModelAnswer)
        calls = [
            ToolCall(id=f"call-{n}", name=name, arguments=json.loads(arguments))
            for n, (name, arguments) in enumerate(answer.calls)
        ]
        return Reply(text=answer.text, calls=tuple(calls), usage=Usage(requests=1, input_tokens=10, output_tokens=5))


@dataclass
class DrillProject:
    way: str
    fake: Any
    service: Service
    model: ModelServer | InProcessModel
    secrets: dict[str, str]
    jobs: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.service.client

    @property
    def folder(self) -> Path:
        """Returns the folder of the repository on the forge."""
        folder: Path = self.fake.repository.folder
        return folder

    def run_job(self, *script: Turn, prompt: str = "Mend the page.", **options: Any) -> Job:
        self.start(*script, prompt=prompt, **options)
        return self.client.wait(self.jobs[-1])

    def start(self, *script: Turn, prompt: str = "Mend the page.", **options: Any) -> str:
        self.model.script = [*script, *script[-1:] * LAST_TURN_REPEATS]
        self.jobs.append(self.client.create_job(prompt, model=SCRIPTED_MODEL, **options)["id"])
        return self.jobs[-1]

    def add_response_rule(self, where: str, rule: ResponseRule) -> None:
        self.fake.rules.append((where, rule))

    def listen(self) -> None:
        self.fake.webhooks.add(f"{self.service.url}/webhooks/{self.service.project.id}", self.secrets["webhook_secret"])


@contextmanager
def serve_with_model_server(folder: Path, **settings: Any) -> Iterator[tuple[Service, ModelServer]]:
    """Serves Copydesk with a scripted model server."""
    local = make_repository(folder / "local.git", FILES)
    with (
        ModelServer((), by_turn=True) as model,
        serve(folder / "data", repository=local, models=(SCRIPTED_MODEL,), model_url=model.url, **settings) as service,
    ):
        yield service, model


@contextmanager
def serve_with_in_process_model(folder: Path, **settings: Any) -> Iterator[tuple[Service, InProcessModel]]:
    """Serves Copydesk with a model in the process."""
    model = InProcessModel()
    local = make_repository(folder / "local.git", FILES)
    with serve(
        folder / "data", repository=local, models=(SCRIPTED_MODEL,), model=lambda _name: model, **settings
    ) as service:
        yield service, model


@contextmanager
def open_drill_project(
    way: str,
    service: Service,
    model: ModelServer | InProcessModel,
    folder: Path,
    files: Mapping[str, bytes] = FILES,
    **policy: Any,
) -> Iterator[DrillProject]:
    make_repository(folder / f"{REPOSITORY}.git", files)
    kind = "github" if way == GITHUB_APP else way
    sealed = {name: _make_secret() for name in ("webhook_secret", "model_key_compatible")}
    with FAKE_FORGES[kind](folder, REPOSITORY) as fake:
        fake.rules, fake.shown = [], set()
        fake._server.RequestHandlerClass = RecordingHandler
        if way == GITHUB_APP:
            fake.install_app(make_key_pair()[1], app_id=7)
            sealed["app_key"] = make_key_pair()[0]
        else:
            sealed["forge_token"] = _make_secret()
            fake.add_token(sealed["forge_token"])
        rules = Policy(app_id="7" if way == GITHUB_APP else None, **policy)
        address = fake.repository_url(REPOSITORY)
        desk = service.desk
        project = desk.projects.create("Docs", repository=address, ref="main", forge=kind, policy=rules, actor="test")
        for name, value in sealed.items():
            desk.secrets.set(project.id, name, value, actor="test")
        key = desk.keys.create(project.id, actor="test")[1]
        project_service = replace(service, project=project, key=key)
        yield DrillProject(way, fake, project_service, model, {**sealed, "api_key": key})
        assert fake.violations == []


def _make_secret() -> str:
    """Makes a secret with characters that URLs and base64 encode."""
    return f"{token_hex(10)}/+{token_hex(10)}="


def call_edit(old: str, new: str, path: str = "docs/index.md", files: Mapping[str, bytes] = FILES) -> ModelAnswer:
    edits = [{"old": old, "new": new}]
    return call("edit", {"path": path, "hash": short_hash(files[path]), "replacements": edits})


def call_finish(title: str = "Spell color so", summary: str = "One word was changed.", **more: Any) -> ModelAnswer:
    return call("finish", {"title": title, "summary": summary, **more})


FIX_SCRIPT: Sequence[Turn] = (call_edit("colour", "color"), call_finish())

"""What the tests of the `judges` command share: a suite in an empty folder, and a server that answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from judges.cli.app import app
from tests.judges.loopback import LoopbackServer, Reply, Request, text

Run = Callable[..., Result]

REPLIES = {
    "kind-1": "Gladly! It is on its way.",
    "kind-2": "Gladly, and thank you for waiting.",
    "rude-1": "Read the manual.",
    "rude-2": "That is your own fault.",
}
PROMPT = "---\nname: tone\nversion: 1\nscale: binary\n---\nIs this reply courteous?\n{{ reply | untrusted }}\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in an empty folder, with no model and no address in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("JUDGE_MODEL", "JUDGE_API_BASE", "JUDGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: str | Path, **options: Any) -> Result:
        return CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False, **options)

    return run


def write_suite(name: str = "tone", prompt: str = PROMPT, rows: Any = None, **fields: Any) -> Path:
    """A suite in the working folder, with its prompt and its golden set."""
    listed = rows or [{"id": id, "inputs": {"reply": reply}, "label": "kind" in id} for id, reply in REPLIES.items()]
    Path(f"{name}.md").write_text(prompt, encoding="utf-8")
    Path(f"{name}.golden.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in listed), encoding="utf-8")
    said = {"prompt": f"{name}.md", "golden": f"{name}.golden.jsonl", "model": "openai/m", "reason": False}
    path = Path(f"{name}.judge.yaml")
    path.write_text(json.dumps({**said, "endpoint": "here", **fields}), encoding="utf-8")
    return path


def judge(request: Request) -> Reply:
    """What a judge would say: whoever is glad is courteous."""
    return text(json.dumps({"score": "Gladly" in request.body["messages"][-1]["content"]}))


@pytest.fixture
def server(loopback: LoopbackServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> LoopbackServer:
    """A server that answers as `judge` does, at the address that judges are told."""
    loopback.default = judge
    monkeypatch.setenv("JUDGE_API_BASE", loopback.url)
    return loopback

"""A Harbor environment without a container, and an agent that writes the trajectory it is told to."""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult

_INSIDE = re.compile(r"(?<![\w./-])/(?=(logs|tests|solution)\b)")


class Here(BaseEnvironment):  # type: ignore[misc]
    """A folder of this machine; commands find it in place of the root folder, and scripts as `$ROOT`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.root = Path(tempfile.mkdtemp())
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "here"

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        for folder in ("logs/agent", "logs/verifier", "logs/artifacts", "tests"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        self._inside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._inside(target_path))

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None:
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Any) -> None:
        shutil.copy(self._inside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command: str, cwd: Any = None, env: Any = None, **_: Any) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            _INSIDE.sub(f"{self.root}/", command),
            cwd=self.root,
            env={**os.environ, **(env or {}), "ROOT": str(self.root), "PYTHON": sys.executable},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)

    def _inside(self, path: Any) -> Path:
        return self.root / str(path).lstrip("/")


class Writes(BaseAgent):  # type: ignore[misc]
    """Answers with the text it was given, and writes that down as its trajectory."""

    def __init__(self, *args: Any, said: str = "", end: str | None = "terminated", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.said, self.end = said, end

    @staticmethod
    def name() -> str:
        return "writes"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: Any) -> None:
        pass

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        step = {"action": {"content": self.said, "tool_calls": []}, "observation": {"messages": [], "content": ""}}
        line = {"id": "rollout", "initial": {"content": instruction}, "steps": [step], "end": self.end}
        (self.logs_dir / "trajectory.json").write_text(json.dumps(line))

"""What the tests of OpenReward and ORS share: a quiz of tool calls without rewards, its rubric, servers and clients."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from rubrics import EqualSplit, Rubric, TrajectoryRubric, Unscored, WeightedSum
from tests.integrations.serving import serving_app

HOSTS = ("openreward", "ors")
TASKS = [{"question": f"{n} + {n}?", "answer": str(2 * n)} for n in range(6)]


class Answer(BaseModel):
    text: str
    say: str = "ok"  # what the rubric below is to do


class Polite(Rubric):
    """`say` of the call decides; the tool's own reward is what it scores where there is one."""

    def forward(self, action, observation):
        if action.input.get("say") == "boom":
            raise ValueError("the gold answer is 42")
        if action.input.get("say") == "unknown":
            raise Unscored("who can say")
        return 0.5 if observation.reward is None else observation.reward


class Right(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float(trajectory[-1][0].input.get("text") == self.task["answer"])


class Calls(TrajectoryRubric):
    """The share of calls that looked something up."""

    def score_trajectory(self, trajectory):
        return sum(action.name == "look" for action, _ in trajectory) / len(trajectory)


def make_tree() -> Rubric:
    return WeightedSum(
        {"polite": Polite(), "right": Right(credit=EqualSplit()), "calls": Calls()},
        weights={"polite": 0.25, "right": 0.5, "calls": 0.25},
    )


def package(host: str) -> ModuleType:
    """The names that an author of environments imports."""
    return import_module({"openreward": "openreward.environments", "ors": "ors"}[host])


def base(host: str) -> Any:
    """The `RubricEnvironment` of a host."""
    return import_module(f"rubrics.integrations.{host}").RubricEnvironment


def make_quiz(host: str, **attributes: Any) -> Any:
    """The quiz as an environment class of a host."""
    names = package(host)
    ToolOutput, TextBlock, tool = names.ToolOutput, names.TextBlock, names.tool
    reading = tool(concurrent=True) if host == "openreward" else tool

    class Quiz(base(host)):
        rubric = make_tree()

        def __init__(self, task_spec: Any = None, secrets: Any = None) -> None:  # forgets super().__init__()
            self.secrets = secrets
            self.submitted = 0

        @classmethod
        def list_splits(cls):
            return [names.Split(name="train", type="train"), names.Split(name="test", type="test")]

        @classmethod
        def list_tasks(cls, split):
            return TASKS if split == "train" else TASKS[:2]

        def get_prompt(self):
            return [TextBlock(text=self.task_spec["question"])]

        @reading
        async def look(self) -> ToolOutput:
            """Look something up."""
            return ToolOutput(blocks=[TextBlock(text="a page")])

        @tool
        def draft(self, args: Answer) -> ToolOutput:
            """Write a draft."""
            reward = 0.75 if args.text == "graded" else None
            return ToolOutput(blocks=[TextBlock(text="a draft")], reward=reward, metadata={"length": len(args.text)})

        @tool
        async def submit(self, args: Answer) -> ToolOutput:
            """End it."""
            self.submitted += 1
            return ToolOutput(blocks=[TextBlock(text="thanks")], finished=True)

    return type("Quiz", (Quiz,), attributes) if attributes else Quiz


@contextmanager
def serving(host: str, *environments: Any) -> Iterator[str]:
    """The package's own server on loopback; yields its address."""
    from sse_starlette.sse import AppStatus

    AppStatus.should_exit_event, AppStatus.should_exit = None, False  # of the process's last server, on another loop
    with serving_app(package(host).Server(list(environments)).app) as url:
        yield url


@asynccontextmanager
async def client(package: str, url: str, name: str = "quiz") -> AsyncIterator[Any]:
    """An environment as the async client of a package has it."""
    if package == "openreward":
        from openreward import AsyncOpenReward

        api = AsyncOpenReward().environments
        try:
            yield api.get(name, base_url=url)
        finally:
            await api.aclose()
    else:
        from ors.client import AsyncORS

        api = AsyncORS(base_url=url)  # it closes its connections when it is collected
        environment = api.environment(name)
        try:
            yield environment
        finally:
            await environment.client.close()
            await asyncio.sleep(0)  # lets its connector close


def call(environment: Any, name: str, **input: Any) -> Any:
    """A call of a tool in this process, as the server makes it; its output, or the error that the client would see."""
    root = asyncio.run(environment._call_tool(name, input)).root
    return root.output if root.ok else root.error

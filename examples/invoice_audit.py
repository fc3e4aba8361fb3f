"""An audit of invoices as an OpenReward environment: an agent calls tools, and is paid for what it finds.

python examples/invoice_audit.py      # serves it on loopback, two agents play it, and their episodes are scored again

The same class runs on `ors-sdk`: change the two lines that import from `openreward`.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("OPENREWARD_LOG_LEVEL", "ERROR")

from loopback import serving_app
from openreward import AsyncOpenReward
from openreward.environments import Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel

from rubrics import EqualSplit, Gate, Rubric, Sequential, TrajectoryRubric, WeightedSum
from rubrics.formats import read
from rubrics.integrations.openreward import RubricEnvironment, ToolCall, collect, tasks
from rubrics.rescoring import rescore

LEDGERS = [
    {
        "invoices": {"A1": {"net": 100, "vat": 20, "total": 120}, "A2": {"net": 50, "vat": 10, "total": 65}},
        "wrong": ["A2"],
    },
    {
        "invoices": {
            "B1": {"net": 10, "vat": 3, "total": 12},
            "B2": {"net": 200, "vat": 40, "total": 240},
            "B3": {"net": 30, "vat": 6, "total": 39},
        },
        "wrong": ["B1", "B3"],
    },
]


class Flag(BaseModel):
    invoice: str
    why: str


class Reasoned(Rubric):
    """A flag says why, in words that name a number."""

    def forward(self, action: ToolCall, observation: Any) -> float:
        return float(any(sign.isdigit() for sign in action.input.why))


class Right(Rubric):
    """A flag on an invoice that is wrong is worth 1, one on a good invoice -1."""

    range = (-1.0, 1.0)

    def forward(self, action: ToolCall, observation: Any) -> float:
        return 1.0 if action.input.invoice in self.task["wrong"] else -1.0


class Complete(TrajectoryRubric):
    """The share of the wrong invoices that were flagged."""

    def score_trajectory(self, trajectory: list[tuple[ToolCall, Any]]) -> float:
        flagged = {action.input.invoice for action, _ in trajectory if action.name == "flag"}
        return len(flagged & set(self.task["wrong"])) / len(self.task["wrong"])


class IfFlag(Rubric):
    """0 for every other call, so that only flags are judged one by one."""

    def __init__(self, rubric: Rubric) -> None:
        super().__init__()
        self.rubric = rubric

    def forward(self, action: ToolCall, observation: Any) -> Any:
        return self.rubric(action, observation) if action.name == "flag" else 0.0


def make_rubric() -> Rubric:
    flag = IfFlag(Sequential({"reasoned": Gate(Reasoned()), "right": Right()}))
    return WeightedSum({"flag": flag, "complete": Complete(credit=EqualSplit())}, {"flag": 0.2, "complete": 0.8})


class Audit(RubricEnvironment):
    """Authors write tools. The rubric pays for them, and for the whole episode on the call that finishes."""

    rubric = make_rubric()

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return LEDGERS

    def get_prompt(self) -> list[TextBlock]:
        numbers = ", ".join(self.task_spec["invoices"])
        return [TextBlock(text=f"VAT is 20 %. Flag each of these invoices that is wrong, then submit: {numbers}.")]

    @tool(concurrent=True)  # several may be read at once; such calls are recorded, and not paid
    async def read_invoices(self) -> ToolOutput:
        """Read all invoices."""
        lines = [f"{name} {row['net']} {row['vat']} {row['total']}" for name, row in self.task_spec["invoices"].items()]
        return ToolOutput(blocks=[TextBlock(text="\n".join(lines))])

    @tool
    async def flag(self, flag: Flag) -> ToolOutput:
        """Say that an invoice is wrong, and why."""
        return ToolOutput(blocks=[TextBlock(text=f"{flag.invoice} is flagged.")])

    @tool
    async def submit(self) -> ToolOutput:
        """Hand the audit in."""
        return ToolOutput(blocks=[TextBlock(text="Thank you.")], finished=True)


async def careful(play: Any) -> None:
    """Reads, calculates, flags what is wrong, and submits."""
    output = await play.call_tool("read_invoices")
    for line in output.blocks[0].text.splitlines():
        name, net, vat, total = line.split()
        if int(vat) * 5 != int(net) or int(net) + int(vat) != int(total):
            await play.call_tool("flag", {"invoice": name, "why": f"{net} + {vat} is not {total}"})
    await play.call_tool("submit")


async def hasty(play: Any) -> None:
    """Flags the first invoice it is told of, and submits."""
    first = (await play.get_prompt())[0].text.rsplit("submit: ")[1].split(",")[0]
    await play.call_tool("flag", {"invoice": first, "why": "line 1"})
    await play.call_tool("submit")


async def play_all(url: str, path: Path) -> None:
    api = AsyncOpenReward().environments
    environment = api.get("audit", base_url=url)
    for agent in (careful, hasty):
        await collect(agent, tasks(environment, "train"), path, name=agent.__name__, resume=True)
    await api.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episodes.jsonl"
        with serving_app(Server([Audit]).app) as url:
            asyncio.run(play_all(url, path))
        trajectories = sorted(read([path]), key=lambda one: (one.metadata["agent"], one.initial.blocks[0].text))
        for trajectory, row in zip(trajectories, rescore(trajectories, make_rubric()), strict=True):
            print(f"{trajectory.metadata['agent']}: {', '.join(trajectory.task['invoices'])}")
            for step, value in zip(trajectory.steps, row.step_rewards["values"], strict=True):
                paid = "not paid" if step.reward is None else f"{step.reward:.2f}"
                print(f"  {step.action.name:13} paid {paid:8}  credited {value:.2f}")
            same = row.reward == trajectory.reward
            print(f"  total {trajectory.reward:.2f}, offline {'the same' if same else row.reward}")


if __name__ == "__main__":
    main()

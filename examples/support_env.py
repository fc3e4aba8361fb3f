"""A support desk as an OpenEnv environment: a check that costs nothing first, and judges only behind it.

python examples/support_env.py                              # judges replay recorded replies
python examples/support_env.py --model openai/gpt-5-mini    # judges ask a model
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from judging import model_options
from loopback import serving
from openenv.core import Action, GenericEnvClient, Observation, State

from judges import Binary, LLMJudge
from rubrics import Rubric, Sequential, WeightedSum
from rubrics.integrations.openenv import RubricEnvironment


@dataclass(frozen=True)
class Ticket:
    order: str
    message: str


TICKETS = [
    Ticket("A-1042", "My headphones arrived broken. I waited two weeks for them. Order A-1042."),
    Ticket("B-2210", "Where is my parcel? The tracking of order B-2210 has not moved since Monday."),
]


class Answer(Action):
    text: str


class Desk(Observation):
    """What the customer wrote; `order` is the order that was last answered."""

    message: str = ""
    order: str = ""


class NamesTheOrder(Rubric):
    """A check that costs nothing: an answer that names no order, or another one, is not worth a judge."""

    def forward(self, action: Any, observation: Any) -> bool:
        return re.findall(r"\b[A-Z]-\d{4}\b", action.text) == [observation.order]


def make_rubric(**options: Any) -> Rubric:
    options = {"reason": False, **options}  # a small model does better without
    friendly = LLMJudge(
        "Is the tone of this reply to a customer friendly and respectful?\n\n{{ action.text | untrusted }}",
        Binary(true="friendly and respectful", false="rude, cold or dismissive"),
        **options,
    )
    helps = LLMJudge(
        "Does this reply to a customer say what is being done about the problem?\n\n{{ action.text | untrusted }}",
        Binary(true="it names a next step", false="it does nothing for the customer"),
        **options,
    )
    quality = WeightedSum({"friendly": friendly, "helps": helps}, {"friendly": 0.5, "helps": 0.5})
    return Sequential({"names_the_order": NamesTheOrder(), "quality": quality})


class SupportDesk(RubricEnvironment[Answer, Desk, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Desk:
        self.answered = 0
        return Desk(message=TICKETS[0].message)

    def task_of(self, **reset_arguments: Any) -> str:
        return "Answer the customers of a web shop. Name the order, be friendly, and say what happens next."

    def step(self, action: Answer, timeout_s: float | None = None, **kwargs: Any) -> Desk:
        order = TICKETS[self.answered].order
        self.answered += 1
        done = self.answered == len(TICKETS)
        return Desk(order=order, done=done, message="" if done else TICKETS[self.answered].message)

    @property
    def state(self) -> State:
        return State(step_count=self.answered)


AGENTS = {
    "kind": [
        "I am so sorry your headphones arrived broken. A new pair for order A-1042 leaves today, at no cost to you.",
        "Thank you for asking! I called the carrier about order B-2210: it will be with you on Thursday.",
    ],
    "rude": [
        "Not my problem. You probably dropped them yourself. Order A-1042 is closed.",
        "Just wait. Everybody waits. Stop asking me about B-2210.",
    ],
    "sloppy": [
        "So sorry about that! A new pair leaves today.",
        "Thank you for asking! Order B-2210 will be with you on Thursday.",
    ],
}


async def play(url: str, name: str) -> list[str]:
    async with GenericEnvClient(base_url=url, message_timeout_s=600.0) as client:
        await client.reset(episode_id=name)
        lines = [f"{name}:"]
        for text in AGENTS[name]:
            result = await client.step({"text": text})
            scores = result.metadata["rubric"]["scores"]
            shown = " ".join(
                f"{path.rpartition('.')[2]}={score}" for path, score in scores.items() if path != "quality"
            )
            lines.append(f"  reward {result.reward:.2f}  {shown}")
        return lines


async def play_all(url: str) -> None:
    for lines in await asyncio.gather(*(play(url, name) for name in AGENTS)):
        print("\n".join(lines))


def main() -> None:
    SupportDesk.rubric = make_rubric(**model_options("support_env"))
    with serving(SupportDesk, Answer, Desk, sessions=len(AGENTS)) as url:
        asyncio.run(play_all(url))


if __name__ == "__main__":
    main()

"""What the tests of OpenEnv share: its server on loopback, a game without rewards, and environments made of it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openenv.core import Action, EnvClient, Environment, Observation, State, create_app
from openenv.core.client_types import StepResult

from rubrics import (
    ExponentialDiscountingTrajectoryRubric,
    Gate,
    Rubric,
    TrajectoryRubric,
    Unscored,
    WeightedSum,
)
from rubrics.integrations.openenv import RubricEnvironment
from tests.integrations.serving import serving_app

SESSIONS = 16


class Move(Action):
    """`say` tells the rubric below what to do; `number` and `wait` are the game's."""

    say: str = "ok"
    number: int = 0
    wait: float = 0.0
    last: bool = False


class Seen(Observation):
    text: str = ""
    number: int = 0


class Named(State):
    scores: dict[str, float | None] = {}


@contextmanager
def serving(environment: Any, sessions: int = 1, action: type = Move, observation: type = Seen) -> Iterator[str]:
    """The package's own server on a free loopback port, in a thread; yields its address."""
    app = create_app(environment, action, observation, env_name="test", max_concurrent_envs=sessions)
    with serving_app(app) as url:
        yield url


class Board:
    """What the environments below do; it knows nothing of rewards."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    moves = 0

    def begin(self) -> Seen:
        self.moves = 0
        return Seen(text="start")

    def play(self, move: Move) -> Seen:
        self.moves += 1
        return Seen(text=f"move {self.moves}", number=move.number, done=move.last)

    @property
    def state(self) -> Named:
        named = self.rubric.named_rubrics()
        return Named(episode_id=getattr(self, "name", None), scores={path: node.last_score for path, node in named})


class MoveClient(EnvClient[Move, Seen, Named]):
    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        seen = Seen(**payload["observation"], reward=payload["reward"], done=payload["done"])
        return StepResult(observation=seen, reward=seen.reward, done=seen.done, metadata=payload.get("metadata"))

    def _parse_state(self, payload):
        return Named(**payload)


class Told(Rubric):
    """Does what the action says."""

    def forward(self, action, observation):
        if action.say == "fail":
            raise ValueError("boom, the answer is Paris")
        if action.say == "abstain":
            raise Unscored("no word on Paris")
        return None if action.say == "nothing" else 1.0


class ToldAsync(Told):
    async def forward(self, action, observation):
        await asyncio.sleep(0)
        return Told.forward(self, action, observation)


class Length(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return len(trajectory) / 10


def told(leaf: type[Rubric] = Told) -> WeightedSum:
    return WeightedSum({"legal": Gate(leaf()), "length": Length()}, {"legal": 0.5, "length": 0.5})


class ToldEnv(Board, RubricEnvironment[Move, Seen, Named]):
    rubric = told()

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.name = episode_id
        return self.begin()

    def step(self, action, timeout_s=None, **kwargs):
        return self.play(action)


class ToldSyncOnAsyncTree(ToldEnv):
    rubric = told(ToldAsync)


class ToldAsyncEnv(Board, RubricEnvironment[Move, Seen, Named]):
    rubric = told()

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        self.name = episode_id
        return self.begin()

    async def step_async(self, action, timeout_s=None, **kwargs):
        await asyncio.sleep(0)
        return self.play(action)


class ToldAsyncOnAsyncTree(ToldAsyncEnv):
    rubric = told(ToldAsync)


class Sleeps(Rubric):
    async def forward(self, action, observation):
        await asyncio.sleep(action.wait)
        return 1.0


class Blocks(Rubric):
    def forward(self, action, observation):
        time.sleep(action.wait)
        return 1.0


class Even(Rubric):
    def forward(self, action, observation):
        return 1.0 if action.number % 2 == 0 else 0.25


class Patient(Rubric):
    async def forward(self, action, observation):
        await asyncio.sleep(0.0005 * (action.number % 5))  # so that sessions overtake each other
        return (action.number % 7) / 7


class Whole(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory):
        assert [seen.number for _, seen in trajectory] == [move.number for move, _ in trajectory]
        return sum(move.number for move, _ in trajectory) % 97 / 97


def make_tree() -> WeightedSum:
    nodes = {"even": Even(), "patient": Patient(), "whole": Whole(gamma=0.5)}
    return WeightedSum(nodes, {"even": 0.1, "patient": 0.2, "whole": 0.7})


TREE = make_tree()


def expected(numbers: list[int]) -> tuple[list[float], list[float], dict[str, float]]:
    """Rewards of the steps, the whole's credit for them, and the last scores, worked out by hand."""
    even = [1.0 if n % 2 == 0 else 0.25 for n in numbers]
    patient = [n % 7 / 7 for n in numbers]
    whole = sum(numbers) % 97 / 97
    rewards = [0.1 * e + 0.2 * p for e, p in zip(even, patient, strict=True)]
    rewards[-1] += 0.7 * whole
    credit = [whole * 0.5 ** (len(numbers) - 1 - t) for t in range(len(numbers))]
    return rewards, credit, {"even": even[-1], "patient": patient[-1], "whole": whole}


class SessionWired(Board, Environment[Move, Seen, Named]):
    def __init__(self):
        super().__init__(rubric=TREE.session())

    def reset(self, **_):
        raise AssertionError("the async form is used")

    step = reset

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        await self._reset_rubric_async()
        return self.begin()

    async def step_async(self, action, timeout_s=None, **kwargs):
        seen = self.play(action)
        seen.reward = await self._apply_rubric_async(action, seen)
        if seen.done:
            seen.metadata = {"credit": self.rubric.get_rubric("whole").compute_step_rewards()}
        return seen


class BlockingWired(Board, Environment[Move, Seen, Named]):
    def __init__(self):
        super().__init__(rubric=TREE.blocking())

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._reset_rubric()
        return self.begin()

    def step(self, action, timeout_s=None, **kwargs):
        seen = self.play(action)
        seen.reward = self._apply_rubric(action, seen)
        if seen.done:
            seen.metadata = {"credit": self.rubric.get_rubric("whole").compute_step_rewards()}
        return seen


class RubricWired(Board, RubricEnvironment[Move, Seen, Named]):
    rubric = TREE

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.name = episode_id
        return self.begin()

    def step(self, action, timeout_s=None, **kwargs):
        return self.play(action)


class RubricWiredAsync(Board, RubricEnvironment[Move, Seen, Named]):
    rubric = TREE

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.begin()

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.play(action)


def numbers_of(session: int, episode: int) -> list[int]:
    return [(7 * session + 3 * t + 11 * episode) % 23 for t in range(2 + (session + episode) % 4)]


def make_and_reset(kind: Any) -> Any:
    environment = kind()
    environment.reset()
    return environment

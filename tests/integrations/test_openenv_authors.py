"""What authors of a RubricEnvironment may write, and what their mistakes say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")

from openenv.core import Action, GenericEnvClient, Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction

from rubrics import (
    EpisodeError,
    Rubric,
    RubricError,
    Sequential,
    TrajectoryRubric,
)
from rubrics.formats import read
from rubrics.integrations.openenv import RubricEnvironment
from tests.integrations.board import (
    Board,
    Length,
    Move,
    Named,
    Seen,
    Sleeps,
    Told,
    ToldAsync,
    ToldAsyncEnv,
    ToldEnv,
    make_and_reset,
    serving,
    told,
)


class Forgetful(ToldEnv):
    def __init__(self):
        self.made = True


class Polite(ToldEnv):
    def __init__(self):
        super().__init__()


class Handed(ToldEnv):
    rubric = None

    def __init__(self):
        super().__init__(rubric=told())


class Assigned(ToldEnv):
    def __init__(self):
        self.rubric = told(ToldAsync)


@pytest.mark.parametrize("environment", [Forgetful, Polite, Handed, Assigned], ids=lambda e: e.__name__)
def test_where_the_tree_may_come_from(environment: Any) -> None:
    one, other = environment(), environment()
    for each in (one, other):
        each.reset()
    assert one.step(Move()).reward == 0.5
    assert other.step(Move(last=True)).reward == pytest.approx(0.55)
    assert one.step(Move(last=True)).reward == pytest.approx(0.6)
    assert one.rubric.get_rubric("length").last_score == 0.2
    assert other.rubric.get_rubric("length").last_score == 0.1


class Shouting(ToldEnv):
    def step(self, action, timeout_s=None, **kwargs):
        seen = super().step(action, timeout_s, **kwargs)
        assert seen.reward is None  # what is inside is not scored
        return seen.model_copy(update={"text": seen.text.upper()})


class ShoutingTwice(Shouting):
    def reset(self, seed=None, **kwargs):
        return super().reset(seed=seed, **kwargs)

    def step(self, action, **kwargs):
        return super().step(action, **kwargs)


class BothForms(ToldEnv):
    async def step_async(self, action, timeout_s=None, **kwargs):
        return await asyncio.to_thread(self.step, action)


class OpenEnvHabits(ToldEnv):
    def reset(self, seed=None, episode_id=None, **kwargs):
        self._reset_rubric()
        return super().reset(seed, episode_id, **kwargs)

    def step(self, action, timeout_s=None, **kwargs):
        seen = self.play(action)
        seen.reward = self._apply_rubric(action, seen)
        return seen


class Moves:
    def reset(self, seed=None, episode_id=None, **kwargs):
        return self.begin()

    def step(self, action, timeout_s=None, **kwargs):
        return self.play(action)


class MixedIn(Board, Moves, RubricEnvironment[Move, Seen, Named]):
    rubric = told()


@pytest.mark.parametrize("kind", [Shouting, ShoutingTwice, BothForms, OpenEnvHabits, MixedIn], ids=lambda e: e.__name__)
def test_only_the_outermost_call_is_scored(kind: Any) -> None:
    with serving(kind) as url, GenericEnvClient(base_url=url).sync() as client:
        for _ in range(2):
            client.reset()
            assert client.step({}).reward == 0.5
            last = client.step({"last": True})
            assert last.reward == pytest.approx(0.6)
            assert last.observation["text"].lower() == "move 2"
            assert len(last.metadata["rubric"]["step_rewards"]["values"]) == 2


def test_environments_in_environments_are_scored_each_on_its_own() -> None:
    class Outer(ToldEnv):
        def reset(self, **kwargs):
            self.inner = ToldEnv()
            self.inner.reset()
            return self.begin()

        def step(self, action, timeout_s=None, **kwargs):
            assert self.inner.step(action).reward == 0.5
            return self.play(action)

    environment = Outer()
    environment.reset()
    assert environment.step(Move()).reward == 0.5


def test_tools_of_an_mcp_environment_are_steps() -> None:
    from fastmcp import FastMCP

    class Called(Rubric):
        def forward(self, action, observation):
            return float(action.tool_name == "add" and observation.error is None)

    class Tools(MCPEnvironment, RubricEnvironment[Action, Observation, State]):
        rubric = Called()

        def __init__(self):
            mcp = FastMCP("tools")
            mcp.tool(add)
            super().__init__(mcp)

        def reset(self, seed=None, episode_id=None, **kwargs):
            return Observation()

        def _step_impl(self, action, timeout_s=None, **kwargs):
            raise AssertionError("tools only")

        @property
        def state(self):
            return State()

    def add(a: int, b: int) -> int:
        """The sum."""
        return a + b

    call = {"type": "call_tool", "tool_name": "add", "arguments": {"a": 1, "b": 2}}
    with (
        serving(Tools, action=CallToolAction, observation=Observation) as url,
        GenericEnvClient(base_url=url).sync() as client,
    ):
        client.reset()
        assert client.step(call).reward == 1.0


class AsyncChild(ToldAsyncEnv):
    async def step_async(self, action, timeout_s=None, **kwargs):
        return await super().step_async(action, timeout_s)


@pytest.mark.parametrize("kind", [ToldAsyncEnv, AsyncChild], ids=lambda kind: kind.__name__)
def test_sync_callers_of_an_environment_that_is_written_async(kind: Any) -> None:
    environment = kind()
    environment.reset(episode_id="x")
    assert environment.step(Move()).reward == 0.5
    assert environment.step(Move(last=True), timeout_s=1.0).reward == pytest.approx(0.6)


def test_the_task_comes_from_reset() -> None:
    class Hits(Rubric):
        def forward(self, action, observation):
            return float(action.number == self.task["secret"])

    class Given(ToldEnv):
        rubric = Hits()

    class Chosen(Given):
        def task_of(self, **reset_arguments):
            return {"secret": reset_arguments["seed"] * 2}

    for environment, reset in ((Given(), {"task": {"secret": 8}}), (Chosen(), {"seed": 4})):
        environment.reset(**reset)
        assert environment.step(Move(number=8)).reward == 1.0
        assert environment.step(Move(number=9)).reward == 0.0
    positional = Chosen()
    positional.reset(4)
    assert positional.step(Move(number=8)).reward == 1.0


def test_the_trajectory_holds_what_the_environment_gave() -> None:
    class Looks(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            return float(all(seen.reward is None and seen.metadata == {} for _, seen in trajectory))

    class Env(ToldEnv):
        rubric = Looks()

        def play(self, move):
            self.seen = super().play(move)
            return self.seen

    environment = Env()
    environment.reset()
    assert environment.step(Move()).reward == 0.0
    assert environment.seen.reward is None
    assert environment.step(Move(last=True)).reward == 1.0


def test_snapshot_steps_is_for_environments_that_change_what_they_returned() -> None:
    class Texts(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            return len({seen.text for _, seen in trajectory})

    class Reused(ToldEnv):
        rubric = Texts()

        def play(self, move):
            self.moves += 1
            self.seen = getattr(self, "seen", Seen())
            self.seen.text, self.seen.done = f"move {self.moves}", move.last
            return self.seen

    def last_reward(environment: Any) -> float:
        environment.reset()
        environment.step(Move())
        return environment.step(Move(last=True)).reward

    assert last_reward(Reused()) == 1
    Reused.snapshot_steps = True
    assert last_reward(Reused()) == 2


async def test_closing_while_a_step_is_scored_does_not_wait_for_it(tmp_path: Path) -> None:
    class Env(ToldAsyncEnv):
        rubric = Sequential(Sleeps(), Length())
        record_to = tmp_path / "runs.jsonl"

    environment = Env()
    await environment.reset_async()
    step = asyncio.create_task(environment.step_async(Move(wait=0.05)))
    await asyncio.sleep(0.01)
    environment.close()
    assert (await step).reward == 0.0
    (written,) = read([Env.record_to])
    assert (written.end, len(written.steps)) == ("abandoned", 1)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ({"rubric": told}, TypeError, r"Env\.rubric must be a tree of this library .* not <function told"),
        ({"rubric": Told}, TypeError, "call the function or class that makes it"),
        ({"on_error": "ignore"}, ValueError, r"Env\.on_error is one of null, raise, not 'ignore'"),
        ({"expose": True}, ValueError, r"Env\.expose is one of scores, full, none, not True"),
        ({"step": asyncio.sleep}, TypeError, r"Env\.step is async, so its name must be step_async"),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_it_is_made(body: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        type("Env", (ToldEnv,), body)


def test_a_tree_assigned_to_the_class_later() -> None:
    class Env(ToldEnv):
        rubric = None

    Env.rubric = told()
    one, other = make_and_reset(Env), make_and_reset(Env)
    one.step(Move())
    assert other.step(Move(last=True)).reward == pytest.approx(0.55)
    assert one.step(Move(last=True)).reward == pytest.approx(0.6)


def test_mistakes_in_environments_say_what_to_do() -> None:
    class NoRubric(ToldEnv):
        rubric = None

    class NoReturn(ToldEnv):
        def step(self, action, timeout_s=None, **kwargs):
            self.play(action)

    class ScoresItself(ToldEnv):
        def step(self, action, timeout_s=None, **kwargs):
            seen = self.play(action)
            seen.reward = self.rubric(action, seen)
            return seen

    class Nothing(Board, RubricEnvironment[Move, Seen, Named]):
        rubric = told()

    with pytest.raises(RubricError, match="NoRubric has no rubric: give it one in the class body"):
        make_and_reset(NoRubric)
    with pytest.raises(TypeError, match=r"NoReturn\.step must return an Observation, not None"):
        make_and_reset(NoReturn).step(Move())
    with pytest.raises(EpisodeError, match="do not call the rubric in it"):
        make_and_reset(ScoresItself).step(Move())
    with pytest.raises(TypeError, match=r"abstract methods '?reset'?, '?step'?"):
        Nothing()

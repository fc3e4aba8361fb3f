"""SkyRL-gym environments that a tree scores, made by SkyRL-gym's own registry."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

skyrl_gym = pytest.importorskip("skyrl_gym")

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput  # noqa: E402
from skyrl_gym.envs.gsm8k.env import GSM8kEnv  # noqa: E402
from skyrl_gym.envs.registration import deregister  # noqa: E402
from skyrl_gym.metrics import aggregate_for_environment  # noqa: E402

from rubrics import EpisodeError, EpisodeOverError, Rubric, RubricError, TrajectoryRubric, WeightedSum  # noqa: E402
from rubrics.formats import read  # noqa: E402
from rubrics.integrations.skyrl_gym import RubricTextEnv  # noqa: E402
from rubrics.rescoring import rescore, rescore_one  # noqa: E402
from rubrics.rollouts.conversations import trajectory_of  # noqa: E402
from rubrics.rollouts.functions import RewardFunction  # noqa: E402
from rubrics.rollouts.scoring import Scorer  # noqa: E402
from tests.leaves import AsyncFixed, Fixed  # noqa: E402

PROMPT = [{"role": "system", "content": "Guess a number."}, {"role": "user", "content": "From 1 to 20."}]
EXTRAS = {"reward_spec": {"method": "rule", "ground_truth": "13"}, "max_turns": 5}


class IsNumber(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(action.content.strip().isdigit())


class Found(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[Any]) -> float:
        return float(trajectory[-1][0].content.strip() == self.task.reward_spec.ground_truth)


TREE = WeightedSum({"is_number": IsNumber(), "found": Found()}, {"is_number": 0.25, "found": 0.75})


class GuessEnv(RubricTextEnv):
    rubric = TREE
    unscored = "raise"

    def __init__(self, env_config: Any = None, extras: Any = None) -> None:
        super().__init__()
        self.secret = extras["reward_spec"]["ground_truth"]
        self.max_turns = extras["max_turns"]

    def step(self, action: str) -> Any:
        self.turns += 1
        done = action.strip() == self.secret or self.turns == self.max_turns
        hints = [] if done else [{"role": "user", "content": "higher" if action < self.secret else "lower"}]
        return BaseTextEnvStepOutput(observations=hints, reward=0.5, done=done, metadata={"turn": self.turns})


class Own(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.reward)


class Short(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(len(action.content) < 100)


class ScoredGSM8k(RubricTextEnv, GSM8kEnv):  # type: ignore[misc]
    """An environment of the package, scored by a tree in which its own reward is a leaf."""

    rubric = WeightedSum({"own": Own(), "short": Short()}, {"own": 0.9, "short": 0.1})
    unscored = 0.0


@pytest.fixture
def _registered() -> Iterator[None]:
    skyrl_gym.register("guess", entry_point=GuessEnv)
    skyrl_gym.register("scored_gsm8k", entry_point=ScoredGSM8k)
    yield
    deregister("guess")
    deregister("scored_gsm8k")


def play(env: Any, *texts: str) -> list[Any]:
    """What SkyRL's generator does with an environment, without its model."""
    env.init(PROMPT)
    return [env.step(text) for text in texts]


def made(rubric: Rubric, unscored: Any = "raise", **attributes: Any) -> Any:
    cls = type("Made", (GuessEnv,), {"rubric": rubric, "unscored": unscored, **attributes})
    return cls(env_config={}, extras=dict(EXTRAS))


@pytest.mark.usefixtures("_registered")
def test_an_environment_out_of_the_registry_is_scored() -> None:
    env = skyrl_gym.make("guess", env_config={}, extras=EXTRAS)
    prompt, metadata = env.init(PROMPT)
    assert (prompt, metadata) == (PROMPT, {})
    outputs = [env.step(text) for text in ("12", "what?", " 13")]
    assert [output["reward"] for output in outputs] == [0.25, 0.0, 1.0]
    assert [output["done"] for output in outputs] == [False, False, True]
    assert outputs[0]["observations"] == [{"role": "user", "content": "higher"}]
    assert outputs[0]["metadata"]["turn"] == 1
    assert outputs[0]["metadata"]["rubric"]["status"] == "pending"
    told = outputs[2]["metadata"]["rubric"]
    assert told["scores"] == {"is_number": 1.0, "found": 1.0}
    assert told["step_rewards"]["total"] == 1.25
    assert env.get_metrics() == {"rubric/is_number": 1.0, "rubric/found": 1.0, "rubric/unscored": 0.0}
    env.close()
    assert aggregate_for_environment("guess", [env.get_metrics()] * 2)["rubric/found"] == 1.0


@pytest.mark.usefixtures("_registered")
def test_an_environment_that_exists_is_scored_and_its_own_reward_is_a_leaf() -> None:
    for text, reward in (("so #### 42", 1.0), ("so #### 41", 0.1)):
        env = skyrl_gym.make("scored_gsm8k", extras={"reward_spec": {"ground_truth": "42"}})
        (output,) = play(env, text)
        assert output["reward"] == pytest.approx(reward)
        assert output["done"] is True
        assert output["metadata"]["rubric"]["scores"]["own"] == float(reward == 1.0)


def test_the_reward_equals_that_of_the_conversation_everywhere() -> None:
    env = made(TREE)
    rewards = [output["reward"] for output in play(env, "12", "13")]
    conversation = [
        {"role": "assistant", "content": "12"},
        {"role": "user", "content": "higher"},
        {"role": "assistant", "content": "13"},
    ]
    trajectory = trajectory_of(PROMPT, conversation, task=EXTRAS)
    assert sum(rewards) == Scorer(TREE).score(trajectory).reward == rescore_one(trajectory, TREE).reward
    own = env.rubric.episode_now.trajectory
    assert own.initial == trajectory.initial
    assert [step.action for step in own.steps] == [step.action for step in trajectory.steps]
    for step, other in zip(own.steps, trajectory.steps, strict=True):
        assert {key: value for key, value in step.observation.items() if key not in ("reward", "metadata")} == (
            other.observation
        )


def test_a_reward_function_of_a_trainer_can_be_a_leaf() -> None:
    def exact(prompt: str, completion: str, reward_spec: Any) -> float:
        return float(completion == reward_spec["ground_truth"] and "20" in prompt)

    assert play(made(RewardFunction(exact)), "12", "13")[-1]["reward"] == 1.0


def test_what_skyrl_puts_in_place_of_the_action_is_judged() -> None:
    class Cuts(GuessEnv):
        def step(self, action: str) -> Any:
            cut = action.split("</answer>")[0]
            return {**super().step(cut), "postprocessed_action": cut}

    env = Cuts(extras=EXTRAS)
    outputs = play(env, "13</answer> and more")
    assert outputs[0]["reward"] == 1.0
    assert outputs[0]["postprocessed_action"] == "13"
    assert len(env.rubric.episode_now.trajectory.steps) == 1  # super().step was not scored again


def test_an_async_tree_is_waited_for_and_many_rollouts_share_it() -> None:
    tree = WeightedSum({"judge": AsyncFixed(0.5), "found": Found()}, {"judge": 0.5, "found": 0.5})
    environments = [made(tree) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        rollouts = list(pool.map(lambda env: [o["reward"] for o in play(env, "12", "13")], environments))
    assert rollouts == [[0.25, 0.75]] * 8


def test_what_stands_for_no_reward_must_be_chosen() -> None:
    with pytest.raises(TypeError, match="unscored is missing"):
        type("Silent", (RubricTextEnv,), {"rubric": TREE})
    with pytest.raises(ValueError, match="'raise' or a finite number"):
        type("Wrong", (RubricTextEnv,), {"rubric": TREE, "unscored": None})
    with pytest.raises(TypeError, match="must be a tree"):
        type("Wrong", (RubricTextEnv,), {"rubric": lambda: TREE, "unscored": 0.0})
    type("Abstract", (RubricTextEnv,), {})


@pytest.mark.parametrize("value", [None, ValueError("boom"), float("nan")])
def test_no_reward_is_raised_or_the_number_chosen(value: Any) -> None:
    tree = WeightedSum({"judge": Fixed(value)}, {"judge": 1.0})
    env = made(tree)
    env.init(PROMPT)
    for text in ("12", "13"):
        with pytest.raises(RubricError, match="judge"):
            env.step(text)
    assert [step.reward for step in env.rubric.episode_now.trajectory.steps] == [None, None]
    env = made(tree, unscored=-0.5)
    outputs = play(env, "12", "13")
    assert [output["reward"] for output in outputs] == [-0.5, -0.5]
    told = outputs[-1]["metadata"]["rubric"]
    assert told["status"] == ("unscored" if value is None else "error")
    assert told["reason"].startswith("judge")
    assert env.get_metrics() == {"rubric/unscored": 1.0}


def test_steps_out_of_place_are_refused() -> None:
    env = made(TREE)
    with pytest.raises(EpisodeError, match="step before init"):
        env.step("1")
    play(env, "13")
    with pytest.raises(EpisodeOverError):
        env.step("13")
    assert env.turns == 1  # the author's step did not run


def test_recordings_rescore_equal_and_a_rollout_cut_off_is_abandoned(tmp_path: Path) -> None:
    path = tmp_path / "guesses.jsonl"
    first, second = made(TREE, record_to=path), made(TREE, record_to=path)
    total = play(first, "12", "13")[-1]["metadata"]["rubric"]["step_rewards"]["total"]
    play(second, "12")
    second.close()  # the context was full
    assert second.get_metrics()["rubric/unscored"] == 1.0
    trajectories = list(read(path))
    assert [trajectory.end for trajectory in trajectories] == ["terminated", "abandoned"]  # type: ignore[union-attr]
    assert [row.reward for row in rescore(trajectories, TREE)] == [total, None]


def test_authors_may_forget_super_and_write_init_and_close() -> None:
    class Forgetful(RubricTextEnv):
        rubric = TREE
        unscored = 0
        closed = False

        def __init__(self, env_config: Any = None, extras: Any = None) -> None:
            self.turns = 0

        def init(self, prompt: Any) -> Any:
            return [{"role": "user", "content": "And now?"}], {"seed": 1}

        def step(self, action: str) -> Any:
            return {"observations": [], "done": True}

        def close(self) -> None:
            self.closed = True

    env = Forgetful(extras=EXTRAS)
    assert env.init(PROMPT) == ([{"role": "user", "content": "And now?"}], {"seed": 1})
    assert env.step("13")["reward"] == 1.0
    assert env.rubric.episode_now.initial.content == "And now?"
    env.close()
    assert env.closed
    assert isinstance(env, BaseTextEnv)

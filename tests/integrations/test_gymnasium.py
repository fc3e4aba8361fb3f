"""Gymnasium environments whose reward is a tree's, under Gymnasium's own checker, registry and vector environments."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")

import numpy as np  # noqa: E402
from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit  # noqa: E402

from rubrics import (  # noqa: E402
    EpisodeOverError,
    EqualSplit,
    Evaluation,
    InvalidScoreError,
    Rubric,
    RubricError,
    Score,
    TrajectoryRubric,
    Unscored,
    WeightedSum,
)
from rubrics.formats import read  # noqa: E402
from rubrics.integrations.gymnasium import RubricReward  # noqa: E402
from rubrics.rescoring import rescore, rescore_one  # noqa: E402
from rubrics.rollouts.scoring import Scorer  # noqa: E402
from tests.leaves import AsyncFixed, Fixed  # noqa: E402

# What Python says of every fork in a process with threads; Gymnasium forks, and our loop is a thread.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class Walk(gym.Env):  # type: ignore[misc]
    """From the middle of a line to one of its ends; its own reward is 1 for a step to the right."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Dict({"place": gym.spaces.Box(-3, 3, (1,), np.float32)})

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.place += 1 if action == 1 else -1
        return self.seen(), float(action), abs(self.place) == 3, False, {"place": self.place}

    def seen(self) -> dict[str, Any]:
        return {"place": np.array([self.place], np.float32)}

    def render(self) -> str:
        return f"{self.place:+}"


class EnvReward(Rubric):
    """The environment's own reward, as a leaf."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.reward)


class Centred(Rubric):
    def forward(self, action: Any, observation: Any) -> Score:
        place = float(np.asarray(observation.observation.place, dtype=np.float64)[0])
        return Score(1 - abs(place) / 3, reason=f"at {place:+.0f}")


class Arrived(TrajectoryRubric):
    """Whether the walk ended where the task says."""

    def score_trajectory(self, trajectory: list[Any]) -> float:
        return float(trajectory[-1][1].info["place"] == (self.task or 3))


class Fussy(Rubric):
    """Does not judge a place below zero, and breaks at minus three."""

    def forward(self, action: Any, observation: Any) -> float:
        if observation.info["place"] == -3:
            raise ValueError("fell off")
        if observation.info["place"] < 0:
            raise Unscored("out of sight")
        return 1.0


def make_tree() -> WeightedSum:
    leaves = {"own": EnvReward(), "centred": Centred(), "arrived": Arrived(credit=EqualSplit())}
    return WeightedSum(leaves, {"own": 0.25, "centred": 0.25, "arrived": 0.5})


TREE = make_tree()


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gym.register("Walk-v0", entry_point=Walk, max_episode_steps=8)
    yield
    del gym.registry["Walk-v0"]


def walk(env: Any, moves: str, **reset: Any) -> list[tuple[Any, ...]]:
    """Reset, and step to the left (`<`) and right (`>`)."""
    env.reset(**reset)
    return [env.step(">".count(move)) for move in moves]


def wrapped(tree: Rubric, unscored: Any = "raise", **options: Any) -> RubricReward:
    return RubricReward(gym.make("Walk-v0"), tree, unscored=unscored, **options)


# -- rewards ----------------------------------------------------------------------------------------------------------


def test_the_reward_is_the_trees_and_info_has_its_components() -> None:
    answers = walk(wrapped(TREE), "<>>>>")
    assert [answer[1] for answer in answers] == pytest.approx([1 / 6, 0.5, 0.25 + 1 / 6, 0.25 + 1 / 12, 0.75])
    assert all(type(answer[1]) is float for answer in answers)
    told = answers[0][4]["rubric"]
    assert told["status"] == "pending"
    assert told["env_reward"] == 0.0
    assert told["scores"] == {"own": 0.0, "centred": 1 - 1 / 3, "arrived": 0.0}
    assert told["reasons"] == {"centred": "at -1"}
    assert answers[0][4]["place"] == -1
    last = answers[-1]
    assert last[2:4] == (True, False)
    assert last[4]["rubric"]["status"] == "scored"
    rewards = last[4]["rubric"]["step_rewards"]
    assert rewards["kind"] == "reward"
    assert sum(rewards["values"]) == pytest.approx(rewards["total"]) == sum(answer[1] for answer in answers)
    assert rewards["values"][0] == pytest.approx(1 / 6 + 0.1)


def test_a_task_comes_from_the_options_from_info_or_from_an_override() -> None:
    env = wrapped(TREE)
    assert walk(env, "<<<", options={"task": -3})[-1][4]["rubric"]["scores"]["arrived"] == 1.0
    assert walk(env, "<<<")[-1][4]["rubric"]["scores"]["arrived"] == 0.0

    class Tells(Walk):
        def reset(self, **given: Any) -> Any:
            return super().reset(**given)[0], {"task": -3}

    env = RubricReward(Tells(), TREE, unscored="raise")
    assert walk(env, "<<<", options={"task": 3})[-1][4]["rubric"]["scores"]["arrived"] == 1.0

    class Chooses(RubricReward):
        def task_of(self, options: Any, observation: Any, info: Any) -> Any:
            return -3 if observation["place"] == 0 else 3

    env = Chooses(Walk(), TREE, unscored="raise")
    assert walk(env, "<<<")[-1][4]["rubric"]["scores"]["arrived"] == 1.0


def test_a_time_limit_truncates_the_episode_of_the_tree() -> None:
    env = wrapped(TREE)
    answers = walk(env, "<>" * 4)
    assert answers[-1][2:4] == (False, True)
    assert "step_rewards" in answers[-1][4]["rubric"]
    assert env.rubric.episode_now.status == "truncated"


def test_an_async_tree_is_waited_for() -> None:
    env = wrapped(WeightedSum({"judge": AsyncFixed(0.5), "arrived": Arrived()}, {"judge": 0.5, "arrived": 0.5}))
    assert [answer[1] for answer in walk(env, ">>>")] == [0.25, 0.25, 0.75]


def test_the_environments_view_of_the_tree_shows_last_scores() -> None:
    env = wrapped(TREE)
    walk(env, ">")
    assert env.rubric.get_rubric("own").last_score == 1.0
    assert env.get_wrapper_attr("rubric") is env.rubric


def test_rollouts_score_as_they_do_everywhere() -> None:
    env = wrapped(TREE)
    walk(env, ">><>>", options={"task": 3})
    trajectory = env.rubric.episode_now.trajectory
    assert trajectory.reward is not None
    assert Scorer(TREE).score(trajectory).reward == rescore_one(trajectory, TREE).reward == trajectory.reward


class Upright(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        angle = float(observation.observation[2])
        return 1 - abs(angle) / 0.21


def test_the_example_of_the_documentation() -> None:
    tree = WeightedSum({"own": EnvReward(), "upright": Upright()}, {"own": 0.5, "upright": 0.5})
    env = RubricReward(gym.make("CartPole-v1"), tree, unscored="raise")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(1)
    assert 0.5 < reward < 1.0
    assert set(info["rubric"]["scores"]) == {"own", "upright"}
    wrapper = partial(RubricReward, rubric=tree, unscored="raise")
    envs = gym.make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync", wrappers=[wrapper])
    envs.reset(seed=0)
    _, rewards, _, _, infos = envs.step(envs.action_space.sample())
    assert rewards.shape == infos["rubric"]["scores"]["upright"].shape == (8,)
    envs.close()


# -- no reward --------------------------------------------------------------------------------------------------------


def test_what_stands_for_no_reward_must_be_chosen() -> None:
    with pytest.raises(TypeError, match="unscored"):
        RubricReward(Walk(), TREE)  # type: ignore[call-arg]
    for wrong in ("drop", None, float("nan"), True):
        with pytest.raises(ValueError, match="'raise' or a finite number"):
            RubricReward(Walk(), TREE, unscored=wrong)
    with pytest.raises(TypeError, match="expected a tree"):
        RubricReward(Walk(), make_tree, unscored=0)  # type: ignore[arg-type]


def test_raise_raises_on_every_step_and_the_trajectory_holds_it() -> None:
    env = wrapped(WeightedSum({"fussy": Fussy()}, {"fussy": 1.0}))
    env.reset()
    with pytest.raises(RubricError, match="fussy is unscored: out of sight"):
        env.step(0)
    assert env.step(1)[1] == 1.0
    assert [step.reward for step in env.rubric.episode_now.trajectory.steps] == [None, 1.0]
    for _ in range(2):
        with pytest.raises(RubricError, match="out of sight"):
            env.step(0)
    with pytest.raises(RubricError, match="fussy: ValueError: fell off") as caught:
        env.step(0)
    assert isinstance(caught.value.__cause__, ValueError)
    assert env.rubric.episode_now.over
    with pytest.raises(EpisodeOverError):
        env.step(0)


def test_a_number_stands_for_no_reward_and_info_says_why() -> None:
    answers = walk(wrapped(WeightedSum({"fussy": Fussy()}, {"fussy": 1.0}), unscored=-1), "><<<<")
    assert [answer[1] for answer in answers] == [1.0, 1.0, -1.0, -1.0, -1.0]
    told = [answer[4]["rubric"] for answer in answers]
    assert [one["status"] for one in told] == ["scored", "scored", "unscored", "unscored", "error"]
    assert told[2]["reason"] == "fussy is unscored: out of sight"
    assert told[4]["reason"] == "fussy: ValueError: fell off"
    assert told[4]["step_rewards"]["total"] is None
    assert told[2]["scores"] == {"fussy": None}


def test_a_bad_score_is_no_reward() -> None:
    env = wrapped(Fixed(float("nan")))
    env.reset()
    with pytest.raises(RubricError, match="Fixed") as caught:
        env.step(0)
    assert isinstance(caught.value.__cause__, InvalidScoreError)


def test_steps_out_of_place_are_refused() -> None:
    env = wrapped(TREE)
    with pytest.raises(ResetNeeded, match="before reset"):
        env.step(0)
    walk(env, ">>>")
    with pytest.raises(EpisodeOverError, match="reset first"):
        env.step(1)
    assert walk(env, ">")[0][1] > 0


# -- Gymnasium's own machinery ----------------------------------------------------------------------------------------


def test_gymnasiums_checker_passes() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*(different from the unwrapped version|value is -?infinity).*")
        check_env(wrapped(TREE))
        check_env(RubricReward(gym.make("CartPole-v1"), AsyncFixed(0.5), unscored=0), skip_render_check=True)


def test_a_spec_makes_the_environment_again_with_the_same_tree() -> None:
    env = wrapped(TREE, unscored=0.5)
    again = env.spec.make()
    assert isinstance(again, RubricReward)
    assert again.unscored == 0.5
    assert walk(again, ">>>")[-1][1] == walk(env, ">>>")[-1][1]
    first = RubricReward(Walk(), TREE, unscored="raise")
    assert first.rubric.rubric is TREE


def test_statistics_outside_count_the_trees_reward_and_a_limit_outside_leaves_the_episode_unfinished() -> None:
    env = RecordEpisodeStatistics(wrapped(TREE))
    answers = walk(env, ">>>")
    assert answers[-1][4]["episode"]["r"] == pytest.approx(sum(answer[1] for answer in answers))
    inner = RubricReward(Walk(), TREE, unscored="raise")
    walk(TimeLimit(inner, 2), ">>")
    episode = inner.rubric.episode_now
    assert episode.status is None
    inner.reset()
    assert episode.status == "abandoned"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_batch_rewards_and_infos(mode: str) -> None:
    wrapper = partial(RubricReward, rubric=TREE, unscored="raise")
    envs = gym.make_vec("Walk-v0", num_envs=3, vectorization_mode=mode, wrappers=[wrapper])
    try:
        envs.reset(seed=1, options={"task": -3})
        single = [walk(wrapped(TREE), moves, options={"task": -3}) for moves in ("<<<", ">>>", "><<")]
        for t, moves in enumerate(([0, 1, 1], [0, 1, 0], [0, 1, 0])):
            _, rewards, terminated, _, infos = envs.step(np.array(moves))
            assert rewards.tolist() == pytest.approx([answers[t][1] for answers in single])
        assert terminated.tolist() == [True, True, False]
        told = infos["rubric"]
        assert told["status"].tolist() == ["scored", "scored", "pending"]
        assert told["scores"]["arrived"].tolist() == [1.0, 0.0, 0.0]
        assert told["reasons"]["centred"].tolist() == ["at -3", "at +3", "at -1"]
        assert told["_step_rewards"].tolist() == [True, True, False]
        assert told["step_rewards"]["values"][0] == single[0][2][4]["rubric"]["step_rewards"]["values"]
        _, rewards, *_ = envs.step(np.array([0, 0, 0]))  # the first two are reset, the third goes on
        assert rewards.tolist()[:2] == [0.0, 0.0]
    finally:
        envs.close()


def test_a_tree_with_async_nodes_is_waited_for_in_processes_of_their_own() -> None:
    tree = WeightedSum({"judge": AsyncFixed(0.5), "arrived": Arrived()}, {"judge": 0.5, "arrived": 0.5})
    walk(wrapped(tree), ">")  # the library's loop runs before the processes are forked
    wrapper = partial(RubricReward, rubric=tree, unscored="raise")
    envs = gym.make_vec("Walk-v0", num_envs=2, vectorization_mode="async", wrappers=[wrapper])
    try:
        envs.reset()
        assert envs.step(np.array([0, 1]))[1].tolist() == [0.25, 0.25]
    finally:
        envs.close()


def test_unscored_and_scored_steps_share_a_batch() -> None:
    wrapper = partial(RubricReward, rubric=WeightedSum({"fussy": Fussy()}, {"fussy": 1.0}), unscored=-1)
    for order in ([0, 1], [1, 0]):
        envs = gym.make_vec("Walk-v0", num_envs=2, vectorization_mode="sync", wrappers=[wrapper])
        envs.reset()
        _, rewards, _, _, infos = envs.step(np.array(order))
        assert rewards.tolist() == [-1.0 if move == 0 else 1.0 for move in order]
        scores = infos["rubric"]["scores"]["fussy"].tolist()
        assert scores[order.index(1)] == 1.0
        assert scores[order.index(0)] is None or np.isnan(scores[order.index(0)])
        envs.close()


def test_a_failure_in_a_process_of_its_own_arrives() -> None:
    wrapper = partial(RubricReward, rubric=WeightedSum({"fussy": Fussy()}, {"fussy": 1.0}), unscored="raise")
    envs = gym.make_vec("Walk-v0", num_envs=2, vectorization_mode="async", wrappers=[wrapper])
    envs.reset()
    with pytest.raises(RubricError, match="fussy is unscored"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium logs what a process raised
        envs.step(np.array([0, 1]))
    envs.close(terminate=True)


def test_many_environments_share_one_tree() -> None:
    envs = [wrapped(TREE) for _ in range(20)]
    for env in envs:
        env.reset(options={"task": 3})
    for _ in range(2):
        for env in envs:
            env.step(1)
    assert {env.step(1)[1] for env in envs} == {0.75}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_share_no_episode_with_their_original(copied: Any) -> None:
    env = RubricReward(Walk(), TREE, unscored="raise")
    walk(env, ">")
    other = copied(env)
    with pytest.raises(ResetNeeded):
        other.step(1)
    assert [answer[1] for answer in walk(other, ">>>")] == [answer[1] for answer in walk(env, ">>>")]
    assert env.rubric.rubric is TREE


# -- recordings -------------------------------------------------------------------------------------------------------


def test_recordings_rescore_equal(tmp_path: Path) -> None:
    path = tmp_path / "walks.jsonl"
    env = wrapped(TREE, record_to=path)
    totals = [
        walk(env, moves, options={"task": 3})[-1][4]["rubric"]["step_rewards"] for moves in (">>>", "<>>>>", "<<<")
    ]
    walk(env, ">")
    env.close()
    trajectories = list(read(path))
    assert [trajectory.end for trajectory in trajectories] == ["terminated"] * 3 + ["abandoned"]  # type: ignore[union-attr]
    assert trajectories[0].source["environment"] == "Walk-v0"  # type: ignore[union-attr]
    rows = list(rescore(trajectories, make_tree()))
    assert [row.reward for row in rows] == [total["total"] for total in totals] + [None]
    assert [row.step_rewards for row in rows[:3]] == totals
    step = trajectories[1].steps[0]  # type: ignore[union-attr]
    assert dict(step.observation) == {
        "observation": {"place": [-1.0]},
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "info": {"place": -1},
    }
    assert Evaluation.from_dict(step.metadata["evaluation"]).score == step.reward


def test_snapshots_are_of_actions_and_observations() -> None:
    class Reuses(Walk):
        def seen(self) -> dict[str, Any]:
            self.buffer = self.__dict__.get("buffer", np.zeros(1, np.float32))
            self.buffer[0] = self.place
            return {"place": self.buffer}

    for snapshot, places in ((True, [1.0, 2.0]), (False, [2.0, 2.0])):
        env = RubricReward(Reuses(), Centred(), unscored="raise", snapshot_steps=snapshot)
        walk(env, ">>")
        steps = env.rubric.episode_now.trajectory.steps
        assert [float(step.observation.observation.place[0]) for step in steps] == places

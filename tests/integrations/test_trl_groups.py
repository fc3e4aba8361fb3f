"""Groups: a group rubric as a reward function, and advantages: ours and those of TRL, from the same rewards."""

import asyncio
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from rubrics import GroupRubric, IncompleteGroupError, Score
from rubrics.credit import component_advantages, group_advantages
from rubrics.integrations.trl import group_reward_function
from tests.integrations.tiny_model import actor, grpo_settings, random_model, tokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*(activation|gradient)_checkpointing.*:FutureWarning"),
]

GROUPS = [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
REWARDS = [
    *(0.0, 1.0, 0.25, 1.0),
    *(None, -3.0, 2.0, None),  # two are unscored
    *(0.5, 0.5, 0.5, None),  # no variance
    *(None, None, None, 7.0),  # nobody to compare with
]
OTHER = [*(3.0, 1.0, 2.0, 5.0), *(None, 1.0, 1.5, None), *(0.0, 1.0, 0.5, None), *(None, None, None, 0.0)]
WEIGHTS = {"rewards": 2.0, "other": -0.5}


def trl_advantages(trainer: Any, config: Any, columns: list[list[float | None]], folder: Path, **settings: Any) -> Any:
    """What a step of a trainer makes of these rewards, one column a reward function."""

    def giving(column: list[float | None], name: str) -> Any:
        def function(completions: Any, **_: Any) -> list[float | None]:
            assert len(completions) == len(column)
            return column

        function.__name__ = name
        return function

    vocabulary = tokenizer()
    step = trainer(
        model=random_model(vocabulary),
        reward_funcs=[giving(column, f"f{number}") for number, column in enumerate(columns)],
        args=config(**{**grpo_settings(folder), "per_device_train_batch_size": 16, "beta": 0.0, **settings}),
        train_dataset=Dataset.from_dict({"prompt": ["a", "b", "c", "d"]}),
        processing_class=vocabulary,
    )
    step.train()
    prompts = list(step._logs["prompt"])
    assert all(len(set(prompts[i : i + 4])) == 1 for i in range(0, 16, 4))  # the groups are as we take them
    return np.array(step._logs["advantages"])


def ours(method: Any) -> Any:
    """Ours, with TRL's 0 for members that take no part."""
    advantages = group_advantages(REWARDS, GROUPS, method)
    assert np.array_equal(np.isnan(advantages), [reward is None for reward in REWARDS])
    return np.nan_to_num(advantages)


def test_grpo(tmp_path: Path) -> None:
    theirs = trl_advantages(GRPOTrainer, GRPOConfig, [REWARDS], tmp_path)
    assert ours("grpo") == pytest.approx(theirs, rel=3e-4, abs=1e-6)  # TRL adds 1e-4 to the standard deviation
    spread = np.array([np.nanstd(np.array(REWARDS[i : i + 4], dtype=float), ddof=1) for i in (0, 4)]).repeat(4)
    assert ours("grpo")[:8] * spread / (spread + 1e-4) == pytest.approx(theirs[:8], rel=1e-6)


def test_dr_grpo(tmp_path: Path) -> None:
    theirs = trl_advantages(GRPOTrainer, GRPOConfig, [REWARDS], tmp_path, scale_rewards="none")
    # A lone scored member has no deviation, and TRL's own arithmetic says 0 too.
    assert ours("dr_grpo") == pytest.approx(theirs, rel=1e-6, abs=1e-7)


def test_rloo(tmp_path: Path) -> None:
    theirs = trl_advantages(RLOOTrainer, RLOOConfig, [REWARDS], tmp_path)
    assert ours("rloo") == pytest.approx(theirs, rel=1e-6, abs=1e-7)


def test_components(tmp_path: Path) -> None:
    theirs = trl_advantages(
        GRPOTrainer,
        GRPOConfig,
        [REWARDS, OTHER],
        tmp_path,
        reward_weights=list(WEIGHTS.values()),
        multi_objective_aggregation="normalize_then_sum",
    )
    advantages = component_advantages({"rewards": REWARDS, "other": OTHER}, WEIGHTS, GROUPS, whiten=True)
    assert np.array_equal(np.isnan(advantages), [reward is None for reward in REWARDS])
    assert np.nan_to_num(advantages) == pytest.approx(theirs, rel=1e-3, abs=3e-4)


def test_components_summed_first(tmp_path: Path) -> None:
    theirs = trl_advantages(GRPOTrainer, GRPOConfig, [REWARDS, OTHER], tmp_path, reward_weights=list(WEIGHTS.values()))
    total = [None if a is None or b is None else 2.0 * a - 0.5 * b for a, b in zip(REWARDS, OTHER, strict=True)]
    advantages = group_advantages(total, GROUPS)
    assert np.nan_to_num(advantages) == pytest.approx(theirs, rel=1e-3, abs=1e-6)
    apart = component_advantages({"rewards": REWARDS, "other": OTHER}, WEIGHTS, GROUPS)
    assert not np.allclose(advantages, apart, equal_nan=True)


def test_one_missing_component_leaves_a_member_out_here_and_is_passed_over_there(tmp_path: Path) -> None:
    first, second = [0.0, 1.0, 2.0, 3.0] * 4, [None, 1.0, 0.0, 2.0] * 4
    theirs = trl_advantages(
        GRPOTrainer, GRPOConfig, [first, second], tmp_path, multi_objective_aggregation="normalize_then_sum"
    )
    advantages = component_advantages({"a": first, "b": second}, {"a": 1.0, "b": 1.0}, GROUPS)
    assert np.isnan(advantages[::4]).all() and (theirs[::4] < 0).all()


class Longest(GroupRubric):
    """The share of the longest completion of the group."""

    async def score_group(self, group: Any, task: Any = None) -> Any:
        lengths = [len(trajectory.steps[-1].action.content) for trajectory in group]
        return [Score(length / max(lengths), f"{length} letters") for length in lengths]


def test_a_group_rubric_is_a_reward_function() -> None:
    function = group_reward_function(Longest(), size=3)
    metrics: dict[str, float] = {}
    columns: dict[str, Any] = {}
    batch = {
        "prompts": ["p", "p", "p", "q", "q", "q"],
        "completions": ["a", "aaaa", "aa", "b", "b", "b"],
        "completion_ids": [[1]] * 6,
        "log_metric": metrics.__setitem__,
        "log_extra": columns.__setitem__,
    }
    assert asyncio.run(function(**batch)) == [0.25, 1.0, 0.5, None, None, None], "all the same: nothing to compare"
    assert metrics == {"group_rubric/unscored": 0.5}
    assert columns["group_rubric/feedback"][1] == "4 letters" and function.__name__ == "group_rubric"
    assert pickle.loads(pickle.dumps(function)).size == 3


def test_groups_that_are_not_whole_are_refused() -> None:
    function = group_reward_function(Longest(), size=2)
    with pytest.raises(IncompleteGroupError, match="rows 2 and 3 of the batch have different prompts"):
        asyncio.run(function(prompts=["p", "p", "q", "r"], completions=["a", "b", "c", "d"]))
    with pytest.raises(IncompleteGroupError, match="do not have 2 members"):
        asyncio.run(function(prompts=["p", "p", "q"], completions=["a", "b", "c"]))
    with pytest.raises(ValueError, match="a group of 1 has nothing to compare"):
        group_reward_function(Longest(), size=1)


def test_a_step_of_grpo_with_a_group_rubric(tmp_path: Path) -> None:
    vocabulary = tokenizer()
    said = iter(["a", "bb", "ccc", "dddd", "e", "e", "e", "e"] * 4)
    trainer = GRPOTrainer(
        model=actor(vocabulary, lambda text: next(said)),
        reward_funcs=group_reward_function(Longest(), size=4),
        args=GRPOConfig(**grpo_settings(tmp_path)),
        train_dataset=Dataset.from_dict({"prompt": ["one?", "two?"]}),
        processing_class=vocabulary,
    )
    trainer.train()
    rewards = list(trainer._logs["rewards"]["group_rubric"])
    assert sorted(rewards[:4]) == [0.25, 0.5, 0.75, 1.0] and all(math.isnan(reward) for reward in rewards[4:])
    assert list(trainer._logs["advantages"])[4:] == [0.0] * 4
    assert trainer.state.log_history[0]["group_rubric/unscored"] == 0.5

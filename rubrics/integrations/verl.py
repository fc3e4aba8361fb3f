"""verl: a tree as `compute_score`, or as a reward manager.

verl takes both from a file that its config names. With `reward.custom_reward_function.path=reward.py` and
`reward.custom_reward_function.name=compute_score`, reward.py holds

    compute_score = compute_score_function(make_rubric(), unscored="raise")

and with `reward.reward_manager.source=importlib`, `reward.reward_manager.module.path=reward.py` and
`reward.reward_manager.name=Manager`

    Manager = reward_manager(make_rubric(), unscored="raise")

which lets the tree see the prompt. A response is a rollout of one step: `self.task` has verl's `data_source`,
`ground_truth` and `extra_info`, the action is an assistant's message with the text of the response (in which verl has
already written the answers of tools).

verl has no place for a rollout without a reward, so the user has to say what becomes of it. Beside `"score"` each
rollout has the same keys, because verl takes the keys of a batch from its first rollout:

    rubric/{path}      what the node answered; None where it was unscored or not reached, which verl's metrics leave out
    rubric_unscored    1.0 where there was no reward, else 0.0
    rubric_reason      why, in words; or the reason of the root; or ""
    rubric_cost        US dollars, of trees with async nodes

`algorithm.gdpo_reward_keys` may name paths that every scored rollout has, such as the children of a `WeightedSum`; the
None of another one becomes NaN there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError, Score
from rubrics.trajectory import Trajectory


def compute_score_function(
    rubric: Rubric,
    *,
    unscored: Fill,
    asynchronous: bool | None = None,
    prompt: str | None = None,
    on_error: Literal["unscored", "raise"] = "unscored",
) -> Callable[..., Any]:
    """A tree as verl's `compute_score(data_source, solution_str, ground_truth, extra_info, **reward_kwargs)`.

    It returns a dict with `"score"` and the keys named above. `reward_kwargs` are keys of the task too.

    Args:
        rubric: the tree.
        unscored: what a rollout without a reward becomes: `"raise"`, which ends the training, or a number, which then
            stands for its components too.
        asynchronous: whether it is a coroutine function; by default where the tree has async nodes. verl's "remote"
            manager takes no coroutine functions.
        prompt: the key of `extra_info` that has the prompt, which verl does not give by itself.
        on_error: as in `Scorer`.
    """
    judge = _Judge(Scorer(rubric, on_error=on_error), checked_fill(unscored))

    def rollout(
        data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any, more: dict[str, Any]
    ) -> Trajectory:
        asked = None
        if prompt is not None:
            if not isinstance(extra_info, Mapping) or prompt not in extra_info:
                raise RubricError(f"extra_info has no prompt under {prompt!r}: {extra_info!r:.80}")
            asked = _messages(extra_info[prompt])
        return _rollout(asked, solution_str, data_source, ground_truth, extra_info, more)

    def compute_score(
        data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **reward_kwargs: Any
    ) -> dict[str, Any]:
        trajectory = rollout(data_source, solution_str, ground_truth, extra_info, reward_kwargs)
        return judge.result(judge.scorer.score(trajectory))

    async def compute_score_async(
        data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **reward_kwargs: Any
    ) -> dict[str, Any]:
        trajectory = rollout(data_source, solution_str, ground_truth, extra_info, reward_kwargs)
        return judge.result(await judge.scorer.score_async(trajectory))

    if rubric.is_async_tree if asynchronous is None else asynchronous:
        return compute_score_async
    return compute_score


def reward_manager(rubric: Rubric, *, unscored: Fill, on_error: Literal["unscored", "raise"] = "unscored") -> type[Any]:
    """A class of reward managers that score by a tree: `async run_single(data)` gives a reward score and extra info.

    The prompt is the row's `raw_prompt`. A `compute_score` of the config is not asked. Of a rollout of several
    sequences verl scores the last.

    Args:
        rubric: the tree.
        unscored, on_error: as for `compute_score_function`.

    Raises:
        ImportError: verl does not import.
    """
    try:
        from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
    except ImportError as error:
        raise ImportError(f"a reward manager needs verl, which does not import here ({error})") from error
    judge = _Judge(Scorer(rubric, on_error=on_error), checked_fill(unscored))

    class RubricRewardManager(RewardManagerBase):
        """Scores by a tree."""

        def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
            super().__init__(config, tokenizer, compute_score)

        async def run_single(self, data: Any) -> dict[str, Any]:
            """The reward of a rollout."""
            trajectory = await asyncio.to_thread(_read, data[-1:][0], self.tokenizer)
            result = judge.result(await judge.scorer.score_async(trajectory))
            return {"reward_score": result["score"], "reward_extra_info": result}

    return RubricRewardManager


def batch_reward_manager(
    rubric: Rubric, *, unscored: Fill, concurrency: int = 256, on_error: Literal["unscored", "raise"] = "unscored"
) -> type[Any]:
    """A class of the older reward managers, `__call__(data, return_dict)`, that score a whole batch by a tree.

    Args:
        rubric: the tree.
        concurrency: rollouts in progress at once, if the tree has async nodes.
        unscored, on_error: as for `compute_score_function`.

    Raises:
        ImportError: verl does not import.
    """
    try:
        import torch
        from verl.workers.reward_manager.abstract import AbstractRewardManager
    except ImportError as error:
        raise ImportError(f"a reward manager needs verl, which does not import here ({error})") from error
    judge = _Judge(Scorer(rubric, concurrency=concurrency, on_error=on_error), checked_fill(unscored))

    class RubricBatchRewardManager(AbstractRewardManager):
        """Scores by a tree."""

        def __init__(
            self,
            tokenizer: Any,
            num_examine: int = 0,
            compute_score: Any = None,
            reward_fn_key: str = "data_source",
            **_: Any,
        ) -> None:
            self.tokenizer = tokenizer
            self.reward_fn_key = reward_fn_key

        def __call__(self, data: Any, return_dict: bool = False) -> Any:
            """The rewards of a batch, each on the last token of its response."""
            if (known := self._extract_reward_from_rm_scores(data, return_dict)) is not None:
                return known
            items = [data[i] for i in range(len(data))]
            trajectories = [_read(item, self.tokenizer, self.reward_fn_key) for item in items]
            results = [judge.result(scored) for scored in judge.scorer.score_all(trajectories)]
            rewards = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
            for i, (item, result) in enumerate(zip(items, results, strict=True)):
                rewards[i, len(_response(item)) - 1] = result["score"]
            if not return_dict:
                return rewards
            return {
                "reward_tensor": rewards,
                "reward_extra_info": {key: [result[key] for result in results] for key in results[0]},
            }

    return RubricBatchRewardManager


@dataclass(frozen=True, slots=True)
class _Judge:
    scorer: Scorer
    unscored: Fill

    def result(self, scored: Scored) -> dict[str, Any]:
        """What verl gets of a rollout: the same keys for each, whatever became of it."""
        tree = self.scorer.rubric
        score = filled(scored, self.unscored)
        missing = score if scored.reward is None else None
        paths = [place.path for place in tree._compiled().root if place.path]
        components = {path: scored.scores.get(path) for path in paths}
        return {
            "score": score,
            **{f"rubric/{path}": missing if found is None else found for path, found in components.items()},
            "rubric_unscored": float(scored.reward is None),
            "rubric_reason": scored.reason or "",
            **({"rubric_cost": scored.usage.cost} if tree.is_async_tree else {}),
        }


def _rollout(
    prompt: Any, response: str, data_source: Any, ground_truth: Any, extra_info: Any, more: Mapping[str, Any]
) -> Trajectory:
    task = {**more, "data_source": data_source, "ground_truth": ground_truth, "extra_info": dict(extra_info or {})}
    return trajectory_of(prompt, response, task=task)


def _read(item: Any, tokenizer: Any, reward_fn_key: str = "data_source") -> Trajectory:
    """A rollout out of verl's `DataProtoItem`, with what verl's own managers give a `compute_score`."""
    row = item.non_tensor_batch
    extra_info = {
        **(row.get("extra_info") or {}),
        **(row.get("tool_extra_fields") or {}),
        "num_turns": row.get("__num_turns__"),
        "rollout_reward_scores": row.get("reward_scores", {}),
    }
    response = tokenizer.decode(_response(item), skip_special_tokens=True)
    ground_truth = row["reward_model"].get("ground_truth")
    return _rollout(_messages(row.get("raw_prompt")), response, row[reward_fn_key], ground_truth, extra_info, {})


def _response(item: Any) -> Any:
    """The tokens of a response without the padding on its right."""
    tokens = item.batch["responses"]
    length = int(item.batch["attention_mask"][-len(tokens) :].sum())
    return tokens[:length]


def _messages(prompt: Any) -> Any:
    """A prompt as text or a list of messages, of which verl may have made an array."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence) and hasattr(prompt, "tolist"):
        prompt = prompt.tolist()
    return prompt if isinstance(prompt, str) else list(prompt)


class ComputeScore(RewardFunction):
    """A `compute_score` of verl as a leaf.

    It is called with what its parameters name: `solution_str` (what the agent said last), `data_source`, `ground_truth`
    and `extra_info` out of the task, and any other key of it. A dict that it returns becomes the metadata of the score.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)

    def known(self, trajectory: Any) -> dict[str, Any]:
        """What the function can ask for, by name."""
        known = super().known(trajectory)
        solution, _, _ = known.pop("completion"), known.pop("prompt"), known.pop("task")
        return {"data_source": None, "extra_info": {}, **known, "solution_str": solution}

    def score_trajectory(self, trajectory: Any) -> Any:
        """What the function says of the rollout."""
        result = super().score_trajectory(trajectory)
        return self._awaited_result(result) if self.is_async else self._score(result)

    async def _awaited_result(self, result: Any) -> Any:
        return self._score(await result)

    def _score(self, result: Any) -> Any:
        if not isinstance(result, Mapping):
            return result
        if "score" not in result:
            raise RubricError(f"{self.name} gave a dict without 'score': {result!r:.80}")
        rest = {key: value for key, value in result.items() if key != "score"}
        return Score(float(result["score"]), metadata=rest)

"""A tree in verl's own reward loop: its loader, managers and worker on its own DataProto, without Ray's actors."""

import asyncio
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what verl imports warns of itself
    pytest.importorskip("verl")

    import torch
    from omegaconf import OmegaConf
    from tensordict import TensorDict
    from verl import DataProto
    from verl.experimental.reward_loop import reward_loop
    from verl.trainer.ppo.core_algos import compute_gdpo_outcome_advantage
    from verl.trainer.ppo.metric_utils import process_validation_metrics
    from verl.trainer.ppo.reward import extract_reward, load_reward_manager

from rubrics.integrations.verl import batch_reward_manager, reward_manager
from tests.integrations.test_verl import AsyncExact, Breaks, Exact, tree
from tests.integrations.tiny_model import tokenizer

FILE = """
from rubrics.integrations.verl import compute_score_function, reward_manager
from tests.integrations.test_verl import AsyncExact, tree

compute_score = compute_score_function(tree(), unscored={unscored!r})
compute_score_async = compute_score_function(tree(AsyncExact), unscored={unscored!r})
Manager = reward_manager(tree(AsyncExact), unscored={unscored!r})
"""

PROMPTS = ["1+1?", "1+1?", "1+1?", "1+1?"]
RESPONSES = ["2", "three", "2", "2"]
TRUTHS = ["2", "2", "2", None]


def batch(rows: int = 4) -> DataProto:
    """Rollouts as verl's agent loop hands them over: prompts padded on the left, responses on the right."""
    vocabulary = tokenizer()
    asked = [vocabulary(text)["input_ids"] for text in PROMPTS[:rows]]
    said = [vocabulary(text)["input_ids"] for text in RESPONSES[:rows]]

    def padded(ids: list[list[int]], left: bool) -> tuple[Any, Any]:
        width = max(map(len, ids)) + 2
        blank = [[vocabulary.pad_token_id] * (width - len(row)) for row in ids]
        rows_ = [pad + row if left else row + pad for row, pad in zip(ids, blank, strict=True)]
        masks = [
            [0] * len(pad) + [1] * len(row) if left else [1] * len(row) + [0] * len(pad)
            for row, pad in zip(ids, blank, strict=True)
        ]
        return torch.tensor(rows_), torch.tensor(masks)

    prompts, before = padded(asked, left=True)
    responses, after = padded(said, left=False)
    tensors = {"prompts": prompts, "responses": responses, "attention_mask": torch.cat([before, after], dim=1)}
    raw = np.empty(rows, dtype=object)
    raw[:] = [[{"role": "user", "content": text}] for text in PROMPTS[:rows]]
    return DataProto(
        batch=TensorDict(tensors, batch_size=rows),
        non_tensor_batch={
            "data_source": np.array(["sums"] * rows, dtype=object),
            "reward_model": np.array([{"ground_truth": truth} for truth in TRUTHS[:rows]], dtype=object),
            "extra_info": np.array([{} for _ in range(rows)], dtype=object),
            "raw_prompt": raw,
            "__num_turns__": np.array([2] * rows),
        },
    )


def config(folder: Path, unscored: Any = -1.0, *, function: str | None = None, manager: str | None = None) -> Any:
    """verl's config, as far as its reward loop reads it."""
    path = folder / "reward.py"
    path.write_text(FILE.format(unscored=unscored))
    tokenizer().save_pretrained(folder)
    register = {"source": "register", "name": "naive", "module": None}
    ours = {"source": "importlib", "name": manager, "module": {"path": str(path)}}
    return OmegaConf.create(
        {
            "actor_rollout_ref": {"model": {"tokenizer_path": str(folder), "path": str(folder)}},
            "reward": {
                "custom_reward_function": {"path": str(path) if function else None, "name": function},
                "reward_manager": ours if manager else register,
                "reward_model": {"enable": False},
                "sandbox_fusion": None,
            },
        }
    )


ROUTES: list[dict[str, Any]] = [
    {"function": "compute_score"},
    {"function": "compute_score_async"},
    {"manager": "Manager"},
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: next(iter(route.values())))
async def test_the_reward_loop_scores_a_batch(
    route: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(tmp_path, **route)
    worker = reward_loop.RewardLoopWorker(settings)
    outputs = await worker.compute_score_batch(batch())
    asked = 0.25 if "manager" in route else 0.0  # only a manager sees the prompt
    assert [output["reward_score"] for output in outputs] == [0.75 + asked, asked, 0.75 + asked, -1.0]

    # what the controller makes of the workers' answers, with Ray's part played by plain calls
    class Remote:
        def remote(self, chunk: DataProto) -> Any:
            return outputs

    manager = object.__new__(reward_loop.RewardLoopManager)
    manager.reward_model_manager = None
    manager.reward_loop_workers = [SimpleNamespace(compute_score_batch=Remote())]
    manager.reward_manager_cls = type(worker.reward_manager)
    monkeypatch.setattr(reward_loop.ray, "get", list)
    rewards, extra = extract_reward(manager.compute_rm_score(batch()))
    assert rewards.sum(dim=1).tolist() == [0.75 + asked, asked, 0.75 + asked, -1.0]
    assert rewards[1, 4] == asked  # on the last token of "three"
    assert extra["rubric/exact"].tolist() == [1.0, 0.0, 1.0, -1.0]
    assert extra["rubric_unscored"].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert extra["rubric_reason"].tolist() == ["", "", "", "exact is unscored: no ground truth"]

    seen = process_validation_metrics(["sums"] * 4, ["a"] * 4, {key: list(values) for key, values in extra.items()})
    assert seen["sums"]["rubric/exact"]["mean@4"] == pytest.approx(0.25)
    assert "rubric_reason" not in seen["sums"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: next(iter(route.values())))
async def test_raise_ends_the_batch(route: dict[str, Any], tmp_path: Path) -> None:
    worker = reward_loop.RewardLoopWorker(config(tmp_path, "raise", **route))
    with pytest.raises(Exception, match="exact is unscored: no ground truth"):
        await worker.compute_score_batch(batch())


async def test_the_last_sequence_of_a_rollout_is_scored(tmp_path: Path) -> None:
    manager = load_reward_manager(config(tmp_path, manager="Manager"), tokenizer())
    assert (await manager.run_single(batch(2)))["reward_score"] == 0.25


async def test_a_tree_that_raises() -> None:
    settings = OmegaConf.create({"reward": {}})
    manager = reward_manager(Breaks(), unscored=-1.0)(config=settings, tokenizer=tokenizer())
    assert (await manager.run_single(batch(1)))["reward_score"] == -1.0
    with pytest.raises(ValueError, match="a bug"):
        failing = reward_manager(Breaks(), unscored=-1.0, on_error="raise")
        await failing(config=settings, tokenizer=tokenizer()).run_single(batch(1))


@pytest.mark.parametrize("leaf", [Exact, AsyncExact])
def test_the_older_managers_score_a_batch_at_once(leaf: Any) -> None:
    manager = batch_reward_manager(tree(leaf), unscored=-1.0)(tokenizer=tokenizer(), num_examine=0)
    found = manager(batch(), return_dict=True)
    assert found["reward_tensor"].sum(dim=1).tolist() == [1.0, 0.25, 1.0, -1.0]
    assert found["reward_tensor"][1, 4] == 0.25
    assert found["reward_extra_info"]["rubric/exact"] == [1.0, 0.0, 1.0, -1.0]
    assert torch.equal(manager(batch()), found["reward_tensor"])
    known = batch()
    known.batch["rm_scores"] = found["reward_tensor"] + 1
    assert torch.equal(manager(known), found["reward_tensor"] + 1)


def test_components_are_rewards_of_gdpo() -> None:
    data = batch()
    found = batch_reward_manager(tree(), unscored=-1.0)(tokenizer=tokenizer())(data, return_dict=True)
    components = {key: np.array(values) for key, values in found["reward_extra_info"].items()}
    advantages, _ = compute_gdpo_outcome_advantage(
        found["reward_tensor"],
        data.batch["attention_mask"][:, data.batch["prompts"].size(1) :],
        np.array(["a"] * 4),
        config=OmegaConf.create({"gdpo_reward_keys": ["rubric/exact", "rubric/asked"]}),
        non_tensor_batch=components,
        batch=data.batch,
    )
    assert torch.isfinite(advantages).all() and advantages[0, 0] > advantages[1, 0] > advantages[3, 0]


def test_concurrent_rollouts(tmp_path: Path) -> None:
    async def run() -> list[Any]:
        manager = load_reward_manager(config(tmp_path, function="compute_score_async"), tokenizer())
        return await asyncio.gather(*(manager.run_single(batch(1)) for _ in range(30)))

    assert [found["reward_score"] for found in asyncio.run(run())] == [0.75] * 30

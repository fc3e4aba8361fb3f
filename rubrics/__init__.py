"""Composable reward rubrics for LLM agents:

trees of small, named judgements whose every number says where it came from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rubrics.containers import (
    AllOf,
    AnyOf,
    Clip,
    Container,
    Fallback,
    Gate,
    Invert,
    Map,
    Product,
    RubricDict,
    RubricList,
    Scale,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    WeightedSum,
)
from rubrics.delayed import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric
from rubrics.engine.frames import add_usage, current_episode
from rubrics.episode import Episode
from rubrics.evaluation import Evaluation, Usage, evaluation_of
from rubrics.group import BatchScores, GroupRubric, GroupScores, IncompleteGroupError, score_groups
from rubrics.node import HookHandle
from rubrics.rubric import Rubric
from rubrics.score import (
    CaseError,
    CreditError,
    EpisodeError,
    EpisodeOverError,
    InvalidScoreError,
    RubricError,
    Score,
    StateError,
    StructureError,
    Unscored,
)
from rubrics.session import BlockingSession, Session
from rubrics.step_rewards import StepRewards
from rubrics.trajectory import Record, Step, Trajectory

if TYPE_CHECKING:
    from rubrics.batch import BatchEvaluation
    from rubrics.credit import (
        Broadcast,
        ByEvidence,
        Credit,
        Discounted,
        EqualSplit,
        Terminal,
        component_advantages,
        gae,
        group_advantages,
        returns_to_go,
        shaped_rewards,
    )
    from rubrics.fingerprinting import fingerprint
    from rubrics.spec import SpecError, dump, load

__version__ = "0.1.0"

_HOMES = {  # resolved on first use, so that `import rubrics` imports neither numpy nor pydantic
    "BatchEvaluation": "batch",
    "Broadcast": "credit",
    "ByEvidence": "credit",
    "Credit": "credit",
    "Discounted": "credit",
    "EqualSplit": "credit",
    "SpecError": "spec",
    "Terminal": "credit",
    "component_advantages": "credit",
    "dump": "spec",
    "fingerprint": "fingerprinting",
    "gae": "credit",
    "group_advantages": "credit",
    "load": "spec",
    "returns_to_go": "credit",
    "shaped_rewards": "credit",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rubrics.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rubrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AllOf",
    "AnyOf",
    "BatchEvaluation",
    "BatchScores",
    "BlockingSession",
    "Broadcast",
    "ByEvidence",
    "CaseError",
    "Clip",
    "Container",
    "Credit",
    "CreditError",
    "Discounted",
    "Episode",
    "EpisodeError",
    "EpisodeOverError",
    "EqualSplit",
    "Evaluation",
    "ExponentialDiscountingTrajectoryRubric",
    "Fallback",
    "Gate",
    "GroupRubric",
    "GroupScores",
    "HookHandle",
    "IncompleteGroupError",
    "InvalidScoreError",
    "Invert",
    "Map",
    "Product",
    "Record",
    "Rubric",
    "RubricDict",
    "RubricError",
    "RubricList",
    "Scale",
    "Score",
    "Sequential",
    "Session",
    "SpecError",
    "StateError",
    "Step",
    "StepRewards",
    "StructureError",
    "Switch",
    "Terminal",
    "Threaded",
    "Timeout",
    "Trajectory",
    "TrajectoryRubric",
    "Unscored",
    "Usage",
    "WeightedSum",
    "add_usage",
    "component_advantages",
    "current_episode",
    "dump",
    "evaluation_of",
    "fingerprint",
    "gae",
    "group_advantages",
    "load",
    "returns_to_go",
    "score_groups",
    "shaped_rewards",
]

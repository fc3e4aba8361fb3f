"""The kinds of the containers and of credit: how arguments stand in a file, and how they are read off a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrics import containers, credit
from rubrics.importers.requirement import Passed, Requirement
from rubrics.rubric import Rubric
from rubrics.spec.held import HeldNode
from rubrics.spec.kinds import Kind, add, kept_argument

Children = list[HeldNode] | dict[str, HeldNode]
_SEVERAL = {"rubrics": Children}


def children_of(node: Any) -> list[Rubric] | dict[str, Rubric]:
    """The children as they are given: a list where they have the names that a list gives them."""
    children: Mapping[str, Rubric] = node._rubric_children
    if list(children) == [f"rubric_{number}" for number in range(len(children))]:
        return list(children.values())
    return dict(children)


def _several(node: Any) -> dict[str, Any]:
    return {"rubrics": children_of(node)}


def _weighted_sum(node: containers.WeightedSum) -> dict[str, Any]:
    children, weights = children_of(node), node.weights
    shaped = dict(zip(children, weights, strict=True)) if isinstance(children, dict) else weights
    return {
        "weights": shaped,
        "rubrics": children,
        "normalize": node.normalize,
        "on_unscored": node.on_unscored,
    }


def _single(*names: str) -> Any:
    def read(node: Any) -> dict[str, Any]:
        return {"rubric": node[0], **{name: kept_argument(node, name) for name in names}}

    return read


def _switch(node: containers.Switch) -> dict[str, Any]:
    cases: dict[str, Rubric] = dict(node._rubric_children)
    default = cases.pop("default") if node._has_default else None
    return {"key": node.key, "rubrics": cases, "default": default}


def _fallback(node: containers.Fallback) -> dict[str, Any]:
    other = node[1] if len(node) > 1 else node.value
    return {"rubric": node[0], "other": other, "on_error": node.catches}


for _kind in (
    Kind("WeightedSum", containers.WeightedSum, _SEVERAL, _weighted_sum),
    Kind("Sequential", containers.Sequential, _SEVERAL, _several),
    Kind("AllOf", containers.AllOf, _SEVERAL, _several),
    Kind("AnyOf", containers.AnyOf, _SEVERAL, _several),
    Kind("Product", containers.Product, _SEVERAL, _several),
    Kind("RubricList", containers.RubricList, {"rubrics": list[HeldNode]}, _several),
    Kind(
        "RubricDict",
        containers.RubricDict,
        {"rubrics": dict[str, HeldNode]},
        lambda node: {"rubrics": dict(node.items())},
    ),
    Kind("Gate", containers.Gate, read=_single("threshold")),
    Kind("Scale", containers.Scale, read=_single("factor", "offset")),
    Kind("Clip", containers.Clip, read=_single("low", "high")),
    Kind("Invert", containers.Invert, read=_single()),
    Kind("Map", containers.Map, read=_single("function", "range")),
    Kind("Passed", Passed, read=_single("threshold")),
    Kind("Requirement", Requirement),
    Kind("Timeout", containers.Timeout, read=_single("seconds")),
    Kind("Threaded", containers.Threaded, read=_single("limit")),
    Kind("Switch", containers.Switch, read=_switch),
    Kind("Fallback", containers.Fallback, read=_fallback),
):
    add(_kind)

for _strategy in (credit.Terminal, credit.Discounted, credit.EqualSplit, credit.Broadcast, credit.ByEvidence):
    add(Kind(_strategy.__name__, _strategy, family="credit"))

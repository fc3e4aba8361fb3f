"""Laws over random trees: every driver, copy and replay gives what a tiny reading of the design's table gives."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rubrics import (
    Evaluation,
    Gate,
    WeightedSum,
)
from tests.leaves import (
    ACTION,
    OBSERVATION,
    Boom,
    Fixed,
    outcome,
    recorded,
    seen_by_caller,
)
from tests.random_trees import asynchronous, build, numbers, plain, specs, waiting_specs, with_sharing
from tests.reference import Spec, reference, same


@given(specs)
def test_a_plain_tree_scores_as_the_table_says(spec: Spec) -> None:
    tree, expected = build(spec, plain), reference(spec)
    answer = seen_by_caller(tree(ACTION, OBSERVATION))
    same(answer, expected)
    record = tree.evaluate_sync(ACTION, OBSERVATION)
    assert recorded(record) == answer
    assert seen_by_caller(tree(ACTION, OBSERVATION)) == answer
    for other in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert seen_by_caller(other(ACTION, OBSERVATION)) == answer
    again = tree.reaggregate(record)
    assert recorded(again) == answer
    assert again.flatten() == record.flatten()
    assert Evaluation.from_dict(record.to_dict()) == record


@settings(max_examples=60)
@given(waiting_specs, st.randoms(use_true_random=False), st.sampled_from([0.5, 1.0]))
def test_an_async_tree_scores_the_same_in_any_order_of_completion(
    spec: Spec, turns: random.Random, share: float
) -> None:
    tree, expected = build(spec, asynchronous(turns, share)), reference(spec)

    async def both() -> tuple[Any, Evaluation]:
        score = tree(ACTION, OBSERVATION)
        return (await score if tree.is_async_tree else score), await tree.evaluate(ACTION, OBSERVATION)

    score, awaited = asyncio.run(both())
    same(seen_by_caller(score), expected)
    for record in (awaited, tree.evaluate_sync(ACTION, OBSERVATION)):
        assert recorded(record) == seen_by_caller(score)
        assert recorded(tree.reaggregate(record)) == recorded(record)


@given(specs)
def test_the_record_tells_which_nodes_ran(spec: Spec) -> None:
    tree = build(spec, plain)
    record = tree.evaluate_sync(ACTION, OBSERVATION)
    for path, node in tree.named_rubrics():
        if isinstance(node, Fixed):
            ran = path in record and record[path].status != "skipped"
            assert node.calls == ran
            assert not ran or record[path].score == node.value
            assert seen_by_caller(node.last_score)[1] == (record[path].score if ran else None)
    assert len(set(record.flatten())) == sum(1 for _ in record.nodes())


@given(specs, st.randoms(use_true_random=False))
def test_the_order_of_children_does_not_change_the_score(spec: Spec, order: random.Random) -> None:
    def shuffled(spec: Spec) -> Spec:
        kind, children, *parameters = spec
        if kind == "leaf":
            return spec
        children = [shuffled(child) for child in children]
        places = list(range(len(children)))
        if kind in ("sum", "all", "any", "product"):
            order.shuffle(places)
        if kind == "sum":
            parameters[0] = [parameters[0][i] for i in places]
        return (kind, [children[i] for i in places], *parameters)

    answer = seen_by_caller(build(spec, plain)(ACTION, OBSERVATION))
    assert seen_by_caller(build(shuffled(spec), plain)(ACTION, OBSERVATION)) == answer  # to the last bit


reals = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(st.floats(-5, 5), reals, reals), min_size=1, max_size=6), reals, reals)
def test_a_weighted_sum_is_linear(parts: list[tuple[float, float, float]], a: float, b: float) -> None:
    weights = [1.0, *(weight for weight, _, _ in parts[1:])]

    def total(scores: list[float]) -> float:
        return WeightedSum([Fixed(score) for score in scores], weights, normalize="positive")(ACTION, OBSERVATION)

    left = total([a * x + b * y for _, x, y in parts])
    right = a * total([x for _, x, _ in parts]) + b * total([y for _, _, y in parts])
    assert left == pytest.approx(right, rel=1e-9, abs=1e-3)  # the parts reach 1e7, and may cancel


@given(specs, numbers)
def test_a_gate_is_idempotent(spec: Spec, threshold: float) -> None:
    once, twice = Gate(build(spec, plain), threshold), Gate(Gate(build(spec, plain), threshold), threshold)
    assert seen_by_caller(once(ACTION, OBSERVATION)) == seen_by_caller(twice(ACTION, OBSERVATION))


@given(specs)
def test_an_error_is_never_a_score(spec: Spec) -> None:
    """Each leaf in turn raises: the tree raises that, or never needed the leaf."""
    tree = build(spec, plain)
    before = seen_by_caller(tree(ACTION, OBSERVATION))
    for leaf in [node for node in (tree, *tree.rubrics()) if isinstance(node, Fixed)]:
        value, leaf.value, leaf.calls = leaf.value, Boom(), 0
        status, answer = asyncio.run(outcome(tree))
        assert (status, answer) == (("error", Boom) if leaf.calls else before)
        leaf.value = value


@settings(max_examples=60)
@given(waiting_specs, st.randoms(use_true_random=False), st.sampled_from(["call", "evaluate", "evaluate_sync"]))
def test_nor_in_an_async_tree(spec: Spec, turns: random.Random, driver: str) -> None:
    tree = build(spec, asynchronous(turns, 0.7))
    before = asyncio.run(outcome(tree, driver))
    for leaf in [node for node in (tree, *tree.rubrics()) if isinstance(node, Fixed)]:
        value, leaf.value, leaf.calls = leaf.value, Boom(), 0
        answer = asyncio.run(outcome(tree, driver))
        assert answer in (("error", Boom), before)  # an AllOf may be decided before the leaf gets to raise
        assert leaf.calls or answer == before
        leaf.value = value
    assert asyncio.run(outcome(tree, driver)) == before


@settings(max_examples=60)
@given(waiting_specs, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.5, 1.0]))
def test_sharing_changes_no_score_and_runs_nothing_twice(spec: Spec, turns: random.Random, share: float) -> None:
    tree = build(spec, with_sharing(asynchronous(turns, share)))
    for i, driver in enumerate(("call", "evaluate", "evaluate_sync")):
        same(asyncio.run(outcome(tree, driver)), reference(spec))
        for node in (tree, *tree.rubrics()):
            assert not isinstance(node, Fixed) or node.calls <= i + 1

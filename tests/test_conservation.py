"""Over random mixed trees: where the credit says that it conserves, what the steps get sums to what they paid."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from rubrics import (
    AllOf,
    AnyOf,
    ByEvidence,
    Clip,
    EqualSplit,
    Fallback,
    Gate,
    Invert,
    Product,
    Rubric,
    Scale,
    Score,
    Sequential,
    Switch,
    Terminal,
    WeightedSum,
)
from tests.leaves import ByAction, Judged, done, running

scores = st.integers(-8, 8).map(lambda eighths: eighths / 8)
credits = st.sampled_from([Terminal(), EqualSplit(), ByEvidence()])
node = st.one_of(
    st.builds(lambda by_step, other: ByAction(by_step, other), st.dictionaries(st.integers(0, 3), scores), scores),
    st.builds(
        lambda value, evidence, intermediate, credit: Judged(
            Score(value, metadata={"evidence": evidence}), intermediate, credit
        ),
        scores,
        st.lists(st.integers(0, 0), max_size=1),
        scores,
        credits,
    ),
)


def sums(children: list[Rubric], weights: list[float]) -> Rubric:
    return WeightedSum(children, [1.0, *weights[1 : len(children)]], normalize="positive")


def above(inner: st.SearchStrategy[Rubric]) -> st.SearchStrategy[Rubric]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(sums, several, st.lists(scores, min_size=3, max_size=3)),
        st.builds(Scale, inner, scores, scores),
        st.builds(Gate, inner, scores),
        st.builds(lambda children: Sequential(*children), several),
        st.builds(lambda children: AllOf(*children), several),
        st.builds(lambda children: AnyOf(*children), several),
        st.builds(lambda children: Product(*children), several),
        st.builds(lambda children: Switch(lambda a, o: str(a % len(children)), named(children)), several),
        st.builds(Fallback, inner, scores),
        st.builds(Clip, inner, st.just(-0.5), st.just(0.5)),
        st.builds(Invert, inner),
    )


def named(children: list[Rubric]) -> dict[str, Rubric]:
    return {str(i): child for i, child in enumerate(children)}


trees = st.recursive(node, above, max_leaves=8)


@given(trees, st.integers(1, 4), st.booleans())
def test_credit_conserves_what_was_emitted(tree: Rubric, steps: int, cut_off: bool) -> None:
    episode = tree.episode()
    for t in range(steps):
        episode.step(t, done() if t == steps - 1 and not cut_off else running())
    episode.end(truncated=True)
    answer = episode.rewards()
    assert answer.kind == "reward"
    assert answer.total is not None
    assert answer.total == pytest.approx(math.fsum(answer.values), abs=1e-9)
    assert answer.total == pytest.approx(math.fsum(answer.emitted), abs=1e-9)
    assert len(answer.values) == steps
    for node in tree.rubrics():
        assert getattr(node, "scorings", 1) <= 1

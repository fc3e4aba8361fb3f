"""Laws over random trees in episodes: before and at the end, with shared nodes, and with steps that fail."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from rubrics import AnyOf, EqualSplit, Rubric, Score, Sequential
from tests.leaves import AsyncJudged, Boom, Fixed, Judged, done, recorded, running, seen_by_caller
from tests.random_trees import build, delayed, nodes, specs, with_sharing
from tests.reference import Spec, reference, same


@settings(max_examples=60)
@given(specs, st.sampled_from([Judged, AsyncJudged]), st.booleans())
def test_an_episode_scores_as_the_table_says_before_and_at_its_end(
    spec: Spec, judge: type[Judged], cut_off: bool
) -> None:
    tree = build(spec, delayed(judge))
    episode = tree.episode(record=True)
    same(seen_by_caller(episode.step(1, running())), reference(spec))
    assert recorded(tree.reaggregate(episode.evaluations[0])) == recorded(episode.evaluations[0])
    if cut_off:
        episode.step(2, running())
        episode.end(truncated=True)
    else:
        episode.step(2, done())
    final = episode.evaluations[-1]
    same(recorded(final), reference(spec, end=True))
    assert episode.reward == final.score
    assert recorded(tree.reaggregate(final)) == recorded(final)
    assert all(getattr(node, "scorings", 0) <= 1 for node in tree.rubrics())
    assert len(episode.evaluations) == 2


@settings(max_examples=60)
@given(specs, st.sampled_from([Judged, AsyncJudged]))
def test_sharing_in_an_episode(spec: Spec, judge: type[Judged]) -> None:
    tree = build(spec, with_sharing(delayed(judge)))
    episode = tree.episode(record=True)
    same(seen_by_caller(episode.step(1, running())), reference(spec))
    episode.step(2, running())
    episode.end(truncated=True)
    same(recorded(episode.evaluations[-1]), reference(spec, end=True))
    for node in (tree, *tree.rubrics()):
        assert getattr(node, "scorings", 0) <= 1
        assert getattr(node, "calls", 0) <= 3  # a custom forward asks for what it did not need before


few = st.sampled_from([0.0, 1.0]).map(lambda value: ("leaf", value, value)) | st.sampled_from([0.0, 0.5, None]).map(
    lambda value: ("leaf", Score(0.25, pending=True), value)
)
repeating_specs = st.recursive(few, lambda inner: nodes(inner, waiting=False), max_leaves=8)


@settings(max_examples=200)
@given(repeating_specs, st.integers(1, 3), st.booleans())
def test_steps_get_the_same_whether_equal_nodes_are_one_or_many_and_whatever_is_recorded(
    spec: Spec, steps: int, cut_off: bool
) -> None:
    def split(before: Any, at_end: Any) -> Rubric:
        return Judged(at_end, float(before), EqualSplit()) if isinstance(before, Score) else Fixed(before)

    def play(tree: Rubric, record: bool | None) -> Any:
        episode = tree.episode(record=record)
        for t in range(steps):
            episode.step(t, done() if t == steps - 1 and not cut_off else running())
        episode.end(truncated=True)
        return episode.rewards()

    apart = play(build(spec, split), True)
    for record in (False, None, True):
        together = play(build(spec, with_sharing(split)), record)
        assert together.total == apart.total
        assert_allclose(together.values, apart.values, atol=1e-12)


class Sometimes(Rubric):
    """The child's score, or an error where the action is bad; counts in its memory, and is counted in the score."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    def observe(self, action: Any, observation: Any) -> None:
        self.memory["seen"] = self.memory.get("seen", 0) + 1

    def forward(self, action: Any, observation: Any) -> Any:
        score = self.child(action, observation)
        self.memory["count"] = self.memory.get("count", 0) + 1
        if action == "bad":
            raise Boom
        return None if score is None else score + self.memory["count"] / 8 + self.memory["seen"] / 16


@settings(max_examples=60)
@given(specs, st.lists(st.sampled_from(["good", "bad", "bad end"]), max_size=6), st.booleans(), st.booleans())
def test_steps_that_failed_leave_no_trace(spec: Spec, actions: list[str], record: bool, cut_off: bool) -> None:
    def play(actions: list[str]) -> Any:
        tree = build(("added", [spec, ("leaf", 0.25, 0.25), spec]), delayed(Judged))
        tree = Sequential(AnyOf(Sometimes(tree), Fixed(0.125)), Sometimes(Fixed(0.5)))
        episode = tree.episode(record=record)
        for action in actions:
            try:
                episode.step(action.removesuffix(" end"), done() if action == "bad end" else running())
            except Boom:
                assert action != "good"
        if cut_off:
            episode.end(truncated=True)
        elif not episode.over:
            episode.step("last", done())
        rewards = episode.rewards()
        flat = [evaluation.flatten() for evaluation in episode.evaluations]
        return rewards.emitted.tolist(), rewards.values.tolist(), rewards.total, flat, episode.steps

    bumpy, smooth = play(actions), play([action for action in actions if action == "good"])
    assert repr(bumpy) == repr(smooth)  # NaN equals NaN

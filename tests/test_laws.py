"""Laws over random trees: every driver, copy and replay gives what a tiny reading of the design's table gives."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrics import (
    AllOf,
    AnyOf,
    Clip,
    Evaluation,
    Fallback,
    Gate,
    Invert,
    Map,
    Product,
    Rubric,
    Scale,
    Score,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    WeightedSum,
)
from tests.leaves import (
    ACTION,
    OBSERVATION,
    AsyncFixed,
    AsyncJudged,
    Boom,
    Fixed,
    Judged,
    done,
    recorded,
    running,
    seen_by_caller,
)

Spec = tuple[Any, ...]
"""A tree as data: (kind, children, parameters…); a leaf is ("leaf", answer before the end, answer at the end)."""

Outcome = tuple[str, Fraction | None]


# The table of the design, read once more


def reference(spec: Spec, end: bool = False) -> Outcome:
    """The outcome of a tree without errors; `end`: what was pending is known now."""
    kind, children, *parameters = spec
    if kind == "leaf":
        value = parameters[0] if end else children
        if value is None:
            return "unscored", None
        return ("pending" if isinstance(value, Score) else "scored"), Fraction(float(value))
    return RULES[kind]([lambda child=child: reference(child, end) for child in children], *parameters)


def together(outcomes: list[Outcome], rule: Callable[[list[Fraction]], Fraction]) -> Outcome:
    """Unscored before pending before scored."""
    states = {state for state, _ in outcomes}
    if "unscored" in states:
        return "unscored", None
    values = [value for _, value in outcomes if value is not None]
    return ("pending" if "pending" in states else "scored"), rule(values)


def weighted(children: list[Callable[[], Outcome]], weights: list[int], normalize: str, on_unscored: str) -> Outcome:
    outcomes = [child() for child in children]
    divisor = Fraction(sum(w for w in weights if normalize == "total" or w > 0))
    parts = list(zip(weights, outcomes, strict=True))
    if on_unscored == "renormalize":
        positive = sum(w for w in weights if w > 0)
        scored = sum(w for w, (state, _) in parts if w > 0 and state != "unscored")
        if scored:
            parts = [part for part in parts if part[1][0] != "unscored"]
            parts = [(w * Fraction(positive, scored) if w > 0 else w, outcome) for w, outcome in parts]
    return together(
        [outcome for _, outcome in parts],
        lambda values: sum((w * v for (w, _), v in zip(parts, values, strict=True)), Fraction(0)) / divisor,
    )


def sequential(children: list[Callable[[], Outcome]]) -> Outcome:
    outcome: Outcome = ("scored", Fraction(1))
    for child in children:
        outcome = child()
        if outcome[1] is None or outcome[0] == "pending" or outcome[1] <= 0:
            break
    return outcome


def all_of(children: list[Callable[[], Outcome]]) -> Outcome:
    outcomes = [child() for child in children]
    if any(state == "scored" and value is not None and value <= 0 for state, value in outcomes):
        return "scored", Fraction(0)
    return together(outcomes, min)


def one(change: Callable[..., Fraction], pending_too: bool = False) -> Callable[..., Outcome]:
    def rule(children: list[Callable[[], Outcome]], *parameters: float) -> Outcome:
        state, value = children[0]()
        if value is None or (state == "pending" and not pending_too):
            return state, value
        return state, change(value, *map(Fraction, parameters))

    return rule


def gate(value: Fraction, threshold: Fraction) -> Fraction:
    near = max(Fraction(1, 10**9) * max(abs(value), abs(threshold)), Fraction(1, 10**12))
    return value if value >= threshold or abs(value - threshold) <= near else Fraction(0)


def added(children: list[Callable[[], Outcome]]) -> Outcome:
    """A custom forward that calls its children until one is unscored."""
    outcomes: list[Outcome] = []
    for child in children:
        outcomes.append(child())
        if outcomes[-1][1] is None:
            break
    return together(outcomes, lambda values: sum(values, Fraction(0)))


def fallback(children: list[Callable[[], Outcome]], number: float | None = None) -> Outcome:
    outcome = children[0]()
    if outcome[0] != "unscored":
        return outcome
    return children[1]() if number is None else ("scored", Fraction(number))


RULES: dict[str, Callable[..., Outcome]] = {
    "sum": weighted,
    "sequential": sequential,
    "all": all_of,
    "any": lambda children: together([child() for child in children], max),
    "product": lambda children: together([child() for child in children], lambda values: Fraction(prod(values))),
    "switch": lambda children, chosen: children[chosen](),
    "added": added,
    "fallback": fallback,
    "gate": one(gate),
    "scale": one(lambda value, factor, offset: factor * value + offset, pending_too=True),
    "clip": one(lambda value, low, high: min(max(value, low), high)),
    "invert": one(lambda value: 1 - value),
    "map": one(lambda value: value * value),
    "timeout": one(lambda value: value, pending_too=True),
    "threaded": one(lambda value: value, pending_too=True),
}


# The same trees in the library


class Added(Rubric):
    def __init__(self, children: list[Rubric]) -> None:
        super().__init__()
        self.order = [f"part_{i}" for i in range(len(children))]
        for name, child in zip(self.order, children, strict=True):
            setattr(self, name, child)
        if any(child.is_async_tree for child in children):
            self.is_async = True

    def forward(self, action: Any, observation: Any) -> Any:
        return self.later(action, observation) if self.is_async else self.now(action, observation)

    def now(self, action: Any, observation: Any) -> Any:
        total = 0.0
        for name in self.order:
            score = getattr(self, name)(action, observation)
            if score is None:
                return None
            total += score
        return total

    async def later(self, action: Any, observation: Any) -> Any:
        total = 0.0
        for name in self.order:
            child = getattr(self, name)
            score = child(action, observation)
            score = await score if child.is_async_tree else score
            if score is None:
                return None
            total += score
        return total


def square(value: float) -> float:
    return value * value


class Choice:
    def __init__(self, chosen: int) -> None:
        self.chosen = chosen

    def __call__(self, action: Any, observation: Any) -> str:
        return f"case_{self.chosen}"


def build(spec: Spec, leaf: Callable[[Any, Any], Rubric]) -> Rubric:
    kind, children, *parameters = spec
    if kind == "leaf":
        return leaf(children, parameters[0])
    parts = [build(child, leaf) for child in children]
    if kind == "sum":
        weights, normalize, on_unscored = parameters
        return WeightedSum(parts, weights, normalize=normalize, on_unscored=on_unscored)
    if kind == "switch":
        return Switch(Choice(parameters[0]), {f"case_{i}": part for i, part in enumerate(parts)})
    if kind == "added":
        return Added(parts)
    if kind == "map":
        return Map(parts[0], square)
    if kind == "timeout":
        return Timeout(parts[0], 60)
    make: dict[str, Callable[..., Rubric]] = {
        "sequential": Sequential,
        "all": AllOf,
        "any": AnyOf,
        "product": Product,
        "fallback": Fallback,
        "gate": Gate,
        "scale": Scale,
        "clip": Clip,
        "invert": Invert,
        "threaded": Threaded,
    }
    return make[kind](*parts, *parameters)


def plain(before: Any, at_end: Any) -> Rubric:
    return Fixed(before)


def asynchronous(turns: random.Random, share: float = 1.0) -> Callable[[Any, Any], Rubric]:
    """Leaves that take a random number of turns of the loop; some may be plain."""

    def leaf(before: Any, at_end: Any) -> Rubric:
        return AsyncFixed(before, turns.randrange(6)) if turns.random() < share else Fixed(before)

    return leaf


def delayed(judge: type[Judged]) -> Callable[[Any, Any], Rubric]:
    def leaf(before: Any, at_end: Any) -> Rubric:
        return judge(at_end, float(before)) if isinstance(before, Score) else Fixed(before)

    return leaf


# Random trees

numbers = st.integers(-4, 12).map(lambda eighths: eighths / 8)
leaf_specs = st.one_of(
    numbers.map(lambda value: ("leaf", value, value)),
    numbers.map(lambda value: ("leaf", value, value)),
    st.just(("leaf", None, None)),
    st.tuples(numbers, st.one_of(numbers, st.none())).map(lambda ends: ("leaf", Score(ends[0], pending=True), ends[1])),
)


def weights_for(children: list[Spec]) -> st.SearchStrategy[Spec]:
    each = st.integers(-3, 5)
    weights = st.lists(each, min_size=len(children), max_size=len(children)).filter(lambda ws: max(ws) > 0)
    return st.tuples(
        st.just("sum"),
        st.just(children),
        weights,
        st.just("positive"),
        st.sampled_from(["unscored", "renormalize"]),
    )


def nodes(inner: st.SearchStrategy[Spec], waiting: bool) -> st.SearchStrategy[Spec]:
    single = inner.map(lambda child: [child])
    several = st.lists(inner, min_size=1, max_size=4)
    kinds = [
        several.flatmap(weights_for),
        st.tuples(st.just("sequential"), st.lists(inner, max_size=4)),
        st.tuples(st.sampled_from(["all", "any", "product", "added"]), several),
        several.flatmap(lambda cs: st.tuples(st.just("switch"), st.just(cs), st.integers(0, len(cs) - 1))),
        st.tuples(st.just("fallback"), single, numbers),
        st.tuples(st.just("fallback"), st.lists(inner, min_size=2, max_size=2)),
        st.tuples(st.just("gate"), single, numbers),
        st.tuples(st.just("scale"), single, numbers, numbers),
        st.tuples(st.just("clip"), single, st.just(0.25), st.just(0.75)),
        st.tuples(st.sampled_from(["invert", "map"]), single),
    ]
    if waiting:
        kinds.append(st.tuples(st.sampled_from(["timeout", "threaded"]), single))
    return st.one_of(kinds)


specs = st.recursive(leaf_specs, lambda inner: nodes(inner, waiting=False), max_leaves=10)
waiting_specs = st.recursive(leaf_specs, lambda inner: nodes(inner, waiting=True), max_leaves=10)


def same(answer: tuple[str, float | None], expected: Outcome) -> None:
    status, value = expected
    assert answer[0] == status
    assert answer[1] == (None if value is None else pytest.approx(float(value), rel=1e-9, abs=1e-9))


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
    """Each leaf in turn raises: the tree raises, or never needed it, or a record tells why it scored all the same."""
    tree = build(spec, plain)
    before = seen_by_caller(tree(ACTION, OBSERVATION))
    for leaf in [node for node in (tree, *tree.rubrics()) if isinstance(node, Fixed)]:
        value, leaf.value, leaf.calls = leaf.value, Boom(), 0
        try:
            assert seen_by_caller(tree(ACTION, OBSERVATION)) == before
            assert leaf.calls == 0
        except Boom as error:
            assert leaf.calls == 1
            assert error.__notes__
        leaf.value = value

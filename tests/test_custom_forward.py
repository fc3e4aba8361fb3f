"""Custom forwards: arithmetic keeps the outcomes, and the record nests by the calls that really happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    AllOf,
    AnyOf,
    Container,
    Fallback,
    Gate,
    InvalidScoreError,
    Product,
    Rubric,
    Scale,
    Score,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    Unscored,
    WeightedSum,
)
from tests.leaves import ACTION, DRIVERS, OBSERVATION, AsyncFixed, Boom, Fixed, evaluated, outcome, pending


class Arithmetic(Rubric):
    """Combines children by a plain formula."""

    def __init__(self, formula: Callable[..., Any], **children: Rubric) -> None:
        super().__init__()
        self.formula = formula
        self.order = list(children)
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, action: Any, observation: Any) -> Any:
        return self.formula(*(getattr(self, name)(action, observation) for name in self.order))


class AsyncArithmetic(Arithmetic):
    async def forward(self, action: Any, observation: Any) -> Any:
        scores = []
        for name in self.order:
            score = getattr(self, name)(action, observation)
            scores.append(await score if getattr(self, name).is_async_tree else score)
        return self.formula(*scores)


async def answer(tree: Rubric) -> Any:
    score = tree(ACTION, OBSERVATION)
    return await score if tree.is_async_tree else score


KINDS = [(Arithmetic, Fixed), (AsyncArithmetic, Fixed), (AsyncArithmetic, AsyncFixed)]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_arithmetic_with_a_pending_child_is_pending(
    node: type[Arithmetic], leaf: type[Fixed], driver: str
) -> None:
    def of(formula: Callable[..., Any]) -> Rubric:
        return node(formula, a=leaf(pending(0.5)), b=leaf(0.25))

    assert await outcome(of(lambda a, b: a + b), driver) == ("pending", 0.75)
    assert await outcome(of(lambda a, b: a > b), driver) == ("pending", 1.0)
    assert await outcome(of(lambda a, b: Score(a + b)), driver) == ("scored", 0.75)  # a Score decides
    assert await outcome(of(lambda a, b: a), driver) == ("pending", 0.5)
    assert await outcome(of(lambda a, b: None), driver) == ("unscored", None)
    assert await outcome(Gate(of(lambda a, b: a - b)), driver) == ("pending", 0.25)
    assert await outcome(Sequential(of(lambda a, b: a * 0), leaf(1.0)), driver) == ("pending", 0.0)


@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_a_type_error_names_the_unscored_child(node: type[Arithmetic], leaf: type[Fixed]) -> None:
    tree = Sequential({"mean": node(lambda a, b: (a + b) / 2, style=leaf(None), tests=leaf(0.25))})
    with pytest.raises(TypeError) as caught:
        await answer(tree)
    notes = "\n".join(caught.value.__notes__)
    assert "'style' is unscored" in notes
    assert "in rubric mean" in notes
    kept = node(lambda a, b: b if a is None else a, style=leaf(None), tests=leaf(0.25))
    assert await outcome(kept) == ("scored", 0.25)


@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_none_with_an_unscored_child_has_its_reason(node: type[Arithmetic], leaf: type[Fixed]) -> None:
    tree = node(lambda a, b: None, style=leaf(Unscored("the judge abstained")), tests=leaf(0.25))
    record = await tree.evaluate(ACTION, OBSERVATION)
    assert record.status == "unscored"
    assert "style" in str(record.reason)
    assert "the judge abstained" in str(record.reason)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_an_error_keeps_its_type_and_its_path(node: type[Arithmetic], leaf: type[Fixed], driver: str) -> None:
    tree = Sequential({"outer": Sequential({"mean": node(lambda a: a, a=leaf(Boom("lost")))})})
    assert await outcome(tree, driver) == ("error", Boom)
    with pytest.raises(Boom, match="lost") as caught:
        await answer(tree)
    assert caught.value.__notes__ == [f"in rubric outer.mean.a ({leaf.__name__})"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "0.5", [0.5], object(), 1j])
@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_what_is_no_score_is_refused_with_the_path(node: type[Arithmetic], leaf: type[Fixed], bad: Any) -> None:
    with pytest.raises(InvalidScoreError, match=r"outer\.mean"):
        await answer(Sequential({"outer": Sequential({"mean": node(lambda a: bad, a=leaf())})}))


@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
@pytest.mark.parametrize(("node", "leaf"), KINDS)
async def test_the_record_nests_by_calls(node: type[Arithmetic], leaf: type[Fixed], driver: str) -> None:
    parts = WeightedSum({"style": leaf(0.5), "tests": leaf(1.0)}, {"style": 0.5, "tests": 0.5})
    tree = node(lambda a, b: a - b, plus=Sequential({"parts": parts}), minus=leaf(0.25))
    record = await evaluated(tree, driver)
    assert record.flatten() == {
        "": 0.5,
        "plus": 0.75,
        "plus.parts": 0.75,
        "plus.parts.style": 0.5,
        "plus.parts.tests": 1.0,
        "minus": 0.25,
    }
    assert [child.path for child in record.children] == ["plus", "minus"]


class Twice(Rubric):
    """Calls one child three times, the third time with another pair, and a grandchild by itself."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child
        self.group = Sequential({"deep": Fixed(0.5)})

    def forward(self, action: Any, observation: Any) -> Any:
        scores = [self.child(action, observation), self.child(action, observation), self.child("other", observation)]
        return sum(scores) + self.group.deep(action, observation)


class AsyncTwice(Twice):
    async def forward(self, action: Any, observation: Any) -> Any:
        scores = [await self.child(pair, observation) for pair in (action, action, "other")]
        return sum(scores) + self.group.deep(action, observation)


@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
@pytest.mark.parametrize(("node", "leaf"), [(Twice, Fixed), (AsyncTwice, AsyncFixed)])
async def test_calls_of_one_child_are_told_apart(node: type[Twice], leaf: type[Fixed], driver: str) -> None:
    tree = Sequential({"twice": node(Sequential({"leaf": leaf(1.0)}))})
    record = await evaluated(tree, driver)
    assert record.flatten() == {
        "": 3.5,
        "twice": 3.5,
        "twice.child": 1.0,
        "twice.child.leaf": 1.0,
        "twice.child#2": 1.0,
        "twice.child#2.leaf": 1.0,
        "twice.child#3": 1.0,
        "twice.child#3.leaf": 1.0,
        "twice.group.deep": 0.5,
    }
    assert tree.get_rubric("twice.child.leaf").calls == 2  # the pair that was new, and the other one
    assert record["twice.child#2"].duration == 0.0


def test_a_child_that_a_forward_did_not_call_has_no_record() -> None:
    class Picks(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Fixed(0.5), Fixed(0.25)

        def forward(self, action: Any, observation: Any) -> Any:
            return self.one(action, observation)

    tree = Picks()
    record = tree.evaluate_sync(ACTION, OBSERVATION)
    assert record.flatten() == {"": 0.5, "one": 0.5}
    assert tree.two.last_score is None


def test_a_forward_that_builds_on_the_rule_of_its_container() -> None:
    class Doubled(WeightedSum):
        def forward(self, action: Any, observation: Any) -> Any:
            score = super().forward(action, observation)
            return None if score is None else 2 * score

    tree = Doubled([Fixed(0.5), Fixed(pending(1.0))], [0.5, 0.5])
    record = tree.evaluate_sync(ACTION, OBSERVATION)
    assert (record.status, record.score) == ("pending", 1.5)
    unscored = Doubled([Fixed(0.5), Fixed(Unscored("no key"))], [0.5, 0.5]).evaluate_sync(ACTION, OBSERVATION)
    assert unscored.status == "unscored"
    assert "no key" in str(unscored.reason)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_container_whose_forward_only_calls_super_scores_the_same(driver: str) -> None:
    class Same(AnyOf):
        def forward(self, action: Any, observation: Any) -> Any:
            return super().forward(action, observation)

    for leaf in (Fixed, AsyncFixed):
        assert await outcome(Same(leaf(0.5), leaf(0.75)), driver) == ("scored", 0.75)
        assert await outcome(Product(Same(leaf(0.5), leaf(None)), leaf(1.0)), driver) == ("unscored", None)
        assert await outcome(Same(leaf(pending(0.5)), leaf(0.25)), driver) == ("pending", 0.5)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
async def test_every_container_can_be_built_upon(leaf: type[Fixed], driver: str) -> None:
    def on(base: type[Container], *arguments: Any, **options: Any) -> Container:
        return type("Own", (base,), {"forward": lambda self, a, o: base.forward(self, a, o)})(*arguments, **options)

    bad = leaf(Boom())
    for node, expected in (
        (on(Gate, leaf(0.25), 0.5), ("scored", 0.0)),
        (on(Sequential, leaf(0.5), leaf(-1.0), bad), ("scored", -1.0)),
        (on(AllOf, leaf(0.5), leaf(0.25)), ("scored", 0.25)),
        (on(Switch, lambda a, o: "x", {"x": leaf(0.5), "y": bad}), ("scored", 0.5)),
        (on(Scale, leaf(pending(0.5)), 2.0), ("pending", 1.0)),
        (on(Fallback, leaf(None), 0.25), ("scored", 0.25)),
        (on(Fallback, leaf(0.5), bad, on_error=True), ("scored", 0.5)),
        (on(Fallback, bad, leaf(0.75), on_error=True), ("scored", 0.75)),
        (on(Fallback, bad, leaf(0.75)), ("error", Boom)),
        (on(Fallback, bad, bad, on_error=True), ("error", Boom)),
        (on(Timeout, leaf(0.5), 60), ("scored", 0.5)),
        (on(Threaded, leaf(None)), ("unscored", None)),
    ):
        assert await outcome(node, driver) == expected, node
        assert (await outcome(Sequential(node), driver)) == expected


def test_another_tree_called_within_a_forward_is_a_run_of_its_own() -> None:
    other = WeightedSum({"a": Fixed(pending(0.5))}, {"a": 1.0})

    class Asks(Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            return float(other(action, observation)) + other.evaluate_sync(action, observation).score

    record = Sequential({"asks": Asks()}).evaluate_sync(ACTION, OBSERVATION)
    assert record.flatten() == {"": 1.0, "asks": 1.0}
    assert record.status == "scored"  # the other tree's outcome is its own


def test_a_node_outside_a_forward_is_a_root() -> None:
    tree = Sequential({"a": Sequential({"b": Fixed(0.5)})})
    tree(ACTION, OBSERVATION)
    assert tree.a(ACTION, OBSERVATION) == 0.5
    assert tree.a.evaluate_sync(ACTION, OBSERVATION).flatten() == {"": 0.5, "b": 0.5}

"""Every container and every outcome: the table of the design, row by row, however the tree is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    AllOf,
    AnyOf,
    CaseError,
    Clip,
    Container,
    Fallback,
    Gate,
    InvalidScoreError,
    Invert,
    Map,
    Product,
    Rubric,
    RubricDict,
    RubricList,
    Scale,
    Score,
    Sequential,
    StructureError,
    Switch,
    Threaded,
    Timeout,
    Unscored,
    WeightedSum,
)
from tests.leaves import (
    ACTION,
    DRIVERS,
    OBSERVATION,
    AsyncFixed,
    Boom,
    Fixed,
    evaluated,
    outcome,
    pending,
)

U, E = None, Boom()
UNSCORED, ERROR = ("unscored", None), ("error", Boom)


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [0.5, 0.5])


def renormalized(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [0.75, 0.25], on_unscored="renormalize")


def scaled(child: Rubric) -> Scale:
    return Scale(child, 2.0, -0.25)


def clipped(child: Rubric) -> Clip:
    return Clip(child, 0.25, 0.75)


def squared(child: Rubric) -> Map:
    return Map(child, lambda score: score * score)


def or_number(child: Rubric) -> Fallback:
    return Fallback(child, 0.25)


def whatever(child: Rubric, other: Rubric | float = 0.25) -> Fallback:
    return Fallback(child, other, on_error=True)


def gated(child: Rubric) -> Gate:
    return Gate(child, 0.5)


def first(child: Rubric, other: Rubric) -> Switch:
    return Switch(lambda action, observation: "first", {"first": child, "other": other})


def by_default(child: Rubric, other: Rubric) -> Switch:
    return Switch(lambda action, observation: "unknown", {"other": other}, default=child)


def lost(child: Rubric) -> Switch:
    return Switch(lambda action, observation: "unknown", {"first": child})


def soon(child: Rubric) -> Timeout:
    return Timeout(child, 60.0)


def S(value: float) -> tuple[str, float]:
    return "scored", value


def P(value: float) -> tuple[str, float]:
    return "pending", value


# What the children answer, and what the container makes of it. `pending` children carry an intermediate reward.
TABLE: list[tuple[Callable[..., Rubric], list[Any], tuple[str, Any]]] = [
    (halves, [0.5, 1.0], S(0.75)),
    (halves, [-1.0, 0.5], S(-0.25)),
    (halves, [pending(0.5), 1.0], P(0.75)),
    (halves, [1.0, pending(0.0)], P(0.5)),
    (halves, [U, 1.0], UNSCORED),
    (halves, [pending(0.5), U], UNSCORED),
    (halves, [E, 1.0], ERROR),
    (halves, [U, E], ERROR),
    (renormalized, [U, 0.5], S(0.5)),
    (renormalized, [0.5, U], S(0.5)),
    (renormalized, [U, pending(0.5)], P(0.5)),
    (renormalized, [U, U], UNSCORED),
    (renormalized, [U, E], ERROR),
    (gated, [0.75], S(0.75)),
    (gated, [0.5], S(0.5)),
    (gated, [0.25], S(0.0)),
    (gated, [-1.0], S(0.0)),
    (gated, [pending(0.75)], P(0.75)),
    (gated, [pending(0.25)], P(0.25)),
    (gated, [U], UNSCORED),
    (gated, [E], ERROR),
    (Sequential, [], S(1.0)),
    (Sequential, [1.0, 0.5], S(0.5)),
    (Sequential, [0.5, 0.0, E], S(0.0)),
    (Sequential, [-1.0, 0.75], S(-1.0)),
    (Sequential, [pending(0.5), E], P(0.5)),
    (Sequential, [pending(0.0), 1.0], P(0.0)),
    (Sequential, [1.0, pending(0.25)], P(0.25)),
    (Sequential, [0.0, pending(0.25)], S(0.0)),
    (Sequential, [U, E], UNSCORED),
    (Sequential, [1.0, U], UNSCORED),
    (Sequential, [E, 1.0], ERROR),
    (AllOf, [0.5, 0.25, 1.0], S(0.25)),
    (AllOf, [0.5, 0.0, 1.0], S(0.0)),
    (AllOf, [0.5, -1.0], S(0.0)),
    (AllOf, [pending(0.5), 0.25], P(0.25)),
    (AllOf, [pending(0.0), 0.5], P(0.0)),
    (AllOf, [pending(0.5), 0.0], S(0.0)),
    (AllOf, [U, 0.5], UNSCORED),
    (AllOf, [pending(0.5), U], UNSCORED),
    (AllOf, [U, 0.0], S(0.0)),
    (AllOf, [E, 0.5], ERROR),
    (AnyOf, [0.5, 0.75, 0.25], S(0.75)),
    (AnyOf, [-1.0, -0.5], S(-0.5)),
    (AnyOf, [pending(0.5), 1.0], P(1.0)),
    (AnyOf, [U, 1.0], UNSCORED),
    (AnyOf, [pending(0.5), U], UNSCORED),
    (AnyOf, [1.0, E], ERROR),
    (Product, [0.5, 0.5, -1.0], S(-0.25)),
    (Product, [pending(0.5), 0.5], P(0.25)),
    (Product, [0.0, U], UNSCORED),
    (Product, [pending(0.5), U], UNSCORED),
    (Product, [0.0, E], ERROR),
    (first, [0.5, E], S(0.5)),
    (first, [-1.0, 1.0], S(-1.0)),
    (first, [pending(0.5), 1.0], P(0.5)),
    (first, [U, 1.0], UNSCORED),
    (first, [E, 1.0], ERROR),
    (by_default, [0.5, E], S(0.5)),
    (lost, [1.0], ("error", CaseError)),
    (scaled, [0.5], S(0.75)),
    (scaled, [pending(0.5)], P(0.75)),
    (scaled, [U], UNSCORED),
    (scaled, [E], ERROR),
    (clipped, [0.5], S(0.5)),
    (clipped, [0.0], S(0.25)),
    (clipped, [9.0], S(0.75)),
    (clipped, [pending(0.0)], P(0.0)),
    (clipped, [U], UNSCORED),
    (clipped, [E], ERROR),
    (Invert, [0.25], S(0.75)),
    (Invert, [pending(0.25)], P(0.25)),
    (Invert, [U], UNSCORED),
    (Invert, [E], ERROR),
    (squared, [0.5], S(0.25)),
    (squared, [pending(0.5)], P(0.5)),
    (squared, [U], UNSCORED),
    (squared, [E], ERROR),
    (or_number, [0.5], S(0.5)),
    (or_number, [0.0], S(0.0)),
    (or_number, [pending(0.5)], P(0.5)),
    (or_number, [U], S(0.25)),
    (or_number, [E], ERROR),
    (Fallback, [U, 0.75], S(0.75)),
    (Fallback, [U, pending(0.75)], P(0.75)),
    (Fallback, [U, U], UNSCORED),
    (Fallback, [U, E], ERROR),
    (Fallback, [0.5, E], S(0.5)),
    (Fallback, [pending(0.5), E], P(0.5)),
    (Fallback, [E, 1.0], ERROR),
    (whatever, [E], S(0.25)),
    (whatever, [E, 0.75], S(0.75)),
    (whatever, [E, U], UNSCORED),
    (whatever, [E, E], ERROR),
    (whatever, [pending(0.5), E], P(0.5)),
    (soon, [0.5], S(0.5)),
    (soon, [pending(0.5)], P(0.5)),
    (soon, [U], UNSCORED),
    (soon, [E], ERROR),
    (Threaded, [0.5], S(0.5)),
    (Threaded, [pending(0.5)], P(0.5)),
    (Threaded, [U], UNSCORED),
    (Threaded, [E], ERROR),
]


def leaves(values: list[Any], kind: str) -> list[Fixed]:
    """The children, plain, async, or by turns; the turns of the loop that the async ones take go down, or up."""
    if kind == "plain":
        return [Fixed(value) for value in values]
    if kind == "async":
        return [AsyncFixed(value, turns=len(values) - i) for i, value in enumerate(values)]
    return [AsyncFixed(value, turns=i) if i % 2 else Fixed(value) for i, value in enumerate(values)]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", ["plain", "async", "mixed"])
@pytest.mark.parametrize(
    ("make", "values", "expected"), [pytest.param(*row, id=f"{row[0].__name__}-{row[1]}") for row in TABLE]
)
async def test_outcomes(
    make: Callable[..., Rubric], values: list[Any], expected: tuple[str, Any], kind: str, driver: str
) -> None:
    assert await outcome(make(*leaves(values, kind)), driver) == expected


@pytest.mark.parametrize(
    "make", [gated, Sequential, AllOf, AnyOf, Product, scaled, clipped, Invert, squared, soon, Threaded]
)
@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
async def test_the_reason_of_an_unscored_child_is_kept(make: Callable[..., Rubric], driver: str) -> None:
    child = Fixed(Unscored("the judge abstained", {"judge": "a"}))
    tree = make(child)
    record = await evaluated(tree, driver)
    assert record.status == "unscored"
    assert record.reason == "the judge abstained"
    assert record.metadata == {"judge": "a"}


@pytest.mark.parametrize("make", [gated, Sequential, first, Fallback, soon, Threaded])
def test_what_passes_a_child_on_keeps_its_reason(make: Callable[..., Rubric]) -> None:
    score = Score(0.75, "short and clear", {"label": "good"})
    children = [Fixed(score), Fixed(1.0)] if make in (first, Fallback) else [Fixed(score)]
    record = make(*children).evaluate_sync(ACTION, OBSERVATION)
    assert (record.score, record.reason, record.metadata) == (0.75, "short and clear", {"label": "good"})


def test_a_fallback_says_why_it_was_used() -> None:
    unscored = Fallback(Fixed(Unscored("no key")), 0.5).evaluate_sync(ACTION, OBSERVATION)
    assert "no key" in str(unscored.reason)
    failed = Fallback(Fixed(Boom("no wire")), 0.5, on_error=True).evaluate_sync(ACTION, OBSERVATION)
    assert "Boom: no wire" in str(failed.reason)
    assert failed["rubric"].status == "error"


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_fallback_catches_no_cancellation(driver: str) -> None:
    class Quits(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            raise KeyboardInterrupt

    tree = Fallback(Quits(), 0.5, on_error=True)
    with pytest.raises(KeyboardInterrupt):
        await outcome(tree, driver)


def test_a_switch_runs_only_the_child_it_names() -> None:
    chosen, other = Fixed(0.5), Fixed(0.25)
    tree = Switch(lambda action, observation: action, {"code": chosen, "prose": other})
    record = tree.evaluate_sync("code", OBSERVATION)
    assert (record.score, record["code"].status, record["prose"].status) == (0.5, "scored", "skipped")
    assert (chosen.calls, other.calls) == (1, 0)
    assert tree("prose", OBSERVATION) == 0.25


@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
async def test_a_key_may_say_that_it_cannot_tell(leaf: type[Fixed], driver: str) -> None:
    def key(action: Any, observation: Any) -> str:
        raise Unscored("no language given")

    child = leaf()
    record = await evaluated(Sequential({"kind": Switch(key, {"a": child}, default=leaf())}), driver)
    assert (record.status, record.reason) == ("unscored", "no language given")
    assert record["kind.a"].status == record["kind.default"].status == "skipped"
    assert child.calls == 0


def test_by_default_scores_are_clipped_to_the_unit_interval_and_gates_want_a_one() -> None:
    assert [Clip(Fixed(value))(ACTION, OBSERVATION) for value in (-1.0, 0.5, 9.0)] == [0.0, 0.5, 1.0]
    assert [Gate(Fixed(value))(ACTION, OBSERVATION) for value in (0.9, 1.0, 9.0)] == [0.0, 1.0, 9.0]
    assert Scale(Fixed(0.5), 3.0)(ACTION, OBSERVATION) == 1.5


def test_an_unknown_case_names_the_node_and_the_cases() -> None:
    tree = WeightedSum({"kind": Switch(lambda action, observation: 7, {"code": Fixed()})}, {"kind": 1.0})
    with pytest.raises(CaseError, match=r"no case 7 .*\['code'\]") as caught:
        tree(ACTION, OBSERVATION)
    assert "in rubric kind (Switch)" in caught.value.__notes__


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gate("x"), "not a Rubric"),
        (lambda: Gate(Fixed(), float("nan")), "threshold"),
        (lambda: Gate(Fixed(), True), "threshold"),
        (lambda: Scale(Fixed(), float("inf")), "factor"),
        (lambda: Scale(Fixed(), 1.0, "1"), "offset"),
        (lambda: Clip(Fixed(), 1.0, 0.0), "above"),
        (lambda: Clip(Fixed(), float("nan"), 1.0), "low"),
        (lambda: Timeout(Fixed(), 0), "positive"),
        (lambda: Timeout(Fixed(), float("inf")), "seconds"),
        (lambda: Fallback(Fixed(), float("nan")), "other"),
        (lambda: AllOf(), "no children"),
        (lambda: AnyOf([]), "no children"),
        (lambda: Product({}), "no children"),
        (lambda: Switch(lambda a, o: "x", {}), "no cases"),
        (lambda: Switch(lambda a, o: "x", {"default": Fixed()}, default=Fixed()), "default"),
        (lambda: Sequential(Fixed(), 1.0), "not a Rubric"),
        (lambda: RubricList([Fixed(), None]), "not a Rubric"),
        (lambda: RubricDict({"a": 1}), "not a Rubric"),
        (lambda: RubricDict({"a.b": Fixed()}), "without a dot"),
        (lambda: RubricDict({"": Fixed()}), "non-empty"),
        (lambda: RubricDict({"keys": Fixed()}), "hide"),
        (lambda: Sequential({"forward": Fixed()}), "hide"),
    ],
)
def test_what_cannot_be_built(make: Callable[[], Rubric], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()


@pytest.mark.parametrize("function", [lambda score: float("nan"), lambda score: score / 0.0, lambda score: "0.5"])
def test_a_bad_map_names_its_node(function: Callable[[float], Any]) -> None:
    tree = Sequential({"curve": Map(Fixed(0.5), function)})
    with pytest.raises((InvalidScoreError, ZeroDivisionError)) as caught:
        tree(ACTION, OBSERVATION)
    assert "in rubric curve (Map)" in caught.value.__notes__


def test_overflow_is_refused_at_the_node() -> None:
    tree = Sequential({"big": Product(Fixed(1e200), Fixed(1e200))})
    with pytest.raises(InvalidScoreError, match="big"):
        tree(ACTION, OBSERVATION)


class Median(Container):
    """A rule of one's own: the middle of three."""

    def __init__(self, *rubrics: Rubric) -> None:
        super().__init__({f"voice_{i}": rubric for i, rubric in enumerate(rubrics)})

    def combine(self, values: list[Any]) -> Any:
        return sorted(values)[1]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", ["plain", "async", "mixed"])
async def test_a_container_of_ones_own(kind: str, driver: str) -> None:
    tree = Median(*leaves([0.9, 0.1, 0.4], kind))
    assert await outcome(tree, driver) == S(0.4)
    assert tree.reaggregate(await tree.evaluate(ACTION, OBSERVATION)).score == 0.4


def test_bounds_of_an_unscored_child_are_changed_like_its_score() -> None:
    points = WeightedSum([Fixed(None), Fixed(None)], [2, -1], normalize="positive")  # from -1/2 to 1
    assert Clip(points, 0, 1).evaluate_sync("a", "o").metadata["bounds"] == [0.0, 1.0]
    assert Scale(points, 10).evaluate_sync("a", "o").metadata["bounds"] == [-5.0, 10.0]
    assert Invert(points).evaluate_sync("a", "o").metadata["bounds"] == [0.0, 1.5]
    assert "bounds" not in Map(points, lambda score: score * score).evaluate_sync("a", "o").metadata

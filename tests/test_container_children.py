"""How containers hold their children: shapes, names, one registry behind length, iteration, indexing and the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    AllOf,
    AnyOf,
    Fallback,
    Gate,
    Product,
    Rubric,
    RubricDict,
    RubricList,
    Sequential,
    StructureError,
    Switch,
    Threaded,
    WeightedSum,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, Fixed, in_time


def evenly(children: Any) -> WeightedSum:
    if isinstance(children, dict):
        return WeightedSum(children, {name: 1 / len(children) for name in children})
    return WeightedSum(children, [1 / len(children)] * len(children))


def by_action(children: Any) -> Switch:
    return Switch(lambda action, observation: action, children)


MANY: list[Callable[..., Any]] = [evenly, Sequential, AllOf, AnyOf, Product, RubricList]
NAMED: list[Callable[..., Any]] = [evenly, Sequential, AllOf, AnyOf, Product, RubricDict, by_action]


def names(tree: Rubric) -> list[str]:
    return [name for name, _ in tree.named_children()]


def consistent(tree: Any) -> None:
    """Length, iteration, indexing, children and named children tell one story."""
    children = list(tree.children())
    assert len(tree) == len(children) == len(names(tree))
    assert [child for _, child in tree.named_children()] == children
    if not isinstance(tree, RubricDict):
        assert list(tree) == children
        assert [tree[i] for i in range(len(tree))] == children
    for name, child in tree.named_children():
        assert tree.get_rubric(name) is child


@pytest.mark.parametrize("make", MANY)
def test_children_of_a_list_are_numbered(make: Callable[..., Any]) -> None:
    children = [Fixed(), Fixed(), Fixed()]
    tree = make(children)
    assert names(tree) == ["rubric_0", "rubric_1", "rubric_2"]
    assert list(tree) == children
    assert tree[-1] is tree.rubric_2 is children[2]
    consistent(tree)
    with pytest.raises(IndexError):
        tree[3]


@pytest.mark.parametrize("make", [Sequential, AllOf, AnyOf, Product])
def test_children_come_one_by_one_or_as_a_list(make: Callable[..., Any]) -> None:
    a, b = Fixed(), Fixed()
    assert list(make(a, b)) == list(make([a, b])) == list(make((a, b))) == [a, b]
    assert list(make(a)) == list(make([a])) == [a]


@pytest.mark.parametrize("make", NAMED)
def test_the_keys_of_a_mapping_become_the_names(make: Callable[..., Any]) -> None:
    style, tests = Fixed(), Fixed()
    tree = make({"style": style, "tests": tests})
    assert names(tree) == ["style", "tests"]
    assert tree.style is style
    consistent(tree)


def test_the_names_of_single_children() -> None:
    assert names(Gate(Fixed())) == ["rubric"]
    assert names(Fallback(Fixed(), 0.5)) == ["rubric"]
    assert names(Fallback(Fixed(), Fixed())) == ["rubric", "other"]
    assert names(Switch(lambda a, o: "x", {"x": Fixed()}, default=Fixed())) == ["x", "default"]
    assert Gate(Fixed())[0].value == 1.0


def test_empty_ones() -> None:
    for empty in (Sequential(), Sequential([]), RubricList(), RubricList([])):
        assert len(empty) == 0
        assert list(empty) == []
    assert len(RubricDict()) == 0
    assert Sequential()(ACTION, OBSERVATION) == 1.0


# Every name is refused, or works: whatever the container itself keeps under it.


def attributes() -> list[str]:
    """All names that a container has of its own, and a few that it has not."""
    trees = [*(make({"a": Fixed(), "b": Fixed()}) for make in NAMED), Gate(Fixed()), Threaded(Fixed()), Fixed()]
    found = {name for tree in trees for name in (*dir(tree), *vars(tree))}
    more = {"key", "value", "default", "rubric", "other", "0", "x y", "class", "rubric_0", "ok#2", "é", "_", "A"}
    return sorted((found | more) - {"a", "b", "calls"})


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("make", NAMED, ids=lambda make: make.__name__)
def test_any_name_is_refused_or_works(make: Callable[..., Any], asynchronous: bool) -> None:
    leaf: type[Fixed] = AsyncFixed if asynchronous else Fixed
    wrong = []
    for name in attributes():
        children = {name: leaf(0.25), "b": leaf(0.75)}
        try:
            tree = make(children)
        except StructureError as error:
            if repr(name) not in str(error):  # it says which name, not that some weight is missing
                wrong.append(name)
            continue
        expected = make({"a": leaf(0.25), "b": leaf(0.75)})
        same = names(tree) == [name, "b"] and tree.get_rubric(name) is children[name]
        if same and make is not RubricDict:
            same = scores(tree, name) == scores(expected, "a")
        if not same:
            wrong.append(name)
    assert wrong == []


def scores(tree: Rubric, name: str) -> Any:
    try:
        return in_time(tree.evaluate_sync, name, OBSERVATION).score
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("name", ["key", "value", "low", "high", "function", "normalize", "seconds", "threshold"])
def test_names_that_data_bring_along_work(name: str) -> None:
    tree = Switch(lambda action, observation: name, {name: Fixed(0.25), "b": Fixed(0.75)})
    assert tree(ACTION, OBSERVATION) == 0.25
    assert tree.get_rubric(name).last_score == 0.25
    assert RubricDict({name: Fixed(0.25)})[name].value == 0.25


@pytest.mark.parametrize("name", ["keys", "values", "items", "forward", "reset", "evaluate", "children", "__call__"])
def test_a_name_that_hides_a_method_is_refused(name: str) -> None:
    for build in (RubricDict, Sequential):
        if hasattr(build, name):
            with pytest.raises(StructureError, match=f"'{name}'.*hide"):
                build({name: Fixed()})
    tree = RubricDict({"a": Fixed()})
    with pytest.raises(StructureError, match=f"'{name}'.*hide"):
        tree[name] = Fixed()
    assert names(tree) == ["a"]


# Changing children


@pytest.mark.parametrize("make", [Sequential, evenly, AllOf, AnyOf, Product])
def test_replacing_a_child_changes_the_listing_and_the_score(make: Callable[..., Any]) -> None:
    tree = make([Fixed(1.0), Fixed(1.0)])
    assert tree(ACTION, OBSERVATION) == 1.0
    other = Fixed(-1.0)
    tree.rubric_1 = other
    assert tree[1] is other
    assert tree(ACTION, OBSERVATION) == {Sequential: -1.0, evenly: 0.0, AllOf: 0.0, AnyOf: 1.0, Product: -1.0}[make]
    assert other.calls == 1
    consistent(tree)


@pytest.mark.parametrize("how", ["None", "del"])
@pytest.mark.parametrize("make", [Sequential, AllOf, AnyOf, Product])
def test_a_child_that_is_taken_away_is_gone(make: Callable[..., Any], how: str) -> None:
    gone = Fixed(0.125)
    tree = make({"gone": gone, "kept": Fixed(0.5)})
    tree(ACTION, OBSERVATION)
    if how == "None":
        tree.gone = None
    else:
        del tree.gone
    assert names(tree) == ["kept"]
    assert tree(ACTION, OBSERVATION) == 0.5
    assert gone.calls == 1
    consistent(tree)


def test_a_sum_that_lost_a_child_says_so() -> None:
    tree = evenly([Fixed(), Fixed()])
    del tree.rubric_0
    with pytest.raises(StructureError, match="sum to 1"):
        tree(ACTION, OBSERVATION)
    tree.weights = [1.0]
    assert tree(ACTION, OBSERVATION) == 1.0
    tree.more = Fixed()
    with pytest.raises(StructureError, match="'more' has no weight"):
        tree(ACTION, OBSERVATION)


@pytest.mark.parametrize("make", [AllOf, AnyOf, Product])
def test_a_rule_whose_last_child_was_taken_away_is_an_error(make: Callable[..., Any]) -> None:
    tree = make([Fixed()])
    del tree.rubric_0
    with pytest.raises(StructureError, match="no children"):
        tree(ACTION, OBSERVATION)


def test_a_gate_has_one_child() -> None:
    tree = Gate(Fixed(), 0.5)
    tree.second = Fixed()
    with pytest.raises(StructureError, match="one child"):
        tree(ACTION, OBSERVATION)


# RubricList and RubricDict


def test_a_list_can_be_changed() -> None:
    a, b, c, d = (Fixed() for _ in range(4))
    tree = RubricList([a])
    tree.append(b)
    tree.extend([c])
    tree[0] = d
    assert list(tree) == [d, b, c]
    consistent(tree)
    del tree[1]
    assert list(tree) == [d, c]
    tree.append(a)
    assert list(tree) == [d, c, a]
    consistent(tree)
    with pytest.raises(IndexError):
        tree[3] = a
    with pytest.raises(StructureError):
        tree.append(None)  # type: ignore[arg-type]
    assert len(tree) == 3


def test_a_dict_can_be_changed() -> None:
    a, b, c = (Fixed() for _ in range(3))
    tree = RubricDict({"a": a})
    tree["b"] = b
    tree.update({"a": c})
    assert list(tree) == list(tree.keys()) == ["a", "b"]
    assert list(tree.values()) == [c, b]
    assert dict(tree.items()) == {"a": c, "b": b}
    assert "a" in tree
    assert "c" not in tree
    del tree["a"]
    assert list(tree) == ["b"]
    consistent(tree)
    for missing in (lambda: tree["a"], lambda: tree.__delitem__("a")):
        with pytest.raises(KeyError, match="a"):
            missing()
    with pytest.raises(StructureError, match="dot"):
        tree["a.b"] = a
    assert list(tree) == ["b"]


@pytest.mark.parametrize("tree", [RubricList([Fixed()]), RubricDict({"a": Fixed()})])
def test_what_only_holds_children_does_not_aggregate(tree: Rubric) -> None:
    with pytest.raises(NotImplementedError, match="does not combine"):
        tree(ACTION, OBSERVATION)


class Checks(Rubric):
    """Calls what its list and its dict hold."""

    def __init__(self) -> None:
        super().__init__()
        self.all = RubricList([Fixed(0.5), Fixed(1.0)])
        self.by_name = RubricDict({"style": Fixed(0.25)})

    def forward(self, action: Any, observation: Any) -> float:
        return sum(check(action, observation) for check in self.all) + self.by_name["style"](action, observation)


def test_held_children_are_part_of_the_tree() -> None:
    tree = Checks()
    assert [path for path, _ in tree.named_rubrics()] == [
        "all",
        "all.rubric_0",
        "all.rubric_1",
        "by_name",
        "by_name.style",
    ]
    record = tree.evaluate_sync(ACTION, OBSERVATION)
    assert record.score == 1.75
    assert record["all.rubric_1"].score == 1.0
    assert record["by_name.style"].score == 0.25
    tree.all.append(Fixed(2.0))
    assert tree(ACTION, OBSERVATION) == 3.75

"""A tree that is written and read back is the same tree: same scores, same fingerprint, same words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from rubrics import (
    AllOf,
    AnyOf,
    Clip,
    Discounted,
    EqualSplit,
    Fallback,
    Gate,
    Invert,
    Map,
    Product,
    Rubric,
    RubricDict,
    RubricList,
    Scale,
    Sequential,
    SpecError,
    Switch,
    Threaded,
    Timeout,
    WeightedSum,
    dump,
    fingerprint,
    load,
)
from rubrics.criteria.values import Value
from rubrics.spec import dumps, loads
from tests.spec import graders
from tests.spec.graders import Every, Fixed, Forgetful, Halver, Last, Slow, Twice, half

OWN = ["tests.spec.graders", "math"]


def again(tree: Rubric) -> Rubric:
    text = dumps(tree)
    read = loads(text, allow_import=OWN)
    assert dumps(read) == text
    return read


ONE = Fixed(0.25)
TREES: dict[str, Rubric] = {
    "leaf": Fixed(),
    "sum of a list": WeightedSum([Fixed(), Fixed(0.5)], [0.5, 0.5]),
    "sum of a mapping": WeightedSum({"a": Fixed(), "no": Fixed(0.5)}, {"a": 10, "no": -5}, "positive", "renormalize"),
    "gate": Gate(Fixed(0.4), 0.4),
    "sequential": Sequential(Fixed(), Slow(0.5)),
    "sequential of names": Sequential({"first": Fixed(), "on": Fixed(0.5)}),
    "empty sequential": Sequential(),
    "all": AllOf(Fixed(), Fixed(0.5)),
    "any": AnyOf(Fixed(), Fixed(0.5)),
    "product": Product(Fixed(), Fixed(0.5)),
    "switch": Switch(Value("action.tool"), {"a": Fixed(), "b": Fixed(0.5)}),
    "switch with a default": Switch(graders.half, {"a": Fixed()}, default=Fixed(0.5)),
    "scale": Scale(Fixed(), 0.5, -0.25),
    "clip": Clip(Fixed(), -1, 0.5),
    "invert": Invert(Fixed()),
    "map": Map(Fixed(), half, range=(0, 0.5)),
    "a static method": Map(Fixed(), Halver.half),
    "fallback to a number": Fallback(Fixed(), 0.5, on_error=True),
    "fallback to a rubric": Fallback(Fixed(), Fixed(0.5)),
    "timeout": Timeout(Slow(), 2.5),
    "threaded": Threaded(Fixed(), limit=3),
    "list": RubricList([Fixed(), Fixed(0.5)]),
    "dict": RubricDict({"a": Fixed(), "1": Fixed(0.5)}),
    "delayed": Last(0.125, credit=Discounted(0.9), share=0.5),
    "equal split": WeightedSum([Last(credit=EqualSplit()), ONE], [0.5, 0.5]),
    "a node at two places": WeightedSum([Gate(ONE, 0.2), ONE, Invert(ONE)], [0.5, 0.25, 0.25]),
    "everything": Every(
        {"x", "y"},
        ONE,
        Fixed(2.0),
        table={"a": [1, 2]},
        mode="loose",
        function=half,
        pair=(3, "c"),
        anything={"kind": [1, None, {"deep": True}]},
        unannotated="text",
    ),
    "texts": Every(
        {"yes", "1e3", "12:30", "~", "=", "a: b", " # x", "\x07", "é\n", "line\nline\n", "\ttab\n x"}, unannotated="0x1"
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_each_tree_is_itself_again(name: str) -> None:
    tree = TREES[name]
    read = again(tree)
    assert fingerprint(read) == fingerprint(tree)
    assert repr(read) == repr(tree)
    assert list(dict(read.named_rubrics())) == list(dict(tree.named_rubrics()))


@pytest.mark.parametrize("ending", ["yaml", "yml", "json", "JSON"])
def test_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"tree.{ending}"
    for tree in TREES.values():
        dump(tree, path)
        assert fingerprint(load(path, allow_import=OWN)) == fingerprint(tree)


def trees(leaves: st.SearchStrategy[Rubric]) -> st.SearchStrategy[Rubric]:
    def deeper(below: st.SearchStrategy[Rubric]) -> st.SearchStrategy[Rubric]:
        some = st.lists(below, min_size=1, max_size=3)
        names = st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=6).map("c".__add__),
            below,
            min_size=1,
            max_size=3,
        )
        number = st.floats(-4, 4)
        return st.one_of(
            some.map(lambda parts: WeightedSum(parts, [1 / len(parts)] * len(parts))),
            st.tuples(names, st.floats(0.5, 4)).map(
                lambda given: WeightedSum(given[0], dict.fromkeys(given[0], given[1]), normalize="total")
            ),
            names.map(Sequential),
            some.map(lambda parts: AllOf(*parts)),
            names.map(Product),
            some.map(lambda parts: AnyOf(*parts)),
            st.tuples(below, number).map(lambda given: Gate(*given)),
            st.tuples(below, number, number).map(lambda given: Scale(*given)),
            st.tuples(below, st.floats(-4, 0), st.floats(0, 4)).map(lambda given: Clip(*given)),
            below.map(Invert),
            below.map(lambda part: Map(part, half)),
            st.tuples(below, st.floats(-1, 1), st.booleans()).map(lambda given: Fallback(*given)),
            st.tuples(below, below).map(lambda given: Fallback(*given)),
        )

    return st.recursive(leaves, deeper, max_leaves=8)


@given(trees(st.floats(-10, 10).map(Fixed)))
@example(Clip(Fixed(1.0), -0.0, 0.0))
@settings(max_examples=60, deadline=None)
def test_any_tree_is_itself_again(tree: Rubric) -> None:
    read = again(tree)
    assert fingerprint(read) == fingerprint(tree)
    assert read("action", "observation") == tree("action", "observation")


def test_a_node_at_several_places_is_one_node() -> None:
    read: Any = again(TREES["a node at two places"])
    assert read[0][0] is read[1] is read[2][0]


def test_what_changed_since_it_was_made_is_written_as_it_is() -> None:
    tree = WeightedSum([Gate(Fixed(), 0.5), Fixed()], [0.5, 0.5])
    tree[0].threshold, tree.weights, tree[1].value = 0.25, [0.1, 0.9], 0.75
    read: Any = again(tree)
    assert (read[0].threshold, read.weights, read[1].value) == (0.25, [0.1, 0.9], 0.75)


def test_of_infinite_numbers_no_file_is_made() -> None:
    with pytest.raises(SpecError, match=r"value: it is inf; a file holds finite numbers"):
        dumps(Fixed(math.inf))


class Local(Rubric):
    def __init__(self, part: Rubric) -> None:
        super().__init__()
        self.part = part


def hooked() -> Rubric:
    tree = Gate(Fixed())
    tree[0].register_forward_hook(lambda *_: None)
    return tree


def patched() -> Rubric:
    tree = Fixed()
    tree.forward = lambda action, observation: 0.5  # type: ignore[method-assign]
    return tree


def decorated() -> Rubric:
    tree = Gate(Fixed())
    tree[0].note = "new"  # type: ignore[attr-defined]
    return tree


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Map(Fixed(), lambda x: x), "function: .*<lambda> has no name that a file could give"),
        (Gate(Twice(0.25)), "rubric: read back, this node would be another.*spec_arguments"),
        (
            Sequential(Fixed(), Forgetful(["a"])),
            "rubrics.1: Forgetful does not keep its argument 'texts': keep it as self.texts",
        ),
        (hooked(), "rubric: it has hooks"),
        (patched(), "the root: its forward was assigned"),
        (decorated(), "rubric: read back, this node would be another"),
        (Every({"x"}, anything=object()), "anything: a object cannot be written to a file"),
        (graders.Loose(a=1), "options"),
    ],
)
def test_what_cannot_be_written_is_said_with_its_path(tree: Rubric, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        dumps(tree)


def test_a_class_within_a_function_has_no_name() -> None:
    class Hidden(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    with pytest.raises(SpecError, match=r"the root: .*Hidden.* has no name that a file could give"):
        dumps(Hidden())


def test_nothing_is_written_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    dump(Fixed(), path)
    before = path.read_text()
    with pytest.raises(SpecError):
        dump(Gate(Twice(0.25)), path)
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(SpecError, match=r"tree\.txt: a tree is written to a file that ends in .yaml, .yml, .json"):
        dump(Fixed(), tmp_path / "tree.txt")


@given(st.lists(st.text(max_size=12), max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_text_is_itself_again(texts: list[str]) -> None:
    tree = Every(set(texts), anything=texts, table={f"key {i}": [i] for i in range(len(texts))})
    read: Any = again(tree)
    assert read.anything == texts and read.words == set(texts)

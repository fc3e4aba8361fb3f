"""`Rubric` itself: one registry of children, what is refused, hooks, and the printed tree."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from rubrics import (
    AllOf,
    Gate,
    InvalidScoreError,
    Rubric,
    RubricDict,
    Sequential,
    Session,
    StructureError,
    Threaded,
    WeightedSum,
)
from tests.leaves import ACTION, DRIVERS, OBSERVATION, AsyncFixed, Fixed, Judged, outcome


class Review(Rubric):
    """Children as plain attributes, combined by hand."""

    def __init__(self, **children: Rubric) -> None:
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, action: Any, observation: Any) -> Any:
        scores = [child(action, observation) for child in self.children()]
        return sum(scores) / len(scores) if scores else 1.0


def names(node: Rubric) -> list[str]:
    return [name for name, _ in node.named_children()]


# Children


def test_children_register_themselves() -> None:
    style, tests = Fixed(0.5), Fixed(1.0)
    node = Review(style=style, tests=tests)
    assert names(node) == ["style", "tests"]
    assert list(node.children()) == [style, tests]
    assert node.style is style  # type: ignore[attr-defined]
    assert node(ACTION, OBSERVATION) == 0.75
    node.threshold = 0.5  # type: ignore[attr-defined]
    assert names(node) == ["style", "tests"]


def test_nodes_below_have_dotted_names_depth_first() -> None:
    shared = Fixed()
    node = Review(code=Review(style=shared, tests=Gate(Fixed())), prose=shared)
    assert [path for path, _ in node.named_rubrics()] == [
        "code",
        "code.style",
        "code.tests",
        "code.tests.rubric",
        "prose",
    ]
    assert list(node.rubrics()) == [child for _, child in node.named_rubrics()]
    assert [path for path, _ in node.named_rubrics("root")][:2] == ["root.code", "root.code.style"]
    for path, child in node.named_rubrics():
        assert node.get_rubric(path) is child


@pytest.mark.parametrize("path", ["nope", "code.nope", "code.style.nope", "", "code.", ".code", "code..style"])
def test_a_path_that_leads_nowhere_says_where_it_stops(path: str) -> None:
    node = Review(code=Review(style=Fixed()))
    with pytest.raises(KeyError, match=r"no rubric|no child"):
        node.get_rubric(path)


def test_assigning_again_replaces_and_assigning_anything_else_removes() -> None:
    first, second = Fixed(0.25), Fixed(0.5)
    node = Review(a=first, b=Fixed(1.0))
    node.a = second  # type: ignore[attr-defined]
    assert (names(node), node.a, node(ACTION, OBSERVATION)) == (["a", "b"], second, 0.75)  # type: ignore[attr-defined]
    for gone in (None, 3):
        node.a = gone  # type: ignore[attr-defined]
        assert (names(node), node.a, node(ACTION, OBSERVATION)) == (["b"], gone, 1.0)  # type: ignore[attr-defined]
    node.a = first  # type: ignore[attr-defined]
    assert names(node) == ["b", "a"]
    del node.a  # type: ignore[attr-defined]
    assert names(node) == ["b"]
    assert not hasattr(node, "a")
    with pytest.raises(AttributeError):
        del node.a  # type: ignore[attr-defined]
    assert first.calls == 0


def test_one_node_may_be_a_child_twice() -> None:
    node = Fixed(0.5)
    tree = Review(a=node, b=node)
    assert list(tree.children()) == [node, node]
    del tree.a  # type: ignore[attr-defined]
    assert names(tree) == ["b"]
    tree.b = Fixed(1.0)  # type: ignore[attr-defined]
    assert tree(ACTION, OBSERVATION) == 1.0


# What is refused


def test_a_cycle_is_refused_when_it_is_made() -> None:
    top = Review(middle=Review(bottom=Review()))
    bottom = top.get_rubric("middle.bottom")
    for parent, child in ((top, top), (bottom, top), (bottom, top.middle)):  # type: ignore[attr-defined]
        with pytest.raises(StructureError, match="no cycles"):
            parent.x = child  # type: ignore[attr-defined]
        assert "x" not in names(parent)
    assert top(ACTION, OBSERVATION) == 1.0


@pytest.mark.parametrize("how", ["del", "None", "replaced"])
def test_what_was_taken_out_is_no_cycle(how: str) -> None:
    one, other = Review(), Review()
    one.x = other  # type: ignore[attr-defined]
    if how == "del":
        del one.x  # type: ignore[attr-defined]
    else:
        one.x = None if how == "None" else Fixed()  # type: ignore[attr-defined]
    other.y = one  # type: ignore[attr-defined]
    assert other(ACTION, OBSERVATION) == 1.0
    with pytest.raises(StructureError, match="no cycles"):
        one.z = other  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [
        "forward",
        "reset",
        "children",
        "evaluate",
        "state_dict",
        "episode",
        "range",
        "task",
        "memory",
        "last_score",
        "sees",
    ],
)
def test_a_child_that_would_hide_something_of_the_rubric_is_refused(name: str) -> None:
    node = Review()
    with pytest.raises(StructureError, match=name):
        setattr(node, name, Fixed())
    assert names(node) == []
    assert node(ACTION, OBSERVATION) == 1.0


def test_a_child_that_would_hide_a_method_of_the_subclass_is_refused() -> None:
    class Helps(Review):
        def helper(self) -> float:
            return 0.5

    with pytest.raises(StructureError, match="helper"):
        Helps(helper=Fixed())


class Forgets(Rubric):
    """Forgets super().__init__()."""

    def __init__(self) -> None:
        self.value = 1.0

    def forward(self, action: Any, observation: Any) -> float:
        return self.value


class ForgetsToo(Rubric):
    def __init__(self) -> None:
        self.child = Fixed()

    def forward(self, action: Any, observation: Any) -> float:
        return 1.0


@dataclass(eq=False)
class Data(Rubric):
    """A dataclass: its generated __init__ does not call super()."""

    value: float = 1.0

    def forward(self, action: Any, observation: Any) -> float:
        return self.value


USES: list[Callable[[Any], Any]] = [
    lambda node: node(ACTION, OBSERVATION),
    lambda node: node.evaluate_sync(ACTION, OBSERVATION),
    lambda node: asyncio.run(node.evaluate(ACTION, OBSERVATION)),
    lambda node: node.episode(),
    lambda node: node.session()(ACTION, OBSERVATION),
    lambda node: list(node.children()),
    lambda node: list(node.named_rubrics()),
    lambda node: node.get_rubric("x"),
    lambda node: node.register_forward_hook(print),
    lambda node: node.register_forward_pre_hook(print),
    lambda node: node.reset(),
    lambda node: node.state_dict(),
    lambda node: setattr(node, "child", Fixed()),
    lambda node: Gate(node),
    lambda node: setattr(Review(), "child", node),
    lambda node: Sequential(Gate(node))(ACTION, OBSERVATION),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [Forgets, Data])
def test_a_forgotten_super_init_is_a_clear_error(make: Callable[[], Rubric], use: Callable[[Any], Any]) -> None:
    with pytest.raises(StructureError, match=rf"{make.__name__}.*super\(\)\.__init__\(\)"):
        use(make())


def test_a_forgotten_super_init_before_the_first_child() -> None:
    with pytest.raises(StructureError, match=r"ForgetsToo.*super\(\)\.__init__\(\).*'child'"):
        ForgetsToo()
    node = Review()
    with pytest.raises(StructureError):
        node.broken = Forgets()  # type: ignore[attr-defined]
    assert names(node) == []
    assert "super().__init__()" in repr(Forgets())


def test_classes_that_cannot_be() -> None:
    with pytest.raises(TypeError, match="no forward"):
        Rubric()
    with pytest.raises(TypeError, match=r"Empty.*no forward"):
        type("Empty", (Rubric,), {})()
    with pytest.raises(StructureError, match="__call__"):
        type("Calls", (Rubric,), {"__call__": lambda self, action, observation: 1.0})


# last_score


def test_the_last_score_is_that_of_the_latest_run() -> None:
    first, second = Fixed(0.5), Fixed(0.25)
    tree = Sequential(first, Gate(second, 0.1))
    assert [node.last_score for node in (tree, first, second)] == [None, None, None]
    assert tree(ACTION, OBSERVATION) == 0.25
    assert [node.last_score for node in (tree, tree[1], first, second)] == [0.25, 0.25, 0.5, 0.25]
    first.value = 0.0
    tree(ACTION, OBSERVATION)
    assert [node.last_score for node in (tree, tree[1], first, second)] == [0.0, None, 0.0, None]  # not reached
    first.value = None
    tree.evaluate_sync(ACTION, OBSERVATION)
    assert [node.last_score for node in (tree, first)] == [None, None]
    assert second(ACTION, OBSERVATION) == 0.25
    assert [second.last_score, tree.last_score] == [0.25, None]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_last_score_is_known_of_nodes_in_other_threads(driver: str) -> None:
    plain, below, judge, skipped = Fixed(0.5), Fixed(0.25), AsyncFixed(1.0), Fixed()
    tree = Sequential(AllOf(plain, Threaded(Gate(below, 0.1)), judge), Gate(Fixed(0.0)), skipped)
    assert await outcome(tree, driver) == ("scored", 0.0)
    assert [node.last_score for node in (plain, below, judge, skipped)] == [0.5, 0.25, 1.0, None]
    assert [tree[0].last_score, tree.last_score] == [0.25, 0.0]


def test_a_failed_run_is_no_latest_run() -> None:
    first, second = Fixed(0.5), Fixed(0.25)
    tree = Sequential(first, second)
    tree(ACTION, OBSERVATION)
    first.value, second.value = 0.75, float("nan")
    with pytest.raises(InvalidScoreError):
        tree(ACTION, OBSERVATION)
    assert [tree.last_score, first.last_score] == [0.25, 0.5]


def test_the_last_score_is_that_of_the_latest_run_however_it_was_run() -> None:
    for make in (lambda: Fixed(0.25), lambda: Sequential(Fixed(0.25))):
        tree = make()
        leaf = tree if isinstance(tree, Fixed) else tree[0]
        for score in (0.25, 0.5, 0.75, 1.0):
            leaf.value = score
            if score in (0.5, 1.0):
                tree.evaluate_sync(ACTION, OBSERVATION)
            else:
                tree(ACTION, OBSERVATION)
            assert tree.last_score == leaf.last_score == score


def test_the_last_score_survives_a_change_of_the_tree() -> None:
    tree = Review(a=Fixed(0.5), b=Fixed(1.0))
    tree(ACTION, OBSERVATION)
    tree.c = Fixed(0.0)  # type: ignore[attr-defined]
    assert (tree.last_score, tree.a.last_score) == (0.75, 0.5)  # type: ignore[attr-defined]
    tree(ACTION, OBSERVATION)
    assert tree.last_score == 0.5


def test_a_leaf_keeps_no_tree_alive_that_it_was_in() -> None:
    leaf = Fixed()
    roots = []
    for _ in range(3):
        tree = Sequential(Gate(leaf), Judged())
        tree(ACTION, OBSERVATION)
        roots.append(weakref.ref(tree))
        del tree
    gc.collect()
    assert [root() for root in roots] == [None] * 3
    assert leaf(ACTION, OBSERVATION) == 1.0


# The printed tree


def test_the_printed_tree_is_the_repr() -> None:
    tree = WeightedSum(
        {"code": Gate(Sequential(Fixed(), Fixed()), 0.5), "prose": RubricDict({"style": Fixed()})},
        {"code": 0.75, "prose": 0.25},
    )
    assert repr(tree) == (
        "WeightedSum(weights=[0.75, 0.25]\n"
        "  (code): Gate(threshold=0.5\n"
        "    (rubric): Sequential(\n"
        "      (rubric_0): Fixed()\n"
        "      (rubric_1): Fixed()\n"
        "    )\n"
        "  )\n"
        "  (prose): RubricDict(\n"
        "    (style): Fixed()\n"
        "  )\n"
        ")"
    )
    assert repr(Fixed()) == "Fixed()"


def test_a_subclass_may_say_more() -> None:
    class Threshold(Fixed):
        def extra_repr(self) -> str:
            return f"value={self.value}"

    assert repr(Sequential(Threshold(0.5))) == "Sequential(\n  (rubric_0): Threshold(value=0.5)\n)"


def test_a_session_is_no_child() -> None:
    session = Sequential(Fixed()).session()
    assert isinstance(session, Session)
    with pytest.raises(StructureError):
        Gate(session)  # type: ignore[arg-type]

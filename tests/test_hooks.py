"""Hooks before and after a node: order, handles, async ones, and one that raises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rubrics import Gate, Sequential
from tests.leaves import ACTION, DRIVERS, OBSERVATION, AsyncFixed, Boom, Fixed, outcome


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
async def test_hooks_run_before_and_after(leaf: type[Fixed], driver: str) -> None:
    seen: list[Any] = []
    node = leaf(0.5)
    tree = Sequential(Gate(node, 0.1))
    for name, target in (("node", node), ("tree", tree)):
        target.register_forward_pre_hook(lambda r, a, o, name=name: seen.append((name, "before", r, a, o)))
        target.register_forward_hook(lambda r, a, o, score, name=name: seen.append((name, "after", r, score)))
    assert await outcome(tree, driver) == ("scored", 0.5)
    assert seen == [
        ("tree", "before", tree, ACTION, OBSERVATION),
        ("node", "before", node, ACTION, OBSERVATION),
        ("node", "after", node, 0.5),
        ("tree", "after", tree, 0.5),
    ]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_async_hooks_are_awaited_and_make_the_node_async(driver: str) -> None:
    seen: list[Any] = []

    async def note(*arguments: Any) -> None:
        await asyncio.sleep(0)
        seen.append(arguments[3:])

    node = Fixed(0.5)
    tree = Sequential(node)
    handles = [node.register_forward_pre_hook(note), node.register_forward_hook(note)]
    assert tree.is_async_tree
    assert await outcome(tree, driver) == ("scored", 0.5)
    assert seen == [(), (0.5,)]
    for handle in handles:
        handle.remove()
    assert not tree.is_async_tree
    assert tree(ACTION, OBSERVATION) == 0.5


def test_what_a_hook_returns_is_ignored_and_what_it_sees_is_the_score() -> None:
    seen: list[Any] = []
    for value in (0.5, None):
        node = Fixed(value)
        node.register_forward_hook(lambda r, a, o, score: seen.append(score) or 9.0)
        assert node(ACTION, OBSERVATION) == value
    assert seen == [0.5, None]


def test_hooks_run_in_the_order_in_which_they_were_added() -> None:
    seen: list[int] = []
    node = Fixed()
    for i in range(3):
        node.register_forward_hook(lambda *_, i=i: seen.append(i))
    node(ACTION, OBSERVATION)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_handle_removes_its_hook_and_no_other(register: str) -> None:
    seen: list[str] = []
    node = Fixed()
    add = getattr(node, register)
    first, second = add(lambda *_: seen.append("first")), add(lambda *_: seen.append("second"))
    second.remove()
    third = add(lambda *_: seen.append("third"))
    second.remove()  # a second time does nothing
    node(ACTION, OBSERVATION)
    assert seen == ["first", "third"]
    first.remove()
    third.remove()
    node(ACTION, OBSERVATION)
    assert seen == ["first", "third"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
async def test_a_hook_that_raises_is_named(leaf: type[Fixed], driver: str) -> None:
    def fails(*_: Any) -> None:
        raise Boom("x")

    node = leaf()
    node.register_forward_hook(fails)
    tree = Sequential({"inner": Sequential({"node": node})})
    assert await outcome(tree, driver) == ("error", Boom)
    with pytest.raises(Boom) as caught:
        await tree.evaluate(ACTION, OBSERVATION)
    assert caught.value.__notes__ == [f"in rubric inner.node ({leaf.__name__})"]


@pytest.mark.parametrize("make", [lambda node: node, lambda node: Sequential(Gate(node, 0.1), Fixed(0.5))])
def test_hooks_that_come_and_go_between_the_runs(make: Any) -> None:
    seen: list[str] = []
    node = Fixed(0.5)
    tree = make(node)
    episode = tree.episode()
    for run in (lambda: tree(ACTION, OBSERVATION), lambda: episode.step(ACTION, OBSERVATION)):
        assert run() == 0.5
        before = node.register_forward_pre_hook(lambda *_: seen.append("before"))
        after = node.register_forward_hook(lambda *_: seen.append("after"))
        assert run() == 0.5
        assert seen == ["before", "after"]
        before.remove()
        after.remove()
        assert run() == 0.5
        assert seen == ["before", "after"]
        seen.clear()


@pytest.mark.parametrize("hook", [None, "print", 3])
def test_a_hook_is_a_function(hook: Any) -> None:
    with pytest.raises(TypeError, match="hook"):
        Fixed().register_forward_hook(hook)

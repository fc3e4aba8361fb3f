"""The state of a tree: `state_dict`, copies and pickles, and a reset that reaches every node."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    Clip,
    ExponentialDiscountingTrajectoryRubric,
    Fallback,
    Gate,
    Map,
    Rubric,
    RubricDict,
    RubricError,
    RubricList,
    Scale,
    Sequential,
    StateError,
    Switch,
    Timeout,
    WeightedSum,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, Fixed, Judged, running


class WinLoss(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory: Any) -> float:
        return 1.0


def negative(score: float) -> float:
    return -score


def key(action: Any, observation: Any) -> str:
    return "a"


def tree() -> WeightedSum:
    return WeightedSum(
        {
            "checks": Sequential(Gate(Fixed(0.5), 0.25), Clip(Fixed(0.5), 0.0, 0.75)),
            "game": Scale(WinLoss(0.5, 0.125), 2.0, 1.0),
            "kind": Switch(key, {"a": Fallback(Fixed(0.5), Gate(Fixed())), "b": Map(Fixed(0.5), negative)}),
        },
        {"checks": 0.5, "game": 0.25, "kind": 0.25},
    )


STATE = {
    "weights": [0.5, 0.25, 0.25],
    "checks.rubric_0.threshold": 0.25,
    "checks.rubric_1.low": 0.0,
    "checks.rubric_1.high": 0.75,
    "game.factor": 2.0,
    "game.offset": 1.0,
    "game.rubric.intermediate_reward": 0.125,
    "game.rubric.gamma": 0.5,
    "kind.a.other.threshold": 1.0,
}


# state_dict


def test_containers_return_their_childrens_state_under_dotted_keys() -> None:
    assert tree().state_dict() == STATE
    assert Timeout(Gate(Fixed()), 3).state_dict() == {"seconds": 3.0, "rubric.threshold": 1.0}
    assert RubricList([Gate(Fixed())]).state_dict() == {"rubric_0.threshold": 1.0}
    assert RubricDict({"a": Gate(Fixed())}).state_dict() == {"a.threshold": 1.0}
    assert Fixed().state_dict() == {}


def test_what_was_loaded_counts() -> None:
    other = tree()
    new = {**STATE, "weights": [0.25, 0.5, 0.25], "checks.rubric_0.threshold": 0.9, "game.rubric.gamma": 0.0}
    other.load_state_dict(new)
    assert other.state_dict() == new
    assert other.get_rubric("game.rubric").gamma == 0.0  # type: ignore[attr-defined]
    assert other(ACTION, running()) == 0.25 * 0.0 + 0.5 * 1.25 + 0.25 * 0.5
    other.load_state_dict({"game.factor": 0.0})  # keys may be left out
    assert other.state_dict() == {**new, "game.factor": 0.0}
    other.load_state_dict({})
    assert other.state_dict() == {**new, "game.factor": 0.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nope": 1}, "nope"),
        ({"checks.nope.threshold": 1}, "nope"),
        ({"checks.rubric_0.nope": 1}, "nope"),
        ({"checks": 1}, "checks"),
        ({"threshold": 0.5}, "threshold"),
        ({"game.rubric.gamma": 7}, "gamma"),
        ({"game.rubric.gamma": "0.5"}, "gamma"),
        ({"game.rubric.intermediate_reward": float("nan")}, "intermediate_reward"),
        ({"game.factor": float("inf")}, "factor"),
        ({"game.offset": None}, "offset"),
        ({"checks.rubric_0.threshold": True}, "threshold"),
        ({"checks.rubric_1.low": 0.9}, "low"),
        ({"checks.rubric_1.low": 2.0, "checks.rubric_1.high": 1.0}, "low"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [0.5, 0.5, 0.5]}, "weights"),
        ({"weights": [float("nan"), 0.5, 0.5]}, "weight"),
        ({"weights": "abc"}, "weight"),
        ({"weights": 5}, "WeightedSum"),
    ],
)
def test_a_load_that_fails_changes_nothing(change: dict[str, Any], message: str) -> None:
    other = tree()
    before = other(ACTION, running())
    good = {
        "weights": [0.1, 0.1, 0.8],
        "checks.rubric_0.threshold": 0.9,
        "kind.a.other.threshold": 0.1,
        "game.offset": 9.0,
    }
    with pytest.raises(StateError, match=message):
        other.load_state_dict({**good, **change})
    assert other.state_dict() == STATE
    other.reset()
    assert other(ACTION, running()) == before


def test_both_ends_of_a_clip_may_move_at_once() -> None:
    clip = Clip(Fixed(5.0), 0.0, 1.0)
    clip.load_state_dict({"low": 2.0, "high": 3.0})
    assert clip(ACTION, OBSERVATION) == 3.0


class OwnState(Rubric):
    """OpenEnv's way: overrides that call super() and add an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate(Fixed(0.5), 0.25)
        self.bonus = 1.0

    def forward(self, action: Any, observation: Any) -> Any:
        return self.bonus + self.gate(action, observation)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "bonus": self.bonus}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if "bonus" in state:
            self.bonus = float(state["bonus"])


class OwnStateAlone(OwnState):
    """The same without super(): its children keep theirs."""

    def state_dict(self) -> dict[str, Any]:
        return {"bonus": self.bonus}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.bonus = float(state["bonus"])


@pytest.mark.parametrize("make", [OwnState, OwnStateAlone])
def test_overrides_of_the_state(make: Callable[[], OwnState]) -> None:
    own = {"bonus": 1.0} if make is OwnStateAlone else {"gate.threshold": 0.25, "bonus": 1.0}
    node = make()
    assert node.state_dict() == own
    node.load_state_dict({**own, "bonus": 2.0})
    assert node.state_dict() == {**own, "bonus": 2.0}
    above = Sequential({"node": make(), "gate": Gate(Fixed())})
    assert above.state_dict() == {f"node.{name}": value for name, value in own.items()} | {"gate.threshold": 1.0}
    above.load_state_dict({"node.bonus": 3.0, "gate.threshold": 0.5})
    assert (above.node.bonus, above.node.gate.threshold, above.gate.threshold) == (3.0, 0.25, 0.5)


@pytest.mark.parametrize("wrap", [lambda node: node, lambda node: Sequential({"node": node})])
def test_an_override_that_fails_changes_nothing_either(wrap: Callable[[Rubric], Rubric]) -> None:
    node = OwnState()
    above = wrap(node)
    prefix = "" if above is node else "node."
    with pytest.raises((RubricError, ValueError)):
        above.load_state_dict({f"{prefix}gate.threshold": 0.9, f"{prefix}bonus": "much"})
    assert node.state_dict() == {"gate.threshold": 0.25, "bonus": 1.0}
    with pytest.raises(StateError):
        above.load_state_dict({f"{prefix}gate.threshold": 0.9, f"{prefix}nope": 1})
    assert node.gate.threshold == 0.25


# Copies and pickles


def pickled(node: Rubric) -> Any:
    return pickle.loads(pickle.dumps(node))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_scores_the_same_and_is_a_tree_of_its_own(how: Callable[[Any], Any]) -> None:
    original = tree()
    original(ACTION, running())
    other = how(original)
    assert repr(other) == repr(original)
    assert other.state_dict() == STATE
    assert other.default_episode.steps == 0  # no running episode travels along
    assert original.default_episode.steps == 1
    original.reset()
    assert other(ACTION, running()) == original(ACTION, running())
    other.weights = [0.0, 0.0, 1.0]
    other.kind = Fixed(0.125)
    assert other(ACTION, running()) == 0.125
    assert original.weights == [0.5, 0.25, 0.25]
    assert [name for name, _ in original.named_children()] == ["checks", "game", "kind"]
    assert original(ACTION, running()) != 0.125


@pytest.mark.parametrize("how", [copy.deepcopy, pickled])
def test_a_deep_copy_shares_no_node_and_keeps_what_was_shared_within(how: Callable[[Any], Any]) -> None:
    shared = Fixed(0.5)
    original = Sequential(Gate(shared, 0.1), shared)
    other = how(original)
    assert other[0][0] is other[1]
    assert other[1] is not shared
    other(ACTION, OBSERVATION)
    assert (other[1].calls, shared.calls) == (1, 0)
    other[1].value = 0.25
    other[0].threshold = 0.4
    assert (other(ACTION, OBSERVATION), original(ACTION, OBSERVATION)) == (0.0, 0.5)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickled])
def test_a_change_below_is_seen_above_in_copies_too(how: Callable[[Any], Any]) -> None:
    other = how(Sequential(Sequential(Sequential(Fixed(0.5)))))
    assert other(ACTION, OBSERVATION) == 0.5
    other[0][0].rubric_0 = AsyncFixed(0.25)
    assert other.is_async_tree
    assert asyncio.run(other(ACTION, OBSERVATION)) == 0.25
    with pytest.raises(RubricError, match="cycle"):
        other[0][0].x = other


def test_hooks_of_a_copy_are_its_own() -> None:
    seen: list[Rubric] = []
    original = Fixed()
    handle = original.register_forward_hook(lambda node, *_: seen.append(node))
    other = copy.deepcopy(original)
    handle.remove()
    original(ACTION, OBSERVATION)
    other(ACTION, OBSERVATION)
    assert seen == [other]


def test_copies_made_while_an_episode_runs() -> None:
    original = Sequential(Judged(1.0))
    episode = original.episode()
    episode.step(ACTION, running())
    for other in (copy.deepcopy(original), pickled(original)):
        assert other.episode().steps == 0
        assert other[0].trajectory == []
    assert episode.end() == 1.0


# reset


class OwnReset(Fixed):
    """State on itself; super() forgotten."""

    resets = 0

    def reset(self) -> None:
        self.resets += 1


class GoodReset(OwnReset):
    def reset(self) -> None:
        super().reset()


class AsyncReset(Fixed):
    resets = 0

    async def reset_async(self) -> None:
        await asyncio.sleep(0)
        self.resets += 1


class ForgetfulParent(Sequential):
    """A container that overrides reset and forgets super()."""

    resets = 0

    def reset(self) -> None:
        self.resets += 1


@pytest.mark.parametrize("call", ["reset", "reset_async"])
@pytest.mark.parametrize("leaf", [OwnReset, GoodReset])
def test_reset_reaches_every_node(leaf: type[Fixed], call: str) -> None:
    shared = leaf()
    parent = ForgetfulParent(ForgetfulParent(leaf(), shared), Gate(shared))
    root = Sequential(parent, Switch(key, {"a": Fixed(), "b": leaf()}), RubricList([leaf()]))
    answer = getattr(root, call)()
    if call == "reset_async":
        asyncio.run(answer)
    assert {node.resets for node in root.rubrics() if hasattr(node, "resets") and node is not shared} == {1}
    assert shared.resets >= 1  # type: ignore[attr-defined]


def test_reset_async_awaits_overrides_below_and_forgets_nobody() -> None:
    class Forgetful(Sequential):
        async def reset_async(self) -> None:
            await asyncio.sleep(0)

    deep, own, judged = AsyncReset(), OwnReset(), Judged(1.0)
    root = Forgetful(Forgetful(deep, own), judged)
    root(ACTION, OBSERVATION)
    asyncio.run(root.reset_async())
    assert (deep.resets, own.resets, judged.trajectory) == (1, 1, [])


def test_trajectories_of_children_are_forgotten_through_any_parent() -> None:
    class Custom(Rubric):
        def __init__(self, child: Rubric) -> None:
            super().__init__()
            self.child = child

        def forward(self, action: Any, observation: Any) -> Any:
            return self.child(action, observation)

        def reset(self) -> None:  # no super()
            pass

    for make in (Gate, Custom, ForgetfulParent, lambda child: WeightedSum([child], [1.0])):
        judged = Judged(1.0)
        root = make(make(judged))
        root(ACTION, running())
        root.reset()
        assert judged.trajectory == []
        root(ACTION, running())
        assert len(judged.trajectory) == 1


async def test_resets_at_the_same_time_are_told_apart() -> None:
    shared = AsyncReset()
    await asyncio.gather(*(Sequential(shared).reset_async() for _ in range(3)))
    assert shared.resets == 3


def test_resets_in_threads_are_told_apart() -> None:
    entered, release = threading.Event(), threading.Event()

    class Slow(Fixed):
        resets = 0

        def reset(self) -> None:
            self.resets += 1
            if not entered.is_set():
                entered.set()
                release.wait(10)

    node = Slow()
    thread = threading.Thread(target=Sequential(node).reset)
    thread.start()
    assert entered.wait(10)
    Sequential(node).reset()
    release.set()
    thread.join(10)
    assert node.resets == 2


def test_a_reset_that_fails_leaves_no_trace() -> None:
    class Fails(Fixed):
        broken = True

        def reset(self) -> None:
            if self.broken:
                raise ValueError("no")

    node, own = Fails(), OwnReset()
    root = Sequential(node, own)
    with pytest.raises(ValueError, match="no"):
        root.reset()
    node.broken = False
    root.reset()
    assert own.resets == 1

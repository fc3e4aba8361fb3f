"""What happens by accident: waiting for oneself, changing a tree too late, a list where a child belongs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rubrics import (
    Container,
    EpisodeError,
    EqualSplit,
    Fallback,
    Gate,
    InvalidScoreError,
    Product,
    Rubric,
    RubricList,
    Sequential,
    StructureError,
    Switch,
    Threaded,
    Timeout,
    Unscored,
    WeightedSum,
    evaluation_of,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, Boom, Fixed, Judged, done, running


async def test_a_sync_step_does_not_wait_for_an_async_one_on_its_own_loop() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    class Waits(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            entered.set()
            await release.wait()
            return 1.0

    episode = Waits().episode()
    step = asyncio.create_task(episode.astep(ACTION, running()))
    await entered.wait()
    for call in (
        lambda: episode.step(ACTION, running()),
        episode.end,
        lambda: episode.step_unscored(ACTION, OBSERVATION),
    ):
        with pytest.raises(EpisodeError, match="await astep or aend"):
            call()
    release.set()
    assert await step == 1.0
    assert await episode.astep(ACTION, done()) == 1.0


def test_rewards_are_those_of_the_weights_that_paid() -> None:
    tree = WeightedSum({"step": Gate(Fixed(1.0)), "end": Judged(4.0, credit=EqualSplit())}, {"step": 0.2, "end": 0.8})
    episodes = [tree.episode() for _ in range(2)]
    for episode in episodes:
        for i in range(4):
            episode.step(ACTION, done() if i == 3 else running())
    before = episodes[0].rewards().values.tolist()
    tree.weights = [0.8, 0.2]
    tree.step.threshold = 100.0  # type: ignore[attr-defined]
    assert episodes[1].rewards().values.tolist() == before == pytest.approx([1.0] * 4)


def test_a_delayed_rubric_in_a_plain_list_is_no_child() -> None:
    class Slips(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.kids = [Judged(1.0)]

        def forward(self, action: Any, observation: Any) -> Any:
            return self.kids[0](action, observation)

    with pytest.raises(EpisodeError, match="make it a child"):
        Slips().episode().step(ACTION, running())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_switch_whose_key_cannot_tell_is_unscored(is_async: bool) -> None:
    def key(action: Any, observation: Any) -> str:
        raise Unscored("no kind")

    leaf: Rubric = AsyncFixed(1.0) if is_async else Fixed(1.0)
    tree = Product({"switch": Switch(key, {"a": leaf, "b": Fixed(0.5)}), "other": Fixed(1.0)})
    evaluation = tree.evaluate_sync(ACTION, OBSERVATION)
    assert [evaluation[path].status for path in ("switch", "switch.a", "switch.b")] == [
        "unscored",
        "skipped",
        "skipped",
    ]
    assert evaluation.reason == evaluation["switch"].reason == "no kind"


@pytest.mark.parametrize("tree", [WeightedSum, Sequential])
def test_a_hook_cannot_make_a_node_unscored(tree: Any) -> None:
    def hook(*_: Any) -> None:
        raise Unscored("from a hook")

    leaf = Fixed(1.0)
    leaf.register_forward_hook(hook)
    with pytest.raises(Unscored, match="from a hook"):
        (WeightedSum([leaf], [1.0]) if tree is WeightedSum else Sequential(leaf))(ACTION, OBSERVATION)
    with pytest.raises(TypeError, match="a hook is a function"):
        leaf.register_forward_hook(None)  # type: ignore[arg-type]


async def test_a_forward_that_builds_on_a_rule_has_all_of_it() -> None:
    class Hangs(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            await asyncio.sleep(60)
            return 1.0

    class Impatient(Timeout):
        async def forward(self, action: Any, observation: Any) -> Any:
            return await super().forward(action, observation)

    class Forgiving(Fallback):
        def forward(self, action: Any, observation: Any) -> Any:
            return super().forward(action, observation)

    evaluation = await Impatient(Hangs(), 0.01).evaluate(ACTION, OBSERVATION)
    assert (evaluation.status, evaluation.reason) == ("unscored", "timed out after 0.01 s")
    assert Forgiving(Fixed(Boom("x")), 0.25, on_error=True)(ACTION, OBSERVATION) == 0.25


def test_a_delayed_node_is_scored_once_whatever_it_is_called_with() -> None:
    judged = Judged(1.0)

    class Twice(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.judged = judged

        def forward(self, action: Any, observation: Any) -> Any:
            return (self.judged(action, observation) + self.judged((action, 1), observation)) / 2

    assert Twice()(ACTION, done()) == 1.0
    assert judged.scorings == 1


def test_a_child_may_be_named_observe() -> None:
    leaf = Fixed(0.5)
    calls: list[int] = []
    leaf.register_forward_hook(lambda *_: calls.append(1))
    assert WeightedSum({"observe": leaf}, {"observe": 1.0})(ACTION, OBSERVATION) == 0.5
    assert calls == [1]


def test_a_timeout_out_of_a_leaf_keeps_its_note_and_record_on_any_loop() -> None:
    tree = WeightedSum({"slow": AsyncFixed(TimeoutError("judge")), "ok": Fixed(1.0)}, {"slow": 0.5, "ok": 0.5})
    with pytest.raises(TimeoutError, match="judge") as caught:
        tree.evaluate_sync(ACTION, OBSERVATION)
    assert caught.value.__notes__ == ["in rubric slow (AsyncFixed)"]
    record = evaluation_of(caught.value)
    assert record is not None
    assert (record["ok"].status, record["slow"].status) == ("scored", "error")


def test_threads_of_a_node_are_limited() -> None:
    import threading

    busy, most, lock = 0, 0, threading.Lock()
    enough = threading.Barrier(2)

    class Blocks(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            nonlocal busy, most
            with lock:
                busy += 1
                most = max(most, busy)
            enough.wait(5)
            with lock:
                busy -= 1
            return 1.0

    tree = Threaded(Blocks(), limit=2)

    async def main() -> None:
        await asyncio.gather(*(tree(i, OBSERVATION) for i in range(6)))

    asyncio.run(main())
    assert most == 2
    with pytest.raises(StructureError, match="limit"):
        Threaded(Fixed(), limit=0)


def test_a_session_is_a_view_and_cannot_be_written_to() -> None:
    tree = WeightedSum({"gate": Gate(Fixed(1.0)), "other": Fixed(0.0)}, {"gate": 0.5, "other": 0.5})
    session = tree.session()
    with pytest.raises(AttributeError, match="set it on the tree"):
        session.weights = [0.1, 0.9]
    with pytest.raises(AttributeError, match="set it on the tree"):
        session.get_rubric("gate").threshold = 0.5


def test_a_second_init_changes_nothing() -> None:
    class Again(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.child = Fixed(0.5)
            super().__init__()

        def forward(self, action: Any, observation: Any) -> Any:
            return self.child(action, observation)

    assert [name for name, _ in Again().named_children()] == ["child"]


def test_a_list_is_filled_in_linear_time_and_names_stay_apart() -> None:
    rubrics = RubricList([Fixed() for _ in range(3000)])
    del rubrics[0]
    rubrics.append(Fixed(0.5))
    assert len(rubrics) == 3000
    assert rubrics[-1].get_rubric is not None
    assert len(dict(rubrics.named_children())) == 3000


def test_a_time_span_is_no_score() -> None:
    import numpy as np

    with pytest.raises(InvalidScoreError, match="timedelta64"):
        Fixed(np.timedelta64(5, "s"))(ACTION, OBSERVATION)


def test_a_rule_of_ones_own_keeps_pending_and_names_the_unscored() -> None:
    class Mean(Container):
        def combine(self, values: list[Any]) -> Any:
            return sum(values) / len(values)

    evaluation = Mean({"a": Fixed(1.0), "b": Judged(1.0)}).evaluate_sync(ACTION, running())
    assert (evaluation.status, evaluation.score) == ("pending", 0.5)
    with pytest.raises(TypeError) as caught:
        Mean({"a": Fixed(1.0), "b": Fixed(None)})(ACTION, OBSERVATION)
    assert any("child 'b' is unscored" in note for note in caught.value.__notes__)


def test_a_thread_that_was_timed_out_changes_no_memory() -> None:
    import threading

    entered, release, written = threading.Event(), threading.Event(), threading.Event()

    class Remembers(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            memory = self.memory
            memory["seen"] = memory.get("seen", 0) + 1
            if action == "slow":
                entered.set()
                release.wait(10)
                memory["late"] = self.memory["late"] = True
                written.set()
            return float(memory["seen"])

    node = Remembers()
    episode = Timeout(node, 0.05).episode()
    assert episode.step("quick", running()) == 1.0
    assert episode.step("slow", running()) is None
    assert entered.is_set()
    release.set()
    assert written.wait(10)
    assert episode.memory_of(node) == {"seen": 1}
    assert episode.step("quick", running()) == 2.0


def test_a_class_may_hold_an_object_that_has_every_attribute() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Proxy:
            return Proxy()

    class Asks(Rubric):
        client = Proxy()

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    assert Asks()(ACTION, OBSERVATION) == 1.0


async def test_a_node_that_hangs_at_two_places_is_reset_once() -> None:
    calls: list[str] = []

    class Base(Rubric):
        def reset(self) -> None:
            calls.append("base")

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    class Derived(Base):
        def reset(self) -> None:
            super().reset()
            calls.append("derived")

    node = Derived()
    tree = Sequential(node, Sequential(node, Gate(node)))
    tree.reset()
    assert calls == ["base", "derived"]
    await tree.reset_async()
    tree.reset()
    assert calls == ["base", "derived"] * 3


async def test_resets_on_one_loop_do_not_meet() -> None:
    calls: list[str] = []

    class Slow(Rubric):
        def __init__(self, name: str, turns: int) -> None:
            super().__init__()
            self.name, self.turns = name, turns

        async def reset_async(self) -> None:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            calls.append(self.name)

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    shared = Slow("shared", 3)
    trees = [Sequential(Slow("a", 1), shared), Sequential(Slow("b", 5), shared), Sequential(Slow("c", 2), shared)]
    await asyncio.gather(*(tree.reset_async() for tree in trees))
    assert sorted(calls) == ["a", "b", "c", "shared", "shared", "shared"]

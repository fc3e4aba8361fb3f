"""What a node can ask its episode for: the task, and a memory of its own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from rubrics import EpisodeOverError, Gate, Rubric, Sequential, Unscored, WeightedSum
from tests.leaves import ACTION, OBSERVATION, Boom, Fixed, Judged, done, running


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


class Reads(Rubric):
    """Answers the task; counts in its memory."""

    def forward(self, action: Any, observation: Any) -> float:
        self.memory["count"] = self.memory.get("count", 0) + 1
        return float(self.task)


class AsyncReads(Reads):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().forward(action, observation)


class ReadsAtTheEnd(Judged):
    def score_trajectory(self, trajectory: Any) -> float:
        return self.task * len(self.trajectory)  # type: ignore[no-any-return]


@pytest.mark.parametrize("leaf", [Reads, AsyncReads])
async def test_nodes_read_the_task_of_their_episode(leaf: type[Rubric]) -> None:
    tree = halves(leaf(), Gate(leaf(), 0.0), ReadsAtTheEnd())
    episodes = [tree.episode(task=task) for task in (0.5, 0.25)]
    assert [await episode.astep(ACTION, running()) for episode in episodes] == [1 / 3, 0.5 / 3]
    assert [await episode.astep(ACTION, done()) for episode in episodes] == [(1 + 0.5 * 2) / 3, (0.5 + 0.25 * 2) / 3]


def test_a_task_cannot_be_set_on_a_node() -> None:
    with pytest.raises(ValueError, match=r"rubric\.episode\(task"):
        Fixed().task = "x"


def test_two_nodes_have_two_memories_and_a_shared_one_has_one() -> None:
    node, other = Reads(), Reads()
    session = Sequential(node, Sequential(node), other).session()
    session.reset(task=1.0)
    for _ in range(3):
        session(ACTION, OBSERVATION)
    assert session.get_rubric("rubric_0").memory == session.get_rubric("rubric_1.rubric_0").memory == {"count": 3}
    assert session.get_rubric("rubric_2").memory == {"count": 3}


def test_memory_without_an_episode_lasts_until_reset() -> None:
    class Counts(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            self.memory["count"] = self.memory.get("count", 0) + 1
            return float(self.memory["count"])

    for tree in (Counts(), Sequential(Gate(Counts(), 0.5)), halves(Counts(), Counts())):
        assert [tree(ACTION, OBSERVATION) for _ in range(3)] == [1.0, 2.0, 3.0]
        assert tree.evaluate_sync(ACTION, OBSERVATION).score == 4.0
        tree.reset()
        assert tree.evaluate_sync(ACTION, OBSERVATION).score == 1.0
        assert tree(ACTION, OBSERVATION) == 2.0


def count(node: Rubric, action: Any) -> float:
    node.memory["count"] = node.memory.get("count", 0) + 1
    if action == "bad":
        raise Boom
    return float(node.memory["count"])


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


class Direct(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        self.memory["count"] = self.memory.get("count", 0) + 1
        if action == "bad":
            raise Boom
        return float(self.memory["count"])


class Decorated(Rubric):
    @decorated
    def forward(self, action: Any, observation: Any) -> float:
        return Direct.forward(self, action, observation)  # type: ignore[arg-type]


class DirectMixin:
    forward = Direct.forward


class FromMixin(DirectMixin, Rubric):
    pass


class ThroughProperty(Rubric):
    @property
    def kept(self) -> dict[str, Any]:
        return self.memory

    def forward(self, action: Any, observation: Any) -> float:
        self.kept["count"] = self.kept.get("count", 0) + 1
        if action == "bad":
            raise Boom
        return float(self.kept["count"])


class ThroughHelper(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return count(self, action)


class ThroughLambda(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return (lambda: count(self, action))()


SEEN = [
    Direct,
    FromMixin,
    ThroughProperty,
]  # their code says that they use memory; of the others it shows at the first step


@pytest.mark.parametrize("leaf", [*SEEN, Decorated, ThroughHelper, ThroughLambda])
@pytest.mark.parametrize("above", [lambda leaf: leaf, Sequential, lambda leaf: halves(leaf, Gate(leaf))])
def test_however_a_node_comes_to_its_memory(leaf: type[Rubric], above: Callable[[Rubric], Rubric]) -> None:
    tree = above(leaf())
    with pytest.raises(Boom):
        tree("bad", running())
    assert [tree(ACTION, running()), tree(ACTION, running()), tree(ACTION, done())] == [1.0, 2.0, 3.0]
    assert (tree.default_episode.steps, tree.default_episode.status) == (3 if leaf in SEEN else 2, "terminated")
    with pytest.raises(EpisodeOverError):
        tree(ACTION, running())
    tree.reset()
    assert tree(ACTION, running()) == 1.0


@pytest.mark.parametrize("leaf", [Direct, ThroughHelper])
def test_memory_belongs_to_the_tree_that_runs(leaf: type[Rubric]) -> None:
    node = leaf()
    one, two = Sequential(node), Sequential(node)
    assert [one(ACTION, OBSERVATION), one(ACTION, OBSERVATION)] == [1.0, 2.0]
    assert [two(ACTION, OBSERVATION), node(ACTION, OBSERVATION)] == [1.0, 1.0]
    assert [one(ACTION, OBSERVATION), two(ACTION, OBSERVATION), node(ACTION, OBSERVATION)] == [3.0, 2.0, 2.0]


@pytest.mark.parametrize("above", [lambda leaf: leaf, Sequential])
def test_a_first_step_that_is_unscored_is_remembered_like_any_other(above: Callable[[Rubric], Rubric]) -> None:
    class Counts(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            seen = count(self, action)  # by a helper, so that it shows only now that the node keeps memory
            if action == "unclear":
                raise Unscored("cannot tell")
            return seen

    tree = above(Counts())
    assert tree("unclear", OBSERVATION) is None
    assert tree(ACTION, OBSERVATION) == 2.0

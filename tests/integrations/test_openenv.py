"""Many sessions of OpenEnv's own server over one tree, wired in each way, and played by its own clients."""

import asyncio
import sys
from typing import Any

import pytest

pytest.importorskip("openenv")

from openenv.core import Environment, GenericEnvClient

from rubrics import (
    Rubric,
    TrajectoryRubric,
)
from rubrics.integrations.openenv import RubricEnvironment
from tests.integrations.board import (
    SESSIONS,
    BlockingWired,
    Blocks,
    Board,
    Move,
    MoveClient,
    Named,
    RubricWired,
    RubricWiredAsync,
    Seen,
    SessionWired,
    Sleeps,
    ToldEnv,
    expected,
    numbers_of,
    serving,
)

WIRINGS = [SessionWired, BlockingWired, RubricWired, RubricWiredAsync]


@pytest.mark.parametrize("wired", WIRINGS, ids=lambda wired: wired.__name__)
async def test_sessions_at_once_do_not_see_each_other(wired: Any) -> None:
    async def play(session: int) -> None:
        async with GenericEnvClient(base_url=url) as client:
            for episode in range(2):
                started = await client.reset()
                assert started.reward is None
                assert not started.done
                numbers = numbers_of(session, episode)
                rewards, credit, last = expected(numbers)
                for t, number in enumerate(numbers):
                    result = await client.step({"number": number, "last": t == len(numbers) - 1})
                    assert result.reward == pytest.approx(rewards[t])
                assert result.done
                assert (await client.state())["scores"] == pytest.approx(last)
                if issubclass(wired, RubricEnvironment):
                    given = result.metadata["rubric"]["step_rewards"]
                    assert given["emitted"] == pytest.approx(rewards)
                    paid = [r - 0.7 * last["whole"] * (t == len(numbers) - 1) for t, r in enumerate(rewards)]
                    assert given["values"] == pytest.approx([p + 0.7 * c for p, c in zip(paid, credit, strict=True)])
                    assert (given["kind"], given["reduction"]) == ("credit", "sum")
                else:
                    assert result.metadata["credit"] == pytest.approx(credit)

    with serving(wired, SESSIONS) as url:
        await asyncio.gather(*(play(session) for session in range(SESSIONS)))


@pytest.mark.parametrize("wired", WIRINGS, ids=lambda wired: wired.__name__)
def test_a_typed_client_in_sync_code(wired: Any) -> None:
    numbers = [4, 9, 2]
    rewards, _, last = expected(numbers)
    with serving(wired) as url, MoveClient(base_url=url).sync() as client:
        client.reset()
        client.step(Move(number=5))
        client.reset()  # in the middle of an episode: the next one starts afresh
        results = [client.step(Move(number=n, last=n == 2)) for n in numbers]
        assert [result.reward for result in results] == pytest.approx(rewards)
        assert results[-1].observation.reward == results[-1].reward
        assert client.state().scores == pytest.approx(last)


@pytest.mark.parametrize("leaf", [Sleeps, Blocks])
async def test_a_sync_step_holds_up_its_own_session_only(leaf: type[Rubric]) -> None:
    class Slow(ToldEnv):
        rubric = leaf()

    with serving(Slow, 2) as url:
        async with GenericEnvClient(base_url=url) as slow, GenericEnvClient(base_url=url) as quick:
            await slow.reset()
            await quick.reset()
            waiting = asyncio.create_task(slow.step({"wait": 1.0}))
            await asyncio.sleep(0.05)
            for _ in range(5):
                assert (await quick.step({})).reward == 1.0
            assert not waiting.done()
            assert (await waiting).reward == 1.0


class Winner(TrajectoryRubric):
    """As it is written for openenv.core.rubrics."""

    def score_trajectory(self, trajectory):
        _, last = trajectory[-1]
        return float(last.number == 3)

    def compute_step_rewards(self):
        score = self.score_trajectory(self._trajectory)
        return [score / len(self._trajectory)] * len(self._trajectory)


class NewMoves(Rubric):
    """Keeps state on itself, clears it in reset and forgets super()."""

    def __init__(self):
        super().__init__()
        self.winner = Winner()
        self.known = set()

    def forward(self, action, observation):
        new = action.number not in self.known
        self.known.add(action.number)
        return 0.1 * new + self.winner(action, observation)

    def reset(self):
        self.known = set()


class Habitual(Board, Environment[Move, Seen, Named]):
    tree = None

    def __init__(self):
        super().__init__(rubric=NewMoves() if self.tree is None else self.tree.session())

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._reset_rubric()
        return self.begin()

    def step(self, action, timeout_s=None, **kwargs):
        seen = self.play(action)
        seen.reward = self._apply_rubric(action, seen)
        if seen.done:
            winner = self.rubric.get_rubric("winner")
            seen.metadata = {"credit": winner.compute_step_rewards(), "steps": len(winner.trajectory)}
        return seen


def test_habits_of_openenv() -> None:
    with serving(Habitual, 2) as url, GenericEnvClient(base_url=url).sync() as client:
        other = client.new_session()  # a tree each, as OpenEnv has it
        other.reset()
        for _ in range(2):
            client.reset()
            other.step({"number": 3})
            rewards = [client.step({"number": n, "last": n == 3}) for n in (1, 1, 3)]
            assert [r.reward for r in rewards] == pytest.approx([0.1, 0.0, 1.1])
            assert rewards[-1].metadata == {"credit": pytest.approx([1 / 3] * 3), "steps": 3}


def test_a_tree_that_keeps_state_on_itself_serves_one_episode_at_a_time() -> None:
    class Shared(Habitual):
        tree = NewMoves()

    with serving(Shared, 2) as url, GenericEnvClient(base_url=url).sync() as client:
        client.reset()
        client.step({"number": 1})
        other = client.new_session()
        with pytest.raises(RuntimeError, match=r"NewMoves keeps state on itself .* copy the tree for each episode"):
            other.reset()
        assert client.step({"number": 3, "last": True}).reward == pytest.approx(1.1)
        other.reset()
        assert other.step({"number": 3, "last": True}).reward == pytest.approx(1.1)


def test_without_the_extra_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openenv.core.env_server.interfaces", None)
    monkeypatch.delitem(sys.modules, "rubrics.integrations.openenv")
    with pytest.raises(ImportError, match=r"pip install 'rubrics\[openenv\]'"):
        import rubrics.integrations.openenv  # noqa: F401

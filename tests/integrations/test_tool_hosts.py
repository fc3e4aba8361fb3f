"""OpenReward and the Open Reward Standard, end to end: the real servers and clients, and each with the other's."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openreward")
pytest.importorskip("ors")

from tests.integrations.quiz import HOSTS, TASKS, client, make_quiz, serving

# The OpenReward client leaves a coroutine behind where it refuses a call of a session that is dead.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine 'resumable_sse' was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*resumable_sse:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collects that coroutine here, where the warning is expected."""
    yield
    gc.collect()


PAIRS = [(host, package) for host in HOSTS for package in HOSTS]


async def play(session: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    return [await session.call_tool(name, input) for name, input in calls]


@pytest.mark.parametrize(("host", "package"), PAIRS)
async def test_rewards_components_and_delayed_rewards_arrive(host: str, package: str) -> None:
    with serving(host, make_quiz(host)) as url:
        async with client(package, url) as environment:
            task = (await environment.list_tasks(split="train"))[3]
            async with environment.session(task=task) as session:
                assert [block.text for block in await session.get_prompt()] == ["3 + 3?"]
                draft, submit = await play(session, ("draft", {"text": "six"}), ("submit", {"text": "6"}))
    assert (draft.reward, draft.finished) == (0.125, False)
    assert draft.metadata == {
        "length": 3,
        "rubric": {"status": "pending", "scores": {"polite": 0.5, "right": 0.0, "calls": 0.0}, "step": 0},
    }
    assert (submit.reward, submit.finished) == (0.625, True)
    report = submit.metadata["rubric"]
    assert report["scores"] == {"polite": 0.5, "right": 1.0, "calls": 0.0}
    assert report["step_rewards"] == {
        "values": [0.375, 0.375],  # the half that `right` earned is split
        "emitted": [0.125, 0.625],
        "total": 0.75,
        "kind": "reward",
        "reduction": "sum",
    }


@pytest.mark.parametrize(("host", "package"), PAIRS)
async def test_nothing_is_paid_after_the_end(host: str, package: str) -> None:
    made: list[Any] = []

    class Counted(make_quiz(host)):
        def __init__(self, task_spec: Any = None, secrets: Any = None) -> None:
            super().__init__(task_spec, secrets)
            made.append(self)

        @classmethod
        def name(cls) -> str:
            return "Quiz"

    with serving(host, Counted) as url:
        async with client(package, url) as environment, environment.session(split="train", index=1) as session:
            [first] = await play(session, ("submit", {"text": "2"}))
            for name in ("submit", "draft", "look"):
                with pytest.raises(Exception, match="episode has finished"):
                    await session.call_tool(name, {} if name == "look" else {"text": "2"})
    assert first.reward == 0.625
    assert made[-1].submitted == 1, "the tool was not run again"


@pytest.mark.parametrize(("host", "package"), PAIRS)
async def test_tasks_come_by_list_range_split_and_index(host: str, package: str) -> None:
    with serving(host, make_quiz(host)) as url:
        async with client(package, url) as environment:
            assert [task.task_spec for task in await environment.list_tasks(split="train")] == TASKS
            ranges = [(None, None), (2, None), (None, 3), (-2, None), (None, -4), (-3, -1), (4, 99)]
            if (host, package) == ("ors", "openreward"):  # this client wants a name in the answer that the other lacks
                with pytest.raises(KeyError, match="env_name"):
                    await environment.get_task_range("train", 0, 1)
                ranges = []
            for start, stop in ranges:
                found = await environment.get_task_range("train", start, stop)
                assert [task.task_spec for task in found] == TASKS[start:stop]
            for index in (0, 5):
                async with environment.session(split="train", index=index) as session:
                    [output] = await play(session, ("submit", {"text": TASKS[index]["answer"]}))
                    assert output.metadata["rubric"]["scores"]["right"] == 1.0, "the rubric knows the task"


@pytest.mark.parametrize(("host", "package"), PAIRS)
async def test_many_sessions_at_once_keep_to_themselves(host: str, package: str) -> None:
    """As in the guide to the async client: a coroutine a task, all gathered."""

    async def run(environment: Any, task: Any, drafts: int) -> float:
        async with environment.session(task=task) as session:
            outputs = await play(
                session,
                *[("draft", {"text": "…"})] * drafts,
                ("submit", {"text": task.task_spec["answer"] if drafts % 2 else "no"}),
            )
            return sum(output.reward for output in outputs)

    with serving(host, make_quiz(host)) as url:
        async with client(package, url) as environment:
            tasks = await environment.list_tasks(split="train")
            rewards = await asyncio.gather(*[run(environment, tasks[n % 6], n % 5) for n in range(24)])
    assert rewards == [0.125 * (n % 5 + 1) + 0.5 * (n % 5 % 2) for n in range(24)]


@pytest.mark.parametrize("host", HOSTS)
def test_the_sync_clients(host: str) -> None:
    from openreward import OpenReward
    from ors.client import ORS

    with serving(host, make_quiz(host)) as url:
        with OpenReward() as api:
            environment = api.environments.get("quiz", base_url=url)
            with environment.session(task=environment.list_tasks(split="train")[2]) as session:
                assert session.get_prompt()[0].text == "2 + 2?"
                assert session.call_tool("submit", {"text": "4"}).reward == 0.625
        api = ORS(base_url=url)
        environment = api.environment("quiz")
        with environment.session(split="test", index=1) as session:
            assert session.call_tool("submit", {"text": "2"}).reward == 0.625
        environment._loop.run_until_complete(environment._async.client.close())


@pytest.mark.parametrize("host", HOSTS)
async def test_a_step_without_a_reward_in_the_middle_reaches_the_agent(host: str) -> None:
    with serving(host, make_quiz(host)) as url:
        async with client(host, url) as environment, environment.session(split="train", index=2) as session:
            outputs = await play(
                session,
                ("draft", {"text": "a", "say": "unknown"}),
                ("draft", {"text": "b", "say": "boom"}),
                ("draft", {"text": "c"}),
            )
    assert [output.reward for output in outputs] == [None, None, 0.125]
    unscored, failed, _ = [output.metadata["rubric"] for output in outputs]
    assert (unscored["status"], unscored["reason"]) == ("unscored", "polite is unscored")
    assert (failed["status"], failed["reason"]) == ("error", "polite: ValueError"), "and not the gold answer"
    assert outputs[1].blocks[0].text == "a draft"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("say", ["boom", "unknown"])
async def test_the_last_step_raises_where_it_has_no_reward(host: str, say: str) -> None:
    with serving(host, make_quiz(host)) as url:
        async with client(host, url) as environment, environment.session(split="train", index=2) as session:
            with pytest.raises(Exception, match=r"polite(: ValueError: the gold| is unscored: who can)"):
                await session.call_tool("submit", {"text": "4", "say": say})
            with pytest.raises(Exception, match=r"finished|terminated"):  # openreward's session is dead
                await session.call_tool("submit", {"text": "4"})


@pytest.mark.parametrize("host", HOSTS)
async def test_a_final_error_can_be_a_null(host: str) -> None:
    with serving(host, make_quiz(host, on_final_error="null", expose="full")) as url:
        async with client(host, url) as environment, environment.session(split="train", index=2) as session:
            output = await session.call_tool("submit", {"text": "4", "say": "boom"})
    assert (output.reward, output.finished) == (None, True)
    assert output.metadata["rubric"]["reason"] == "polite: ValueError: the gold answer is 42"
    assert output.metadata["rubric"]["evaluation"]["kind"] == "WeightedSum"


@pytest.mark.parametrize("host", HOSTS)
async def test_an_error_in_the_middle_can_raise(host: str) -> None:
    with serving(host, make_quiz(host, on_error="raise")) as url:
        async with client(host, url) as environment, environment.session(split="train", index=2) as session:
            with pytest.raises(Exception, match="polite: ValueError"):
                await session.call_tool("draft", {"text": "4", "say": "boom"})


@pytest.mark.parametrize("host", HOSTS)
async def test_what_the_host_refuses_is_no_step(host: str) -> None:
    with serving(host, make_quiz(host)) as url:
        async with client(host, url) as environment, environment.session(split="train", index=0) as session:
            with pytest.raises(Exception, match="validation"):
                await session.call_tool("submit", {"txt": "4"})
            with pytest.raises(Exception, match="not a valid tool"):
                await session.call_tool("submitt", {"text": "4"})
            output = await session.call_tool("submit", {"text": "0"})
    assert output.metadata["rubric"]["step_rewards"]["emitted"] == [0.625]

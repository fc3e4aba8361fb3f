"""An agent plays the tasks of an environment; what it was paid online is what its recording is paid offline."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")
pytest.importorskip("openreward")
pytest.importorskip("ors")

from openenv.core import GenericEnvClient
from openreward.environments import terminal
from pydantic import BaseModel

from rubrics import RubricError
from rubrics.formats import read
from rubrics.hosting.collecting import Play, PlayTask, collect
from rubrics.integrations import openenv, openreward, ors
from rubrics.rescoring import rescore, rescore_async
from tests.integrations import board, quiz
from tests.integrations.quiz import HOSTS, TASKS, client, make_quiz

PAIRS = [(host, package) for host in HOSTS for package in HOSTS]


async def quizzed(play: Any) -> None:
    """Different for every task: some draft, some look, some are right, one is cut short."""
    number = int(play.task["question"].split()[0])
    assert (await play.get_prompt())[0].text == play.task["question"]
    for _ in range(number % 3):
        await play.call_tool("draft", {"text": "graded" if number % 2 else "a draft"})
    if number % 2:
        await play.call_tool("look")
    if number != 5:
        await play.call_tool("submit", {"text": str(2 * number if number < 3 else 0)})


def tasks_of(package: str) -> Any:
    return {"openreward": openreward, "ors": ors}[package].tasks


@pytest.mark.parametrize(("host", "package"), PAIRS)
async def test_online_and_offline_numbers_are_equal(host: str, package: str, tmp_path: Path) -> None:
    server, driver = tmp_path / "server.jsonl", tmp_path / "driver.jsonl"
    with quiz.serving(host, make_quiz(host, record_to=server)) as url:
        async with client(package, url) as environment:
            collected = await collect(quizzed, tasks_of(package)(environment, "train"), driver, concurrency=4)
    assert len(collected.rewards) == 6 and not collected.errors
    ours, theirs = list(read([driver])), list(read([server]))
    assert {t.task["question"]: t.reward for t in ours} == {t.task["question"]: t.reward for t in theirs}
    assert {t.id: t.reward for t in ours} == collected.rewards
    by_question = {t.task["question"]: t for t in theirs}
    for trajectory, row in zip(ours, rescore(ours, quiz.make_tree()), strict=True):
        twin = by_question[trajectory.task["question"]]
        assert trajectory.initial == twin.initial
        assert [step.action for step in trajectory.steps] == [step.action for step in twin.steps]
        assert [step.observation for step in trajectory.steps] == [step.observation for step in twin.steps]
        assert [step.reward for step in trajectory.steps] == [step.reward for step in twin.steps]
        assert row.reward == trajectory.reward
        assert trajectory.end == ("abandoned" if trajectory.task["question"] == "5 + 5?" else "terminated")
        if trajectory.reward is not None:
            reported = trajectory.steps[-1].metadata["rubric"]
            assert row.step_rewards == reported["step_rewards"]
            assert {path: score for path, score in row.evaluation.flatten().items() if path} == reported["scores"]


@pytest.mark.parametrize("expose", ["scores", "none"])
@pytest.mark.parametrize("host", HOSTS)
async def test_calls_at_once_are_recorded_in_the_order_of_the_environment(
    host: str, expose: str, tmp_path: Path
) -> None:
    """The answer of the first call is the last to arrive, and the end the first."""
    names = quiz.package(host)
    server = tmp_path / "server.jsonl"

    class Quiz(make_quiz(host, record_to=server, expose=expose)):
        @names.tool
        async def leave(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    class Late:
        """A session whose answers arrive when the one that ends it has."""

        def __init__(self, session: Any) -> None:
            self.session = session
            self.answered, self.ended = asyncio.Event(), asyncio.Event()

        async def call_tool(self, name: str, input: Any) -> Any:
            output = await self.session.call_tool(name, input)
            self.answered.set()
            if output.finished:
                self.ended.set()
            else:
                await self.ended.wait()
                await asyncio.sleep(0)  # the end is recorded first
            return output

    async def agent(play: Any) -> None:
        late = play.session = Late(play.session)
        first = asyncio.create_task(play.call_tool("draft", {"text": "graded"}))
        await late.answered.wait()
        await play.call_tool("leave")
        await first

    with quiz.serving(host, Quiz) as url:
        async with client(host, url) as environment:
            tasks = tasks_of(host)(environment, "train", 0, 1, reduction="sum")
            await collect(agent, tasks, tmp_path / "driver.jsonl")
    [ours], [theirs] = read([tmp_path / "driver.jsonl"]), read([server])
    assert [step.action.name for step in ours.steps] == ["draft", "leave"] == [s.action.name for s in theirs.steps]
    assert (ours.end, ours.reward) == ("terminated", theirs.reward)


async def moved(play: Any) -> None:
    for number in play.task["numbers"]:
        result = await play.step({"number": number, "last": number == play.task["numbers"][-1]})
        assert result.observation["number"] == number


async def test_the_same_over_openenv(tmp_path: Path) -> None:
    class Recorded(board.RubricWired):
        record_to = tmp_path / "server.jsonl"

    resets = [{"task": {"numbers": board.numbers_of(n, 0)}} for n in range(6)]
    driver = tmp_path / "driver.jsonl"
    with board.serving(Recorded, 8) as url:
        tasks = openenv.tasks(lambda: GenericEnvClient(base_url=url), resets)
        collected = await collect(moved, tasks, driver, concurrency=4)
    assert len(collected.rewards) == 6 and None not in collected.rewards.values()
    ours = list(read([driver]))
    theirs = {json.dumps(t.task): t for t in read([tmp_path / "server.jsonl"])}
    rows = [row async for row in rescore_async(ours, board.make_tree())]
    for trajectory, row in zip(ours, rows, strict=True):
        twin = theirs[json.dumps(trajectory.task)]
        assert row.reward == trajectory.reward == twin.reward
        assert row.step_rewards == trajectory.steps[-1].metadata["rubric"]["step_rewards"]
        assert [step.observation for step in trajectory.steps] == [step.observation for step in twin.steps]
        assert trajectory.initial == twin.initial


class Counting:
    """Tasks without a host: numbers, of which the agent below fails some."""

    host, name = "none", "counting"

    def __init__(self, count: int) -> None:
        self.count = count
        self.open = self.most = 0

    async def tasks(self) -> Any:
        for number in range(self.count):
            yield openreward_task(self, number)


def openreward_task(tasks: Counting, number: int) -> Any:
    @contextlib.asynccontextmanager
    async def opened() -> Any:
        tasks.open += 1
        tasks.most = max(tasks.most, tasks.open)
        try:
            yield Play(None, number, None, "sum")
        finally:
            tasks.open -= 1

    def start() -> AbstractContextManager[Any]:
        return opened()

    return PlayTask(number, start)


def counter(fails: Callable[[int], bool] = lambda number: False, played: list[int] | None = None) -> Any:
    async def agent(play: Any) -> None:
        await asyncio.sleep(0.001)
        if played is not None:
            played.append(play.task)
        play.record("first", {"n": play.task}, 0.25, None)
        if fails(play.task):
            raise RuntimeError(f"no {play.task}")
        play.record("last", {"n": play.task, "done": True}, 0.5, None)

    return agent


async def test_concurrency_is_bounded_and_all_is_written(tmp_path: Path) -> None:
    tasks = Counting(40)
    collected = await collect(counter(), tasks, tmp_path / "a.jsonl", concurrency=5, repeats=2)
    assert tasks.most == 5
    assert len(collected.rewards) == 80 and set(collected.rewards.values()) == {0.75}
    groups: dict[str, int] = {}
    for trajectory in read([tmp_path / "a.jsonl"]):
        groups[trajectory.metadata["group"]] = groups.get(trajectory.metadata["group"], 0) + 1
    assert len(groups) == 40 and set(groups.values()) == {2}
    assert str(collected) == f"80 episodes, 80 with a reward (mean 0.750): {tmp_path / 'a.jsonl'}"


async def test_a_failing_agent_fails_its_episode_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.jsonl"
    collected = await collect(counter(lambda n: n % 3 == 0), Counting(9), path)
    assert sorted(collected.errors.values()) == ["RuntimeError: no 0", "RuntimeError: no 3", "RuntimeError: no 6"]
    by_task = {trajectory.task: trajectory for trajectory in read([path])}
    assert len(by_task) == 9
    assert (by_task[3].end, by_task[3].reward, len(by_task[3].steps)) == ("error", None, 1)
    assert by_task[3].metadata["error"] == "RuntimeError: no 3"
    assert (by_task[4].end, by_task[4].reward) == ("terminated", 0.75)


async def test_an_error_can_stop_it_all_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(RuntimeError, match="no 4"):
        await collect(counter(lambda n: n == 4), Counting(20), path, concurrency=3, on_error="raise")
    before = {trajectory.task: trajectory.end for trajectory in read([path])}
    assert 5 <= len(before) < 20 and before[4] == "error"
    played: list[int] = []
    collected = await collect(counter(played=played), Counting(20), path, resume=True, retry_errors=True)
    failed = {task for task, end in before.items() if end != "terminated"}
    assert set(played) == set(range(20)) - set(before) | failed and len(played) == len(set(played))
    assert collected.skipped == len(before) - len(failed)
    assert sorted(trajectory.task for trajectory in read([path])) == list(range(20))
    assert {trajectory.end for trajectory in read([path])} == {"terminated"}


async def test_resuming_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    await collect(counter(), Counting(5), path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])  # killed in the middle of a line
    with pytest.raises(FileExistsError, match="resume=True"):
        await collect(counter(), Counting(5), path)
    played: list[int] = []
    collected = await collect(counter(played=played), Counting(5), path, resume=True)
    assert collected.skipped == 3 and len(played) == 2
    assert sorted(trajectory.task for trajectory in read([path])) == list(range(5))
    assert (await collect(counter(), Counting(5), path, resume=True)).skipped == 5


async def test_an_agent_whose_own_task_was_cancelled_fails_its_episode_only(tmp_path: Path) -> None:
    async def agent(play: Any) -> None:
        own = asyncio.create_task(asyncio.sleep(60))
        own.cancel()
        await own

    collected = await collect(agent, Counting(9), tmp_path / "a.jsonl", concurrency=2)
    assert len(collected.errors) == 9 and {item.end for item in read([tmp_path / "a.jsonl"])} == {"error"}


async def test_an_agent_that_cancels_the_task_it_runs_in(tmp_path: Path) -> None:
    async def agent(play: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    with pytest.raises(RubricError, match="cancelled the task that it runs in"):
        await collect(agent, Counting(9), tmp_path / "a.jsonl", concurrency=2)


async def test_what_json_cannot_hold_fails_its_episode_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def agent(play: Any) -> None:
        play.record(object() if play.task == 2 else {"half": "\ud83d"}, {"done": True}, 1.0, None)
        if play.task == 1:
            play.steps[0].reward = float("nan")

    collected = await collect(agent, Counting(4), path, concurrency=1)
    assert list(collected.rewards.values()) == [1.0, None, None, 1.0] and collected.mean_reward == 1.0
    [error] = collected.errors.values()
    assert "steps.0.action cannot be written as JSON" in error
    by_task = {trajectory.task: trajectory for trajectory in read([path])}
    assert (by_task[2].end, by_task[2].steps, by_task[2].metadata["error"]) == ("error", [], error)
    assert by_task[3].steps[0].action.half == "\ud83d"


async def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    await collect(counter(), Counting(2), path)
    path.write_bytes(path.read_bytes()[:-1])
    assert (await collect(counter(), Counting(3), path, resume=True)).skipped == 2
    assert sorted(trajectory.task for trajectory in read([path])) == [0, 1, 2]


async def test_another_agent_takes_no_episodes_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    await collect(counter(), Counting(3), path, name="step-100")
    collected = await collect(counter(), Counting(3), path, name="step-200", resume=True)
    assert collected.skipped == 0 and len(collected.rewards) == 3
    assert {trajectory.metadata["agent"] for trajectory in read([path])} == {"step-100", "step-200"}


async def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"what": "else"}\n{"id": "x"}\n')
    with pytest.raises(RubricError, match=r"a\.jsonl:1 is no trajectory of ours"):
        await collect(counter(), Counting(3), path, resume=True)
    assert path.read_text() == '{"what": "else"}\n{"id": "x"}\n'


async def test_a_cancelled_collection_writes_what_was_under_way(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def slow(play: Any) -> None:
        play.record("first", {"n": play.task}, 0.25, None)
        await asyncio.sleep(60)

    task = asyncio.create_task(collect(slow, Counting(9), path, concurrency=3))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(item.end, item.reward) for item in read([path])] == [("abandoned", None)] * 3
    collected = await collect(counter(), Counting(9), path, resume=True)
    assert collected.skipped == 0 and len(collected.rewards) == 9, "what was under way is played again"
    assert {item.end for item in read([path])} == {"terminated"}


async def test_tasks_that_cannot_be_listed(tmp_path: Path) -> None:
    with quiz.serving("openreward", make_quiz("openreward")) as url:
        async with client("openreward", url) as environment:
            with pytest.raises(Exception, match="Invalid split"):
                await collect(quizzed, openreward.tasks(environment, "nope"), tmp_path / "a.jsonl")


async def test_a_cancellation_that_a_client_swallows_stops_the_collection_too(tmp_path: Path) -> None:
    played: list[int] = []

    async def agent(play: Any) -> None:
        played.append(play.task)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)

    task = asyncio.create_task(collect(agent, Counting(9), tmp_path / "a.jsonl", concurrency=3))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(played) == 3


async def test_a_collection_that_is_cancelled_while_sessions_open(tmp_path: Path) -> None:
    class Opening(Counting):
        async def tasks(self) -> Any:
            async for task in super().tasks():
                yield PlayTask(task.content, contextlib.asynccontextmanager(self.opened))

        async def opened(self) -> Any:
            await asyncio.sleep(60)
            yield

    task = asyncio.create_task(collect(counter(), Opening(9), tmp_path / "a.jsonl", concurrency=3))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(item.end, item.steps) for item in read([tmp_path / "a.jsonl"])] == [("abandoned", [])] * 3


async def test_an_agent_that_is_cut_off(tmp_path: Path) -> None:
    async def cut(play: Any) -> None:
        play.record("only", {"n": 1}, 0.25, None)
        play.truncate()

    await collect(cut, Counting(1), tmp_path / "a.jsonl")
    [trajectory] = read([tmp_path / "a.jsonl"])
    assert (trajectory.end, trajectory.reward) == ("truncated", None), "nobody paid it; offline it can be scored"


async def test_an_environment_that_does_not_say_how_it_reduces(tmp_path: Path) -> None:
    with quiz.serving("openreward", make_quiz("openreward", expose="none")) as url:
        async with client("openreward", url) as environment:
            for reduction, expected in ((None, None), ("sum", 0.75), ("last", 0.625)):
                path = tmp_path / f"{reduction}.jsonl"

                async def agent(play: Any) -> None:
                    await play.call_tool("draft", {"text": "x"})
                    await play.call_tool("submit", {"text": "2"})

                tasks = openreward.tasks(environment, "train", 1, 2, reduction=reduction)
                [reward] = (await collect(agent, tasks, path)).rewards.values()
                assert reward == expected


async def test_an_agent_whose_last_message_ends_it(tmp_path: Path) -> None:
    names = quiz.package("openreward")

    class Message(BaseModel):
        text: str

    class Said(make_quiz("openreward")):
        @classmethod
        def name(cls) -> str:
            return "Quiz"

        @terminal
        @names.tool
        async def answer(self, args: Message) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    async def agent(play: Any) -> None:
        output = await play.call_terminal_tool("4")
        assert output.finished and play.over

    with quiz.serving("openreward", Said) as url:
        async with client("openreward", url) as environment:
            collected = await collect(agent, openreward.tasks(environment, "train", 2, 3), tmp_path / "a.jsonl")
    assert list(collected.rewards.values()) == [0.625]
    [trajectory] = read([tmp_path / "a.jsonl"])
    assert trajectory.steps[0].action == {"name": "answer", "input": {"text": "4"}}


@pytest.mark.parametrize("host", HOSTS)
async def test_an_environment_without_a_terminal_tool(host: str, tmp_path: Path) -> None:
    async def agent(play: Any) -> None:
        await play.call_terminal_tool("4")

    with quiz.serving(host, make_quiz(host)) as url:
        async with client(host, url) as environment:
            collected = await collect(agent, tasks_of(host)(environment, "train", 2, 3), tmp_path / "a.jsonl")
    assert list(collected.errors.values()) == ["RubricError: the environment has no terminal tool"]


async def test_what_the_environment_refuses_is_no_step_and_a_failed_tool_ends_it(tmp_path: Path) -> None:
    async def agent(play: Any) -> None:
        with pytest.raises(Exception, match="validation"):
            await play.call_tool("draft", {"txt": "x"})
        assert [tool.name for tool in await play.list_tools()] == ["draft", "look", "submit"], "the session's own"
        await play.call_tool("draft", {"text": "x"})
        await play.call_tool("submit", {"text": "2", "say": "boom"})

    with quiz.serving("openreward", make_quiz("openreward")) as url:
        async with client("openreward", url) as environment:
            given = (await environment.list_tasks("train"))[1:2]
            collected = await collect(agent, openreward.tasks(environment, tasks=given), tmp_path / "a.jsonl")
    [error] = collected.errors.values()
    assert "polite: ValueError" in error
    [trajectory] = read([tmp_path / "a.jsonl"])
    assert (trajectory.end, len(trajectory.steps), trajectory.task) == ("error", 1, TASKS[1])


async def test_mistakes(tmp_path: Path) -> None:
    def plain(play: Any) -> None: ...

    with pytest.raises(TypeError, match="must be an async function"):
        await collect(plain, Counting(1), tmp_path / "a.jsonl")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        await collect(counter(), Counting(1), tmp_path / "a.jsonl", concurrency=0)
    with pytest.raises(ValueError, match="either a split or tasks"):
        openreward.tasks(None)

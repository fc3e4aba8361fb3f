"""What authors of tool environments may do: kinds of tools, forgotten calls, overlapping calls, mistakes."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openreward")
pytest.importorskip("ors")

from openreward.environments import terminal
from openreward.environments.session import call_session_tool
from openreward.environments.toolset import Toolset

from rubrics import Rubric, RubricError, Sequential, TrajectoryRubric, WeightedSum, current_episode
from rubrics.formats import read
from rubrics.rescoring import rescore_one
from tests.integrations.quiz import HOSTS, TASKS, Answer, base, call, make_quiz, make_tree, package

pytestmark = pytest.mark.parametrize("host", HOSTS)


class Counts(TrajectoryRubric):
    """The number of calls seen."""

    range = (0.0, 100.0)

    def score_trajectory(self, trajectory):
        return len(trajectory)


async def called(environment: Any, name: str, **input: Any) -> Any:
    root = (await environment._call_tool(name, input)).root
    assert root.ok, root.error
    return root.output


def test_an_environment_has_its_own_view_of_the_tree(host: str) -> None:
    Quiz = make_quiz(host)
    one, two = Quiz(task_spec=TASKS[1], secrets={}), Quiz(task_spec=TASKS[2])
    call(one, "draft", text="graded")
    assert one.rubric.get_rubric("polite").last_score == 0.75
    assert two.rubric.get_rubric("polite").last_score is None
    assert isinstance(Quiz.rubric, WeightedSum)


def test_the_action_the_observation_the_task_and_the_prompt(host: str) -> None:
    seen: list[Any] = []

    class Sees(Rubric):
        def forward(self, action, observation):
            episode = current_episode()
            seen.append((action, observation, self.task, None if episode is None else episode.initial))
            return 1.0

    class WithState(Sequential):
        """Keeps state, so that it runs in an episode."""

    environment = make_quiz(host, rubric=WithState(Sees(), Counts()))(task_spec=TASKS[3])
    call(environment, "draft", text="a", say="ok")
    action, observation, task, initial = seen[0]
    assert (action.name, action.input, type(action).__name__) == ("draft", {"text": "a", "say": "ok"}, "ToolCall")
    assert observation.blocks[0].text == "a draft" and observation.reward is None and observation.finished is False
    assert task == TASKS[3] and task["answer"] == "6"
    assert initial["blocks"][0]["text"] == initial.blocks[0].text == "3 + 3?"


def test_what_authors_may_override(host: str) -> None:
    class Keeper(make_quiz(host)):
        async def task_of(self):
            return {"answer": "from the vault"}

        async def initial_of(self):
            return "a first look"

    environment = Keeper(task_spec=TASKS[0])
    output = call(environment, "submit", text="from the vault")
    assert output.metadata["rubric"]["scores"]["right"] == 1.0
    assert environment.rubric.episode_now.initial == "a first look"


def test_a_prompt_that_fails_costs_nothing(host: str, caplog: pytest.LogCaptureFixture) -> None:
    class Mute(make_quiz(host)):
        def get_prompt(self):
            raise OSError("no prompt")

    environment = Mute(task_spec=TASKS[1])
    assert call(environment, "submit", text="2").reward == 0.625
    assert environment.rubric.episode_now.initial is None and "initial_of failed" in caplog.text


def test_toolsets(host: str) -> None:
    names = package(host)

    class Shell:
        def __init__(self, environment):
            self.environment = environment

        @names.tool
        def run(self, args: Answer) -> names.ToolOutput:
            assert self.environment.task_spec == TASKS[1]
            return names.ToolOutput(blocks=[names.TextBlock(text="ran")])

        @names.tool
        async def finish(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    class Plain:
        """Takes no environment."""

        @names.tool
        async def plain(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[])

    class Tooled(make_quiz(host)):
        rubric = Counts()
        toolsets = [Shell, Plain]

    environment = Tooled(task_spec=TASKS[1])
    assert call(environment, "run", text="ls").reward == 0.0
    assert call(environment, "plain").reward == 0.0
    assert call(environment, "finish").reward == 3.0

    class Clash(make_quiz(host)):
        toolsets = [Shell]

        @names.tool
        async def run(self) -> names.ToolOutput:
            raise AssertionError

    assert "collision" in call(Clash(task_spec=TASKS[1]), "run", text="ls")


def test_a_tool_that_does_what_it_should_not(host: str) -> None:
    names = package(host)

    class Wrong(make_quiz(host)):
        @names.tool
        async def nothing(self) -> names.ToolOutput:
            return {"blocks": []}

        @names.tool
        def broken(self) -> names.ToolOutput:
            raise ZeroDivisionError("the tool's own")

    environment = Wrong(task_spec=TASKS[1])
    with pytest.raises(TypeError, match="returned dict; expected ToolOutput"):
        call(environment, "nothing")
    with pytest.raises(ZeroDivisionError, match="the tool's own"):
        call(environment, "broken")
    assert environment.rubric.episode_now.steps == 0, "neither is a step"


async def test_plain_tools_and_plain_leaves_run_off_the_event_loop(host: str) -> None:
    names = package(host)
    loop_thread = threading.get_ident()
    threads: dict[str, int] = {}

    class Leaf(Rubric):
        def forward(self, action, observation):
            threads["leaf"] = threading.get_ident()
            return 1.0

    class Judge(TrajectoryRubric):
        async def score_trajectory(self, trajectory):
            threads["async node"] = threading.get_ident()
            return 1.0

    class Blocking(make_quiz(host)):
        rubric = WeightedSum([Leaf(), Judge()], [0.5, 0.5])

        @names.tool
        def block(self) -> names.ToolOutput:
            threads["tool"] = threading.get_ident()
            return names.ToolOutput(blocks=[], finished=True)

    output = await called(Blocking(task_spec=TASKS[0]), "block")
    assert output.reward == 1.0
    assert threads.pop("async node") == loop_thread
    assert loop_thread not in threads.values() and threads.keys() == {"tool", "leaf"}


async def test_sessions_that_wait_for_judges_hold_up_nobody(host: str) -> None:
    """32 sessions stand in their judges, 16 of which block their thread; a call elsewhere is answered meanwhile."""
    release, released = threading.Event(), asyncio.Event()
    standing = threading.Semaphore(0)

    class Blocks(Rubric):
        def forward(self, action, observation):
            standing.release()
            assert release.wait(30)
            return 1.0

    class Awaits(Rubric):
        async def forward(self, action, observation):
            standing.release()
            await released.wait()
            return 1.0

    stuck = [make_quiz(host, rubric=Blocks() if n % 2 else Awaits())(task_spec=TASKS[n % 6]) for n in range(32)]
    tasks = [asyncio.create_task(called(environment, "submit", text="0")) for environment in stuck]
    try:
        for _ in stuck:
            assert await asyncio.to_thread(standing.acquire, timeout=20)
        assert (await called(make_quiz(host)(task_spec=TASKS[0]), "draft", text="x")).reward == 0.125
        assert not any(task.done() for task in tasks)
    finally:
        release.set()
        released.set()
    assert [output.reward for output in await asyncio.gather(*tasks)] == [1.0] * 32


async def test_overlapping_calls_of_one_session(host: str) -> None:
    """The first call that finishes is paid. What was under way beside it is recorded, or refused; nothing twice."""
    names = package(host)
    go = asyncio.Event()

    class Race(make_quiz(host)):
        rubric = Counts()

        @names.tool
        async def slow(self) -> names.ToolOutput:
            await go.wait()
            return names.ToolOutput(blocks=[], finished=True)

        @names.tool
        async def other(self) -> names.ToolOutput:
            await go.wait()
            return names.ToolOutput(blocks=[])

    environment = Race(task_spec=TASKS[0])
    calls = [asyncio.create_task(environment._call_tool(name, {})) for name in ("slow", "other", "slow", "other")]
    await asyncio.sleep(0.01)
    go.set()
    outcomes = [outcome.root for outcome in await asyncio.gather(*calls)]
    finished = [outcome for outcome in outcomes if outcome.ok and outcome.output.finished]
    assert len(finished) == 1
    refused = [outcome for outcome in outcomes if not outcome.ok]
    assert all("episode has finished" in outcome.error for outcome in refused)
    paid = [outcome.output.reward for outcome in outcomes if outcome.ok]
    assert sum(paid) == environment.rubric.episode_now.steps == len(paid)


def test_concurrent_tools_are_recorded_and_not_paid(host: str) -> None:
    if host == "ors":
        pytest.skip("its tools have no such mark")
    environment = make_quiz(host)(task_spec=TASKS[1])
    look = call(environment, "look")
    assert (look.reward, look.metadata) == (None, {"rubric": {"status": "unpaid", "step": 0}})
    assert call(environment, "draft", text="graded").reward == 0.1875
    call(environment, "look")
    end = call(environment, "submit", text="2")
    assert end.metadata["rubric"]["scores"]["calls"] == 0.5, "the whole episode is judged with them"
    rewards = end.metadata["rubric"]["step_rewards"]
    assert rewards["emitted"] == [0.0, 0.1875, 0.0, 0.75] and rewards["total"] == 0.9375
    trajectory = environment.rubric.episode_now.trajectory
    assert [step.metadata.get("unpaid") for step in trajectory.steps] == [True, None, True, None]


def test_a_concurrent_tool_that_finishes_is_paid(host: str) -> None:
    if host == "ors":
        pytest.skip("its tools have no such mark")
    names = package(host)

    class Odd(make_quiz(host)):
        rubric = Counts()

        @names.tool(concurrent=True)
        async def leave(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    assert call(Odd(task_spec=TASKS[0]), "leave").reward == 1.0


@pytest.mark.parametrize("on_error", ["null", "raise"])
def test_a_node_that_cannot_observe_an_unpaid_call(host: str, on_error: str) -> None:
    if host == "ors":
        pytest.skip("its tools have no such mark")

    class Watches(Rubric):
        def observe(self, action, observation):
            if action.name == "look":
                raise OSError("no disk")

        def forward(self, action, observation):
            return 1.0

    environment = make_quiz(host, rubric=Watches(), on_error=on_error)(task_spec=TASKS[1])
    if on_error == "raise":
        with pytest.raises(RubricError, match="Watches: OSError: no disk"):
            call(environment, "look")
    else:
        look = call(environment, "look")
        assert look.reward is None and look.metadata["rubric"]["status"] == "error"
        assert look.metadata["rubric"]["reason"] == "Watches: OSError"
    end = call(environment, "submit", text="2")
    assert end.metadata["rubric"]["step_rewards"]["total"] is None and end.metadata["rubric"]["step"] == 1


def test_terminal_tools_and_toolsets_of_a_session(host: str) -> None:
    if host == "ors":
        pytest.skip("it has neither")
    names = package(host)

    class Message(Answer):
        say: str = "ok"

    class Said(make_quiz(host)):
        @terminal
        @names.tool
        async def said(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    environment = Said(task_spec=TASKS[1])
    assert environment.is_assistant_message_final()
    output = asyncio.run(environment.call_terminal_tool("bye")).root.output
    assert output.finished and output.reward == 0.125

    class Lent(Toolset):
        @names.tool
        def lend(self) -> names.ToolOutput:
            return names.ToolOutput(blocks=[], finished=True)

    environment = make_quiz(host)(task_spec=TASKS[1])
    environment.sandbox = object()
    output = asyncio.run(call_session_tool(environment, Lent(environment), "lend", {})).root.output
    assert output.reward == 0.125 and output.finished


def test_a_reward_of_the_tool_itself_can_be_read_and_is_replaced(host: str) -> None:
    environment = make_quiz(host)(task_spec=TASKS[1])
    output = call(environment, "draft", text="graded")
    assert output.reward == 0.1875 and output.metadata["rubric"]["own_reward"] == 0.75
    assert environment.rubric.episode_now.trajectory.steps[0].observation.reward == 0.75, "the recording keeps it"


@pytest.mark.parametrize("expose", ["scores", "none"])
def test_what_the_agent_may_see(host: str, expose: str) -> None:
    environment = make_quiz(host, expose=expose)(task_spec=TASKS[1])
    output = call(environment, "draft", text="x", say="boom")
    assert output.metadata.get("length") == 1
    assert "gold" not in json.dumps(output.metadata)
    assert ("rubric" in output.metadata) == (expose == "scores")


def test_episodes_are_recorded_and_score_the_same_offline(host: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.jsonl"
    environment = make_quiz(host, record_to=path)(task_spec=TASKS[3])
    calls = [("draft", "graded"), ("look", None), ("draft", "x"), ("submit", "6")]
    outputs = [call(environment, name, **({} if text is None else {"text": text})) for name, text in calls]
    [trajectory] = read([path])
    row = rescore_one(trajectory, make_tree())
    report = outputs[-1].metadata["rubric"]
    assert row.status == "scored" and row.reward == trajectory.reward == report["step_rewards"]["total"]
    assert row.step_rewards == report["step_rewards"]
    assert {path: score for path, score in row.evaluation.flatten().items() if path} == report["scores"]
    assert trajectory.source == {"host": host, "environment": "Quiz"}


def test_half_a_line_of_a_killed_server_spoils_no_other(host: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Quiz = make_quiz(host, record_to=path)
    for _ in range(2):
        call(Quiz(task_spec=TASKS[1]), "submit", text="2")
    path.write_bytes(path.read_bytes()[:-50])
    call(Quiz(task_spec=TASKS[2]), "submit", text="4")
    whole, half, after = read([path])
    assert (whole.reward, after.reward, after.task) == (0.625, 0.625, TASKS[2])
    assert "runs.jsonl:2: not JSON" in str(half)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_session_that_is_deleted_leaves_an_abandoned_episode(host: str, asynchronous: bool, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    torn: list[str] = []

    class Plain(make_quiz(host)):
        record_to = path

        def teardown(self):
            torn.append("plain")
            return super().teardown()

    class Async(make_quiz(host)):
        record_to = path

        async def teardown(self):
            torn.append("async")

    environment = (Async if asynchronous else Plain)(task_spec=TASKS[3])
    call(environment, "draft", text="x")
    if asynchronous:
        asyncio.run(environment.teardown())
    else:
        environment.teardown()
    [trajectory] = read([path])
    assert (trajectory.end, trajectory.reward, len(trajectory.steps), len(torn)) == ("abandoned", None, 1, 1)
    assert "finished" in call(environment, "submit", text="6")


async def test_a_session_that_is_deleted_while_its_episode_begins(host: str) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow(make_quiz(host)):
        async def get_prompt(self):
            asked.set()
            await go.wait()
            return []

    environment = Slow(task_spec=TASKS[3])
    calling = asyncio.create_task(environment._call_tool("submit", {"text": "6"}))
    await asked.wait()
    environment.teardown()
    go.set()
    assert "finished" in (await calling).root.error and environment.submitted == 0
    assert (environment.rubric.episode_now.status, environment.rubric.episode_now.steps) == ("abandoned", 0)


def test_a_session_that_is_deleted_before_its_first_call(host: str, tmp_path: Path) -> None:
    environment = make_quiz(host, record_to=tmp_path / "runs.jsonl")(task_spec=TASKS[3])
    environment.teardown()
    assert not list(tmp_path.iterdir())


def test_mistakes_of_authors(host: str) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.rubric must be a tree"):

        class Wrong(base(host)):
            rubric = make_tree

    with pytest.raises(ValueError, match="expose is one of scores, full, none, not 'all'"):

        class Odd(base(host)):
            expose = "all"

    class Bare(make_quiz(host)):
        rubric = None

    with pytest.raises(RubricError, match="Bare has no rubric"):
        call(Bare(task_spec=TASKS[0]), "draft", text="x")


def test_a_tree_that_keeps_state_on_itself_is_made_once_an_environment(host: str) -> None:
    class Keeps(TrajectoryRubric):
        def reset(self):
            self.seen = 0

        def score_trajectory(self, trajectory):
            return len(trajectory)

    class Own(make_quiz(host)):
        rubric = None

        def __init__(self, task_spec=None, secrets=None):
            super().__init__(task_spec, secrets)
            self.rubric = Keeps()

    one, two = Own(task_spec=TASKS[0]), Own(task_spec=TASKS[1])
    assert [call(env, "draft", text="x").reward for env in (one, two, one)] == [0.0, 0.0, 0.0]
    assert [call(env, "submit", text="x").reward for env in (one, two)] == [3.0, 2.0]


def test_a_slow_final_judgement_and_a_teardown_meanwhile(host: str, tmp_path: Path) -> None:
    """The session is deleted while its last call is being scored: the call is paid, and recorded once."""

    class Slow(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            time.sleep(0.1)
            return 1.0

    async def run() -> Any:
        environment = make_quiz(host, rubric=Slow(), record_to=tmp_path / "runs.jsonl")(task_spec=TASKS[0])
        submitted = asyncio.create_task(called(environment, "submit", text="0"))
        await asyncio.sleep(0.03)
        environment.teardown()
        return await submitted

    assert asyncio.run(run()).reward == 1.0
    assert [item.end for item in read([tmp_path / "runs.jsonl"])] == ["terminated"]

"""Trees as rewards of verifiers' tasks, in its own environment: a scripted harness, a scripted model on loopback."""

import asyncio
import json
import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("verifiers.v1")

import httpx
import verifiers.v1 as vf
from aiohttp import web
from verifiers.v1.state import state_cls

from rubrics import Rubric, WeightedSum
from rubrics.evaluation import Usage
from rubrics.formats import read
from rubrics.integrations.verifiers import LiveTreeReward, TaskReward, TreeReward, trajectory_of_trace, tree_reward
from rubrics.rescoring import rescore, rescore_one
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Trajectory
from tests.integrations import polite
from tests.integrations.polite import Looked, Polite, RightAsync

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def make_tree() -> WeightedSum:
    return polite.make_tree(RightAsync)


class GuessData(vf.TaskData):
    answer: str = ""


class GuessTask(vf.Task[GuessData]):
    quality = tree_reward(make_tree(), weight=2.0)

    @vf.reward
    async def exact(self, task: GuessData, trace: vf.Trace) -> float:
        return float(trace.last_reply == f"please, it is {task.answer}")

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


class GuessTaskset(vf.Taskset[GuessTask]):
    def load(self) -> Any:
        answers = ["7", "8", "unscored", "bug"]
        return [GuessTask(GuessData(prompt="Which number?", answer=answer), self.config.task) for answer in answers]


class ScriptedHarnessConfig(vf.HarnessConfig):
    exit_code: int | None = None  # where it is set, the model is not asked


class ScriptedHarness(vf.Harness[ScriptedHarnessConfig]):
    """Asks the model until it calls no tool, in this process."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: Any, secret: Any, mcp_urls: Any, data: Any
    ) -> Any:
        if self.config.exit_code is not None:
            return vf.ProgramResult(exit_code=self.config.exit_code, stdout="", stderr="")
        messages: list[dict[str, Any]] = [{"role": "user", "content": data.prompt}]
        async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {secret}"}) as client:
            while True:
                reply = await client.post(
                    f"{endpoint}/chat/completions", json={"model": ctx.model, "messages": messages}
                )
                if reply.status_code != 200:  # a limit: verifiers refuses the turn
                    break
                message = reply.json()["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    content = f"looked up {json.loads(call['function']['arguments'])['what']}"
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, plugin in (("guess_tasks", GuessTaskset), ("scripted_harness", ScriptedHarness)):
        module = ModuleType(name)
        module.__dict__.update({"__all__": [plugin.__name__], plugin.__name__: plugin})
        monkeypatch.setitem(sys.modules, name, module)
    module = ModuleType("my_rewards")
    module.__dict__["plugged"] = tree_reward(Polite())
    monkeypatch.setitem(sys.modules, "my_rewards", module)


async def complete(request: web.Request) -> web.Response:
    """First it calls a tool, then it answers."""
    messages = (await request.json())["messages"]
    said: dict[str, Any] = {"role": "assistant", "content": "please, it is 7"}
    if not any(message["role"] == "tool" for message in messages):
        function = {"name": "look", "arguments": '{"what": "numbers"}'}
        said = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if "tool_calls" in said else "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
    return web.json_response({**body, "usage": usage})


def run(*, tasks: int = 4, rollouts: int = 1, agent: dict[str, Any] | None = None, task: Any = None) -> list[vf.Trace]:
    """Play tasks in verifiers' environment; the traces in the order of the tasks."""

    async def play() -> list[vf.Trace]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"  # type: ignore[union-attr]
        config = vf.SingleAgentEnvConfig.model_validate(
            {
                "taskset": {"id": "guess_tasks", "task": task or {}},
                "agent": {
                    "harness": {"id": "scripted_harness"},
                    "runtime": {"type": "subprocess"},
                    **(agent or {}),
                },
                "interception": {"type": "server"},
            }
        )
        env = vf.SingleAgentEnv(config)
        context = vf.ModelContext(
            model="scripted", client=vf.EvalClientConfig(base_url=address, api_key_var="NO_SUCH_KEY")
        )
        try:
            async with env.serving():
                slots = [slot for one in list(env.taskset)[:tasks] for slot in env.slots(one, rollouts)]
                episodes = await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))
        finally:
            await runner.cleanup()
        return [episode.traces[0] for episode in episodes]

    return asyncio.run(play())


def test_a_tree_scores_the_rollouts_of_an_environment() -> None:
    right, wrong, unscored, failed = run()

    assert right.ok and not right.errors, right.errors
    assert right.rewards["quality"] == vf.Reward(score=0.25 + 0.25 * 0.5 + 0.5, weight=2.0)
    assert right.rewards["exact"].score == 1.0
    assert right.reward == 2 * 0.875 + 1.0
    assert right.metrics == {"turns": 2.0, "quality/polite": 1.0, "quality/looked": 0.5, "quality/right": 1.0}
    assert right.info["quality"]["reasons"] == {"polite": "it says please"}
    assert right.info["quality"]["step_rewards"]["total"] == 0.875
    assert wrong.rewards["quality"].score == 0.375

    assert unscored.rewards["quality"] is None and failed.rewards["quality"] is None
    assert not unscored.ok and not failed.ok
    assert unscored.last_error.type == failed.last_error.type == "TaskError"
    assert "right is unscored: nobody knows" in unscored.last_error.message
    assert "right: ZeroDivisionError: a bug" in failed.last_error.message
    assert unscored.metrics["quality/right"] is None and unscored.metrics["quality/polite"] == 1.0
    assert unscored.info["quality"]["status"] == "unscored"
    assert failed.info["quality"]["status"] == "error"


def test_many_at_once_get_their_own_rewards() -> None:
    traces = run(tasks=2, rollouts=10)
    assert [trace.rewards["quality"].score for trace in traces] == [0.875] * 10 + [0.375] * 10


def test_a_trace_scores_as_its_recording(tmp_path: Any) -> None:
    tree = make_tree()
    path = tmp_path / "recorded.jsonl"
    traces = run()
    with path.open("w") as file:
        for trace in traces:
            file.write(json.dumps(trajectory_of_trace(trace).to_dict()) + "\n")
    rows = list(rescore(read(path), tree))
    assert [row.reward for row in rows] == [0.875, 0.375, None, None]
    assert [row.status for row in rows] == ["scored", "scored", "unscored", "error"]
    for trace, row in zip(traces, rows, strict=True):
        wired = vf.WireTrace.model_validate(json.loads(json.dumps(trace.to_record())))
        saved = trajectory_of_trace(wired)
        assert saved == trajectory_of_trace(trace)
        assert rescore_one(saved, tree).reward == Scorer(tree).score(saved).reward == row.reward


def test_what_a_tree_sees() -> None:
    (trace,) = run(tasks=1)
    trajectory = trajectory_of_trace(trace)
    assert trajectory.id == trace.id and trajectory.end == "terminated"
    assert trajectory.task.answer == "7"
    assert [message.content for message in trajectory.initial.messages] == ["Which number?"]
    first, second = trajectory.steps
    assert first.action.tool_calls == [{"id": "call_1", "name": "look", "arguments": {"what": "numbers"}}]
    assert first.observation.content == "looked up numbers" and not first.observation.done
    assert second.action.content == "please, it is 7" and second.observation.done


def test_a_limit_is_a_truncation() -> None:
    (trace,) = run(tasks=1, agent={"max_turns": 1})
    trajectory = trajectory_of_trace(trace)
    assert trace.is_truncated and trajectory.end == "truncated"
    assert trace.rewards["quality"].score == 0.25 == rescore_one(trajectory, make_tree()).reward


def test_a_rollout_that_fails_is_not_scored() -> None:
    (broken,) = run(tasks=1, agent={"harness": {"id": "scripted_harness", "exit_code": 1}})
    assert broken.last_error.type == "HarnessError" and broken.rewards == {}
    assert trajectory_of_trace(broken).end == "error"
    (silent,) = run(tasks=1, agent={"harness": {"id": "scripted_harness", "exit_code": 0}})
    assert silent.rewards["quality"] is None and "the rollout has no steps" in silent.last_error.message


def test_a_tree_from_a_config() -> None:
    (trace,) = run(tasks=1, task={"rewards": {"manners": {"fn": "my_rewards:plugged", "weight": 3.0}}})
    assert trace.rewards["manners"] == vf.Reward(score=1.0, weight=3.0)


def trace_of(replies: list[str], *, id: str = "t", examples: int = 0, task: type[vf.Task] = GuessTask) -> vf.Trace:
    """A trace made by hand: a question, examples of dialogue, and replies with a user's word between them."""
    messages: list[tuple[Any, bool]] = [(vf.SystemMessage(content="Be brief."), False)]
    for _ in range(examples):
        messages += [(vf.UserMessage(content="And?"), False), (vf.AssistantMessage(content="An example"), False)]
    for reply in replies:
        messages += [(vf.UserMessage(content="Well?"), False), (vf.AssistantMessage(content=reply), True)]
    return vf.Trace(
        id=id,
        task=vf.TraceTask(type=task.__name__, data=task.data_type()(prompt="Well?", answer="7")),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        state=state_cls(task)(),
        nodes=[
            vf.MessageNode(parent=i - 1 if i else None, message=message, sampled=sampled)
            for i, (message, sampled) in enumerate(messages)
        ],
    )


def test_replies_in_the_prompt_are_examples_and_copies_are_actions() -> None:
    trajectory = trajectory_of_trace(trace_of(["a", "b"], examples=2))
    assert [step.action.content for step in trajectory.steps] == ["a", "b"]
    assert len(trajectory.initial.messages) == 6
    trace = trace_of(["a", "b"])
    copied = len(trace.nodes)  # the harness sent the first reply back in other words, so verifiers made a new branch
    for parent, message, sampled in (
        (1, vf.AssistantMessage(content="A"), False),
        (copied, vf.UserMessage(content="So?"), False),
        (copied + 1, vf.AssistantMessage(content="c"), True),
    ):
        trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))
    trajectory = trajectory_of_trace(trace)
    assert [step.action.content for step in trajectory.steps] == ["A", "c"]


def test_tools_with_names_of_their_own() -> None:
    trace = trace_of(["a"])
    calls = [vf.ToolCall(id="1", type="custom", name="shell", arguments="ls -l")]
    if "namespace" in vf.ToolCall.model_fields:
        calls.append(vf.ToolCall(id="2", namespace="files", name="read", arguments="{}"))
    trace.nodes[-1].message = vf.AssistantMessage(tool_calls=calls)
    (step,) = trajectory_of_trace(trace).steps
    assert step.action.content is None
    assert step.action.tool_calls[0] == {"id": "1", "name": "shell", "arguments": "ls -l"}
    assert [call.name for call in step.action.tool_calls[1:]] in ([], ["files.read"])


def test_names() -> None:
    assert GuessTask.quality.__name__ == "quality"
    named = tree_reward(Polite(), name="manners")

    class Task(vf.Task[GuessData]):
        other = named

    assert named.__name__ == "manners"
    assert [fn.__name__ for fn in Task(GuessData()).hooks("reward")] == ["manners"]
    copy = pickle.loads(pickle.dumps(named))
    assert isinstance(copy, TreeReward) and copy.__name__ == "manners"
    with pytest.raises(TypeError, match="expected a tree"):
        tree_reward(Polite)  # type: ignore[arg-type]


class Billed(Rubric):
    async def forward(self, action: Any, observation: Any) -> float:
        from rubrics.engine.frames import FRAME

        frame = FRAME.get()
        assert frame is not None and frame.record is not None
        frame.record.own_usage = Usage(calls=1, prompt_tokens=7, cached_tokens=2, completion_tokens=3, cost=0.5)
        return 1.0


def test_what_judges_cost_is_on_the_trace() -> None:
    trace = trace_of(["a", "b"])
    assert asyncio.run(tree_reward(Billed())(trace)) == 2.0
    (usage,) = trace.extra_usage
    assert (usage.prompt_tokens, usage.cached_input_tokens, usage.completion_tokens, usage.cost) == (10, 4, 6, 1.0)


# -- a task's reward as a leaf ----------------------------------------------------------------------------------------


class OtherData(vf.TaskData):
    answer: str = ""


class OtherState(vf.State):
    seen: int = 0


class OtherTask(vf.Task[OtherData, OtherState]):
    @vf.reward(weight=5.0)
    async def exact(self, task: OtherData, trace: vf.Trace) -> float:
        assert isinstance(trace.state, OtherState) and isinstance(self.data, OtherData)
        return float(task.answer in trace.last_reply) / trace.num_turns

    @vf.reward
    async def keyed(self, trace: vf.Trace) -> dict[str, float]:
        return {"turns": float(trace.num_turns), "truncated": float(trace.is_truncated)}

    @vf.reward
    async def in_the_box(self, trace: vf.Trace, runtime: Any) -> float:
        return float((await runtime.run(["true"], {})).exit_code == 0)

    @vf.reward
    async def undecided(self, trace: vf.Trace) -> None:
        return None

    async def plain(self, trace: vf.Trace) -> float:
        return 1.0


def test_a_reward_of_a_task_as_a_leaf() -> None:
    tree = WeightedSum({"exact": TaskReward(OtherTask, "exact"), "looked": Looked()}, {"exact": 0.5, "looked": 0.5})
    for replies in (["no", "it is 7"], ["it is 7"], ["no"]):
        trace = trace_of(replies, task=OtherTask)
        trajectory = trajectory_of_trace(trace)
        online = asyncio.run(tree_reward(tree)(trace))
        offline = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
        assert online == rescore_one(offline, tree).reward == float("7" in trace.last_reply) / trace.num_turns / 2
    keyed = TaskReward(OtherTask, "keyed")
    assert rescore_one(trajectory, keyed).reward == 1.0
    trajectory.end = "truncated"
    trajectory.steps[-1].observation = trajectory.steps[-1].observation | {"done": False}
    assert rescore_one(trajectory, keyed).reward == 2.0
    assert rescore_one(trajectory, TaskReward(OtherTask, "undecided")).status == "unscored"
    with pytest.raises(TypeError, match=r"OtherTask.plain is no method with @vf.reward"):
        TaskReward(OtherTask, "plain")
    with pytest.raises(TypeError, match=r"OtherTask.missing"):
        TaskReward(OtherTask, "missing")


def test_a_leaf_that_needs_the_runtime() -> None:
    leaf = TaskReward(OtherTask, "in_the_box")
    assert leaf.needs_live_state and not TaskReward(OtherTask, "exact").needs_live_state
    trace = trace_of(["a"])
    row = rescore_one(trajectory_of_trace(trace), leaf)
    assert (row.status, row.kept) == ("unscored", [""])
    assert "needs the runtime" in (Scorer(leaf).score(trajectory_of_trace(trace)).reason or "")

    class Runtime:
        async def run(self, command: list[str], env: Any) -> Any:
            return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    class Task(vf.Task[GuessData]):
        boxed = tree_reward(WeightedSum({"boxed": leaf, "looked": Looked()}, {"boxed": 0.5, "looked": 0.5}))

    assert isinstance(Task.boxed, LiveTreeReward)
    asyncio.run(Task(GuessData()).score(trace, Runtime()))
    assert trace.rewards["boxed"].score == 0.5
    saved = trace_of(["a"])
    asyncio.run(Task(GuessData()).score(saved))  # as verifiers' replay does it: such signals are left out
    assert saved.rewards == {}

"""What scoring costs in hosts, against the same host without a rubric or with its own.

    python benchmarks/hosts.py                  # what can be imported here is measured, the rest is named
    python benchmarks/hosts.py --rounds 9 --only openenv

- openenv: steps a second of its server over a WebSocket, with a tree of ten leaves and without a rubric.
- openreward: how long a call of one session takes while 32 others wait for a judge of 200 ms.
- rollouts: 100 rollouts under ten functions by our adapters for verifiers and TRL, against verifiers' own `score_group`
  (needs verifiers 0.3.1).
"""

import argparse
import asyncio
import gc
import importlib.util
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
os.environ["OPENREWARD_LOG_LEVEL"] = "ERROR"


def available(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def served(target: Callable[[int], None]) -> tuple[multiprocessing.Process, int]:
    """A server in a process of its own, and its port."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(port,), daemon=True)
    process.start()
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
            return process, port
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not start")


# -- OpenEnv ----------------------------------------------------------------------------------------------------------


def make_env(kind: str) -> tuple[type, type, type]:
    """An environment that echoes: `"plain"`, scored by `"ours"` (`"quiet"`: that sends no components) or `"theirs"`."""
    from openenv.core import Action, Environment, Observation, State
    from openenv.core.rubrics import Rubric as TheirRubric, WeightedSum as TheirWeightedSum

    from rubrics import Rubric, WeightedSum
    from rubrics.integrations.openenv import RubricEnvironment

    class Say(Action):
        text: str

    class Heard(Observation):
        text: str = ""

    def long(base: type) -> Any:
        class Long(base):  # type: ignore[misc, valid-type]
            def __init__(self, least: int) -> None:
                super().__init__()
                self.least = least

            def forward(self, action: Say, observation: Heard) -> float:
                return float(len(action.text) > self.least)

        return Long

    weights = [0.1] * 10
    ours = kind in ("ours", "quiet")
    base: Any = RubricEnvironment[Say, Heard, State] if ours else Environment[Say, Heard, State]

    class Echo(base):
        SUPPORTS_CONCURRENT_SESSIONS = True
        if ours:
            expose = "none" if kind == "quiet" else "scores"
            rubric = WeightedSum([long(Rubric)(n) for n in range(10)], weights)

        def __init__(self) -> None:
            theirs = TheirWeightedSum([long(TheirRubric)(n) for n in range(10)], weights) if kind == "theirs" else None
            super().__init__(rubric=theirs)

        def reset(self, seed: Any = None, episode_id: Any = None, **kwargs: Any) -> Heard:
            return Heard(text="begin")

        def step(self, action: Say, timeout_s: Any = None, **kwargs: Any) -> Heard:
            heard = Heard(text=action.text)
            if kind == "theirs":
                heard.reward = self._apply_rubric(action, heard)
            return heard

        @property
        def state(self) -> State:
            return State()

    return Echo, Say, Heard


def serve_openenv(kind: str, port: int) -> None:
    import uvicorn
    from openenv.core import create_app

    env, action, observation = make_env(kind)
    app = create_app(env, action, observation, env_name="echo", max_concurrent_envs=8)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")


def openenv(rounds: int) -> None:
    from openenv.core import GenericEnvClient

    count = 300
    servers = {kind: served(partial(serve_openenv, kind)) for kind in ("plain", "ours", "quiet", "theirs")}
    rates: dict[str, list[float]] = {name: [] for name in servers}

    def measure(port: int) -> float:
        with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
            client.reset()
            for _ in range(30):
                client.step({"text": "warm"})
            start = time.perf_counter()
            for _ in range(count):
                client.step({"text": "hello there"})
            return count / (time.perf_counter() - start)

    for _ in range(rounds):
        for name, (_, port) in servers.items():
            rates[name].append(measure(port))
    for process, _ in servers.values():
        process.terminate()
    plain = statistics.median(rates["plain"])
    names = {
        "ours": "ten leaves of ours",
        "quiet": "ten leaves of ours, no components sent",
        "theirs": "ten leaves of OpenEnv's own, no components sent",
    }
    for kind, name in names.items():
        ratios = sorted(b / a for a, b in zip(rates["plain"], rates[kind], strict=True))
        scored = statistics.median(rates[kind])
        print(f"openenv: {plain:.0f} steps/s without a rubric, {scored:.0f} with {name}: {scored / plain:.3f} ", end="")
        print(f"({ratios[0]:.2f} to {ratios[-1]:.2f}; floor 0.95), {1e6 / scored - 1e6 / plain:.0f} µs a step")


# -- OpenReward -------------------------------------------------------------------------------------------------------


def serve_openreward(port: int) -> None:
    import uvicorn
    from openreward.environments import Server, Split, TextBlock, ToolOutput, tool

    from rubrics import Rubric
    from rubrics.integrations.openreward import RubricEnvironment

    class Judge(Rubric):
        """Blocks its thread, as a judge does that is asked by a plain client."""

        def forward(self, action: Any, observation: Any) -> float:
            if action.name == "judged":
                time.sleep(0.2)
            return 1.0

    class Echo(RubricEnvironment):
        rubric = Judge()

        @classmethod
        def list_splits(cls) -> Any:
            return [Split(name="train", type="train")]

        @classmethod
        def list_tasks(cls, split: str) -> Any:
            return [{"n": 1}]

        def get_prompt(self) -> Any:
            return [TextBlock(text="?")]

        @tool
        async def judged(self) -> ToolOutput:
            return ToolOutput(blocks=[TextBlock(text="ok")])

        @tool
        async def quick(self) -> ToolOutput:
            return ToolOutput(blocks=[TextBlock(text="ok")])

    uvicorn.run(Server([Echo]).app, host="127.0.0.1", port=port, log_level="critical")


def openreward(rounds: int) -> None:
    from openreward import AsyncOpenReward

    async def run(port: int) -> None:
        api = AsyncOpenReward().environments
        url = f"http://127.0.0.1:{port}"
        environment = api.get("echo", base_url=url)
        [task] = await environment.list_tasks("train")
        stop = False
        judgements = 0

        async def busy() -> None:
            nonlocal judgements
            async with environment.session(task=task) as session:
                while not stop:
                    await session.call_tool("judged", {})
                    judgements += 1

        async def timed(session: Any, calls: int) -> list[float]:
            took = []
            for _ in range(calls):
                start = time.perf_counter()
                await session.call_tool("quick", {})
                took.append((time.perf_counter() - start) * 1000)
                await asyncio.sleep(0.01)
            return took

        async with environment.session(task=task) as session:
            await timed(session, 10)
            idle = await timed(session, 20 * rounds)
            async with asyncio.TaskGroup() as group:
                for _ in range(32):
                    group.create_task(busy())
                await asyncio.sleep(1.0)
                judgements, start = 0, time.perf_counter()
                loaded = await timed(session, 20 * rounds)
                rate = judgements / (time.perf_counter() - start)
                stop = True
        await api.aclose()
        quantiles = statistics.quantiles(loaded, n=20)
        print(
            f"openreward: a call takes {statistics.median(idle):.1f} ms alone; beside 32 sessions whose judge takes "
            f"200 ms ({rate:.0f} judgements/s) median {statistics.median(loaded):.1f} ms, 95th percentile "
            f"{quantiles[-1]:.1f} ms, most {max(loaded):.1f} ms (ceiling 50)"
        )

    process, port = served(serve_openreward)
    asyncio.run(run(port))
    process.terminate()


# -- rollouts ---------------------------------------------------------------------------------------------------------


def rollouts(rounds: int) -> None:
    import verifiers as vf

    from rubrics import Rubric, WeightedSum
    from rubrics.integrations.trl import reward_function
    from rubrics.integrations.verifiers_v0 import TreeRubric
    from rubrics.rollouts.functions import RewardFunction

    names = [f"f{i}" for i in range(10)]
    texts = [f"The answer is {k}" for k in range(100)]

    def function(sign: str, wait: bool) -> Any:
        """A function as verifiers calls it."""

        def check(completion: Any, answer: Any) -> float:
            return 1.0 if sign in completion[-1]["content"] else 0.5

        async def check_async(completion: Any, answer: Any) -> float:
            await asyncio.sleep(0.01)
            return check(completion, answer)

        made = check_async if wait else check
        made.__name__ = sign
        return made

    class Leaf(Rubric):
        def __init__(self, sign: str) -> None:
            super().__init__()
            self.sign = sign

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0 if self.sign in action.content else 0.5

    class AsyncLeaf(Leaf):
        async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
            await asyncio.sleep(0.01)
            return 1.0 if self.sign in action.content else 0.5

    def tree(leaf: Callable[[str], Rubric]) -> Rubric:
        return WeightedSum({name: leaf(name[1]) for name in names}, dict.fromkeys(names, 0.1))

    def states() -> list[Any]:
        made = []
        for k, text in enumerate(texts):
            state = vf.State(
                input={"prompt": [vf.UserMessage(content="What?")], "answer": str(k), "example_id": k, "info": {}}
            )
            state["completion"] = [vf.AssistantMessage(content=text)]
            state.update({"trajectory": [], "reward": None, "metrics": None, "error": None, "is_truncated": False})
            state["trajectory_id"] = f"t{k}"
            made.append(state)
        return made

    async def by_states(rubric: Any) -> tuple[float, list[float]]:
        batch = states()
        start = time.perf_counter()
        await rubric.score_group(batch)
        return (time.perf_counter() - start) * 1000, [state["reward"] for state in batch]

    async def by_trl(called: Any) -> tuple[float, list[float]]:
        columns = {"answer": [str(k) for k in range(100)], "completion_ids": [[1]] * 100}
        prompts = [[{"role": "user", "content": "What?"}]] * 100
        completions = [[{"role": "assistant", "content": text}] for text in texts]
        start = time.perf_counter()
        rewards = called(prompts=prompts, completions=completions, **columns)
        if hasattr(rewards, "__await__"):
            rewards = await rewards
        return (time.perf_counter() - start) * 1000, rewards

    async def run() -> None:
        gc.collect()
        gc.freeze()  # else collecting what the imports left takes 0.1 s, always of the same contender
        for kind, wait, leaf in (("sync", False, Leaf), ("async, 10 ms", True, AsyncLeaf)):
            leaves = tree(leaf)
            functions = tree(lambda sign, wait=wait: RewardFunction(function(sign, wait), messages=True))
            theirs = vf.Rubric([function(name[1], wait) for name in names], [0.1] * 10)
            ways = {
                "verifiers": partial(by_states, theirs),
                "ours in verifiers, leaves": partial(by_states, TreeRubric(leaves, unscored="raise")),
                "ours in verifiers, functions": partial(by_states, TreeRubric(functions, unscored="raise")),
                "ours in TRL, leaves": partial(by_trl, reward_function(leaves)),
                "ours in TRL, functions": partial(by_trl, reward_function(functions)),
            }
            took: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                rewards = {}
                for name, way in ways.items():
                    milliseconds, rewards[name] = await way()
                    took[name].append(milliseconds)
                first = rewards["verifiers"]
                assert all(abs(a - b) < 1e-9 for found in rewards.values() for a, b in zip(found, first, strict=True))
            for name, times in took.items():
                middle, least = statistics.median(times), min(times)
                ratio = statistics.median(a / b for a, b in zip(took["verifiers"], times, strict=True))  # by rounds
                print(f"rollouts, {kind}: {name:29} {middle:6.1f} ms ({least:.1f} at least), {ratio:.1f} x")

    asyncio.run(run())


PARTS: dict[str, tuple[str, Callable[[int], None]]] = {
    "openenv": ("openenv", openenv),
    "openreward": ("openreward", openreward),
    "rollouts": ("verifiers.legacy", rollouts),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    for name, (package, part) in PARTS.items():
        if arguments.only in (None, name):
            if available(package):
                part(arguments.rounds)
            else:
                print(f"{name}: not measured, {package} is not installed here")


if __name__ == "__main__":
    main()

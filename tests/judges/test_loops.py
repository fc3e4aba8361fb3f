"""Judges in many loops, in threads, after a fork, and when the interpreter ends."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges import (
    ChatRequest,
    Judge,
    JudgeConfigError,
    Likert,
    LLMJudge,
    OpenAICompatibleClient,
    Verdict,
)
from rubrics import WeightedSum
from tests.judges.clients import GOOD, Client
from tests.judges.loopback import LoopbackServer, drop, eventually, hang, late, text

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "Rate it.\n{{ answer | untrusted }}"
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
fork_warnings = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def judge_of(client: Any, **options: Any) -> Judge:
    return Judge(PROMPT, Likert(1, 5), **{"client": client, "model": "openai/m", "max_wait": 0.01, **options})


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


# -- loops and threads ------------------------------------------------------------------------------------------------


def test_fifty_loops_one_after_another_leak_no_sockets(loopback: LoopbackServer, client: Client) -> None:
    judge = judge_of(client())

    async def ask(loop: int) -> None:
        asked = judge if loop % 2 else judge_of(client())
        verdicts = await asyncio.gather(*(asked.judge(answer=f"{loop} {i}") for i in range(3)))
        assert all(isinstance(verdict, Verdict) for verdict in verdicts)

    for loop in range(5):
        asyncio.run(ask(loop))
    gc.collect()
    before = descriptors()
    for loop in range(50):
        asyncio.run(ask(loop))
    gc.collect()
    asyncio.run(eventually(lambda: descriptors() <= before + 8))
    asyncio.run(eventually(lambda: loopback.connections <= 12))


def test_many_threads_with_loops_of_their_own(loopback: LoopbackServer, client: Client) -> None:
    judge = judge_of(client())
    outcomes: list[Any] = []

    def work(thread: int) -> None:
        async def ask() -> list[Any]:
            return await asyncio.gather(*(judge.judge(answer=f"{thread} {i}") for i in range(3)))

        outcomes.extend(asyncio.run(ask()))
        outcomes.append(judge.judge_sync(answer=f"{thread} sync"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 48 and all(isinstance(outcome, Verdict) for outcome in outcomes)
    assert len(loopback.requests) == 48


def test_threads_share_a_request_in_flight(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    loopback.default = late(text(GOOD), release=release)
    judge = judge_of(client())
    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda: outcomes.append(judge.judge_sync(answer="x"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    asyncio.run(eventually(lambda: loopback.in_flight))
    release.set()
    for thread in threads:
        thread.join()
    assert sum(outcome.usage.calls for outcome in outcomes) == len(loopback.requests)
    assert all(isinstance(outcome, Verdict) for outcome in outcomes)


def test_a_sync_environment_with_a_loop_running_around_it(loopback: LoopbackServer, client: Client) -> None:
    leaf = LLMJudge("{{ action | untrusted }}", Likert(1, 5), client=client(), model="openai/m")
    tree = WeightedSum([leaf], [1.0]).blocking()
    assert tree("x", None) == 0.75

    async def host() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it blocks the loop
            return float(tree("y", None))

    assert asyncio.run(host()) == 0.75
    assert len(loopback.requests) == 2


async def test_a_client_that_nobody_holds_closes_its_connections(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD)
    for number in range(5):
        await judge_of(OpenAICompatibleClient(loopback.url, f"key {number}")).judge(answer="x")
    gc.collect()
    await eventually(lambda: loopback.connections == 0)
    assert len(loopback.requests) == 5


async def test_a_client_used_by_hand_on_one_loop(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD)
    made = OpenAICompatibleClient(loopback.url)
    request = ChatRequest("m", ({"role": "user", "content": "hi"},))
    assert (await made.send(request)).text == GOOD
    with pytest.raises(JudgeConfigError, match="in use on another event loop"):
        await judge_of(made).judge(answer="x")
    await made.close()
    assert isinstance(await judge_of(made).judge(answer="x"), Verdict)


# -- forks ------------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], bool]) -> bool:
    """Whether a forked child says so."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = work()
        finally:
            os._exit(0 if good else 1)
    deadline = threading.Timer(60.0, lambda: os.kill(child, 9))
    deadline.start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    deadline.cancel()
    return status == 0


@forks
@fork_warnings
def test_a_forked_child_judges_and_so_does_the_parent(loopback: LoopbackServer, client: Client) -> None:
    judge = judge_of(client())

    def work() -> bool:
        async def ask() -> list[Any]:
            return await asyncio.gather(*(judge.judge(answer=f"child {i}") for i in range(3)))

        outcomes = [judge.judge_sync(answer="child"), *asyncio.run(ask())]
        return all(isinstance(outcome, Verdict) for outcome in outcomes)

    for round in range(2):
        assert isinstance(judge.judge_sync(answer=f"before {round}"), Verdict)
        assert in_child(work)
        assert isinstance(judge.judge_sync(answer=f"after {round}"), Verdict)
    assert len(loopback.requests) == 12


@forks
@fork_warnings
def test_a_fork_while_requests_are_in_flight(loopback: LoopbackServer, client: Client) -> None:
    release = threading.Event()
    judge = judge_of(client(), concurrency=4)
    judge.judge_sync(answer="before")
    loopback.default = lambda request: (
        text(GOOD) if "child" in str(request.body["messages"]) else late(text(GOOD), release=release)
    )
    outcomes: list[Any] = []
    threads = [
        threading.Thread(target=lambda i=i: outcomes.append(judge.judge_sync(answer=f"parent {i}")))  # type: ignore[misc]
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    asyncio.run(eventually(lambda: loopback.in_flight == 4))
    assert in_child(lambda: isinstance(judge.judge_sync(answer="child"), Verdict))
    assert in_child(lambda: isinstance(judge.judge_sync(answer="child parent 0"), Verdict))
    release.set()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4 and all(isinstance(outcome, Verdict) for outcome in outcomes)


# -- the end of the interpreter ---------------------------------------------------------------------------------------


HEAD = """
import asyncio, os, sys, threading, time
from judges import *
url, which = sys.argv[1:]
def client(**options):
    return (OpenAICompatibleClient if which == "aiohttp" else LiteLLMClient)(url, "k", **options)
def judge_of(**options):
    options = {"client": client(), "model": "openai/m", "max_wait": 0.01, **options}
    return Judge("Rate.\\n{{ answer | untrusted }}", Likert(1, 5), **options)
"""


def run(body: str, *arguments: str, expected: int = 0) -> str:
    """What a process that ends by itself says."""
    code = HEAD + textwrap.dedent(body)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "default::RuntimeWarning",
            "-W",
            "ignore:This process:DeprecationWarning",
            "-c",
            code,
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=environment,
    )
    said = done.stderr.strip()
    assert done.returncode == expected and not said, said
    return done.stdout


@pytest.mark.parametrize("which", ["aiohttp", "litellm"])
def test_nothing_is_said_at_exit_after_all_kinds_of_trouble(loopback: LoopbackServer, which: str) -> None:
    """Failures of every kind, dropped clients, a forked child, requests in flight in threads and in loops."""
    calm = text(GOOD)

    def behaviour(request: Any) -> Any:
        said = str(request.body["messages"][-1]["content"])
        return hang() if "hang" in said else drop() if "drop" in said else calm

    loopback.default = behaviour
    said = run(
        """
        judge = judge_of()
        print(judge.judge_sync(answer="x").score)
        for i, what in enumerate(("drop", "hang", "drop", "fine", "hang")):
            outcome = asyncio.run(judge_of(timeout=0.2, retries=1).judge(answer=f"{what} {i}"))
            print(getattr(outcome, "kind", "verdict"))
        threads = [threading.Thread(target=lambda i=i: judge.judge_sync(answer=f"hang {i}"), daemon=True)
                   for i in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        if hasattr(os, "fork"):
            child = os.fork()
            if child == 0:
                print(judge.judge_sync(answer="child").score, flush=True)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        loop = asyncio.new_event_loop()
        task = loop.create_task(judge.judge(answer="hang at last"))
        loop.run_until_complete(asyncio.sleep(0.3))
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        print("end", flush=True)
        """,
        loopback.url,
        which,
    )
    kinds = ["transport", "timeout", "transport", "verdict", "timeout"]
    lines = said.split()
    assert lines[:6] == ["0.75", *kinds] and lines[-1] == "end"
    assert len(loopback.cancelled) >= 6 and not loopback.in_flight


def test_an_interpreter_that_ends_by_an_exception_with_requests_in_flight(loopback: LoopbackServer) -> None:
    loopback.default = hang()
    run(
        """
        async def main():
            asked = [asyncio.create_task(judge_of().judge(answer=str(i))) for i in range(3)]
            await asyncio.sleep(1.5)  # aiohttp is imported meanwhile
            sys.exit(3)
        asyncio.run(main())
        """,
        loopback.url,
        "aiohttp",
        expected=3,
    )
    assert len(loopback.requests) == 3


def test_importing_judges_imports_nothing_heavy() -> None:
    said = run(
        """
        heavy = {"litellm", "aiohttp", "jinja2", "numpy", "openai", "httpx", "pandas", "rich", "pydantic"}
        import judges, rubrics
        print(sorted(heavy.intersection(sys.modules)))
        for name in judges.__all__:
            getattr(judges, name)
        leaf = LLMJudge("{{ action | untrusted }}", Likert(1, 5), model="openai/m", api_base=url)
        client = ScriptedClient({"reason": "", "score": True})
        scripted = Judge("{{ a | untrusted }}", Binary(), model="m", client=client)
        print(scripted.judge_sync(a=1).score)
        print(sorted({"litellm", "aiohttp", "numpy", "openai"}.intersection(sys.modules)))
        """,
        "http://127.0.0.1:9/v1",
        "litellm",
    )
    assert said.splitlines() == ["[]", "1.0", "[]"]


def test_litellm_is_imported_by_the_first_call_off_the_loop_and_outside_its_time(loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD)
    said = run(
        """
        threads = {}
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "litellm":
                    threads["litellm"] = threading.current_thread().name
        sys.meta_path.insert(0, Finder())
        judge = judge_of(timeout=3.0, retries=0)  # about what the import takes
        async def main():
            asked = asyncio.gather(*(judge.judge(answer=str(i)) for i in range(3)))
            turns = 0
            while not asked.done():
                await asyncio.sleep(0.01)
                turns += 1
            print([type(verdict).__name__ for verdict in await asked], turns > 20)
        asyncio.run(main())
        print(threads["litellm"] not in ("MainThread", "judges-io", "rubrics-loop"))
        import litellm
        print(litellm.suppress_debug_info, litellm.callbacks, litellm.drop_params)
        print(os.environ["LITELLM_LOCAL_MODEL_COST_MAP"])
        """,
        loopback.url,
        "litellm",
    )
    assert said.splitlines() == ["['Verdict', 'Verdict', 'Verdict'] True", "True", "True [] False", "True"]

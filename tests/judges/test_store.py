"""The store: what it holds, what it replays, and what happens to the file."""

# ruff: noqa: ASYNC240 - the files are small

import asyncio
import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges import (
    Binary,
    Budget,
    ChatReply,
    ChatRequest,
    Judge,
    JudgeConfigError,
    JudgeFailure,
    Likert,
    LiteLLMClient,
    OpenAICompatibleClient,
    Prompt,
    ScriptedClient,
    Store,
    StoreWarning,
    Token,
    Usage,
    Verdict,
)
from tests.judges.loopback import LoopbackServer, logprobs, status, text, until_schema

GOOD = '{"score": 4}'
PROMPT = "Rate it.\n{{ answer | untrusted }}"
ROOT = Path(__file__).resolve().parents[2]


def judge_of(client: Any, store: Any, **options: Any) -> Judge:
    defaults: dict[str, Any] = {"reason": False, "client": client, "model": "m", "max_wait": 0.01, "store": store}
    return Judge(options.pop("prompt", PROMPT), options.pop("scale", Likert(1, 5)), **{**defaults, **options})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def kind(outcome: Any) -> str | None:
    return outcome.kind if isinstance(outcome, JudgeFailure) else None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.jsonl"


# -- what is stored, and what a hit is --------------------------------------------------------------------------------


async def test_a_hit_costs_nothing_and_is_marked(path: Path, loopback: LoopbackServer) -> None:
    loopback.default = text(GOOD, usage={"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13})
    budget = Budget(calls=1)
    judge = judge_of(OpenAICompatibleClient(loopback.url), path, budget=budget)
    paid = await judge.judge(answer="x")
    hit = await judge.judge(answer="x")
    again = await judge_of(OpenAICompatibleClient(loopback.url), Store(path), budget=budget).judge(answer="x")
    assert isinstance(paid, Verdict) and not paid.cached and paid.usage.calls == 1
    for verdict in (hit, again):
        assert isinstance(verdict, Verdict) and verdict.cached and verdict.usage == Usage()
        assert (verdict.score, verdict.label, verdict.reply) == (paid.score, paid.label, paid.reply)
    assert len(loopback.requests) == 1 and budget.spent.calls == 1


async def test_a_line_can_be_read_by_people(path: Path, loopback: LoopbackServer) -> None:
    loopback.default = until_schema("json_object", '{"score": 4, "reason": "café"}')
    judge = judge_of(
        OpenAICompatibleClient(loopback.url), path, prompt=Prompt(PROMPT), sampling={"temperature": 0.5}, samples=2
    )
    await judge.judge(answer="naïve\u2028")
    first, second = sorted(lines_of(path), key=lambda line: line["sample"])
    assert [first["sample"], second["sample"]] == [0, 1] and first["key"] != second["key"]
    assert first["model"] == "m" and first["endpoint"] == "127.0.0.1" and first["wire"] == "json_object"
    assert first["sampling"] == {"temperature": 0.5, "max_tokens": 1024}
    assert first["template"] == judge.prompt.hash and first["schema"]["properties"]["score"]
    assert first["messages"][-1]["content"].startswith("Rate it.") and "naïve" in path.read_text("utf-8")
    assert json.loads(first["reply"]["text"])["reason"] == "café" and first["reply"]["finish_reason"] == "stop"
    assert first["usage"]["total_tokens"] == 25 and first["at"].endswith("+00:00")
    port = loopback.url.split(":")[2].split("/")[0]
    assert port not in path.read_text("utf-8").replace(first["key"], "").replace(second["key"], "")


@pytest.mark.parametrize("make", [OpenAICompatibleClient, LiteLLMClient], ids=["aiohttp", "litellm"])
async def test_another_port_and_another_wire_form_are_the_same_request(path: Path, make: Callable[..., Any]) -> None:
    for run, wire in enumerate(("json_schema", "text", "json_object")):
        with LoopbackServer(text(GOOD)) as server:
            verdict = await judge_of(make(server.url, wire=wire), Store(path), model="openai/m").judge(answer="x")
            assert isinstance(verdict, Verdict) and verdict.cached == bool(run)
            assert len(server.requests) == (not run)


@pytest.mark.parametrize(
    "other",
    [
        {"model": "n"},
        {"endpoint": "elsewhere"},
        {"prompt": "Rate it!\n{{ answer | untrusted }}"},
        {"scale": Likert(1, 7)},
        {"reason": True},
        {"expected": True, "reason": None},
        {"sampling": {"seed": 1}},
        {"max_tokens": 1000},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_makes_another_request(path: Path, other: dict[str, Any]) -> None:
    script = ScriptedClient('{"reason": "r", "score": 4}')
    await judge_of(script, path).judge(answer="x")
    await judge_of(script, path, **other).judge(answer="x")
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"timeout": 5.0},
        {"retries": 0},
        {"concurrency": 1},
        {"budget": Budget(calls=0)},
        {"prompt": Prompt(PROMPT, name="renamed", version="2")},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_makes_no_other_request(path: Path, other: dict[str, Any]) -> None:
    script = ScriptedClient('{"reason": "r", "score": 4}')
    await judge_of(script, path).judge(answer="x")
    assert isinstance(await judge_of(script, path, **other).judge(answer="x"), Verdict)
    assert len(script.requests) == 1


async def test_samples_are_stored_one_by_one(path: Path) -> None:
    script = ScriptedClient(lambda request: {"score": request.sample + 1})
    three = await judge_of(script, path, samples=3).judge(answer="x")
    five = await judge_of(script, path, samples=5).judge(answer="x")
    assert isinstance(three, Verdict) and isinstance(five, Verdict)
    assert len(script.requests) == 5 and five.usage.calls == 2 and not five.cached
    assert three.score == pytest.approx(0.25) and five.score == pytest.approx(0.5)


async def test_log_probabilities_survive(path: Path, loopback: LoopbackServer) -> None:
    tokens = logprobs([('{"score":', -0.1, {}), (" 4", -0.5, {" 5": -1.0, " 2": -3.0}), ("}", -0.1, {})])
    loopback.default = text('{"score": 4}', logprobs=tokens)
    judge = judge_of(OpenAICompatibleClient(loopback.url), path, reason=None, expected=True)
    paid, hit = await judge.judge(answer="x"), await judge.judge(answer="x")
    again = await judge_of(OpenAICompatibleClient(loopback.url), Store(path, "none"), reason=None, expected=True).judge(
        answer="x"
    )
    for verdict in (paid, hit, again):
        assert isinstance(verdict, Verdict) and isinstance(paid, Verdict)
        assert verdict.score == paid.score and verdict.metadata == paid.metadata
    assert len(loopback.requests) == 1


async def test_infinitely_improbable_tokens_and_odd_bytes_survive(path: Path) -> None:
    top = ((" 4", -0.2), (" 1", float("-inf")), ("\ud800", -9.0))
    tokens = (Token('{"score":', b'{"score":', 0.0), Token(" 4", b" 4", -0.2, top), Token("}", b"}", 0.0))
    script = ScriptedClient(ChatReply(GOOD, "stop", logprobs=tokens))
    paid = await judge_of(script, path, reason=None, expected=True).judge(answer="x\ud800y")
    hit = await judge_of(script, Store(path, "none"), reason=None, expected=True).judge(answer="x\ud800y")
    assert isinstance(paid, Verdict) and isinstance(hit, Verdict) and hit.cached and hit.score == paid.score


# -- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "empty", "full"),
    [
        ("none", ("not_recorded", 0), ("hit", 0)),
        ("once", ("asked", 1), ("hit", 0)),
        ("new", ("asked", 1), ("hit", 0)),
        ("all", ("asked", 1), ("asked", 1)),
        ("rewrite", ("asked", 1), ("asked", 1)),
    ],
)
async def test_modes(path: Path, mode: Any, empty: Any, full: Any) -> None:
    for expected in (empty, full):
        script = ScriptedClient({"score": 2})
        outcome = await judge_of(script, Store(path, mode)).judge(answer="x")
        what = kind(outcome) or ("hit" if outcome.cached else "asked")
        assert (what, len(script.requests)) == expected
        path.unlink(missing_ok=True)
        await judge_of(ScriptedClient(GOOD), Store(path)).judge(answer="x")
    script = ScriptedClient({"score": 2})
    store = Store(path, mode)
    outcomes = [await judge_of(script, store).judge(answer=answer) for answer in ("y", "y", "x")]
    kinds = [kind(outcome) for outcome in outcomes]
    replayed = Store(path, "none")
    old = await judge_of(ScriptedClient([]), replayed).judge(answer="x")
    if mode in ("none", "once"):  # it was there, so nothing more is recorded
        assert kinds == ["not_recorded", "not_recorded", None] and not script.requests
        assert "replay only" in outcomes[0].message  # type: ignore[union-attr]
    else:
        assert kinds == [None, None, None] and len(script.requests) == {"new": 1, "all": 3, "rewrite": 3}[mode]
        assert isinstance(old, Verdict) and old.label == (4 if mode == "new" else 2)
    assert len(lines_of(path)) == {"none": 1, "once": 1, "new": 2, "all": 4, "rewrite": 3}[mode]


async def test_once_records_a_whole_run(path: Path) -> None:
    path.touch()
    script = ScriptedClient(GOOD)
    store = Store(path, "once")
    for answer in ("x", "y", "x"):
        assert isinstance(await judge_of(script, store).judge(answer=answer), Verdict)
    assert len(script.requests) == 2
    outcome = await judge_of(ScriptedClient(GOOD), Store(path, "once")).judge(answer="z")
    assert kind(outcome) == "not_recorded"


async def test_a_path_is_a_store_in_mode_new(path: Path) -> None:
    script = ScriptedClient(GOOD)
    first, second = judge_of(script, str(path)), judge_of(script, path)
    assert first.asker.exchanger.store is second.asker.exchanger.store
    assert repr(first.asker.exchanger.store) == f"Store({str(path)!r}, mode='new')"
    await first.judge(answer="x")
    await second.judge(answer="x")
    assert len(script.requests) == 1 == len(lines_of(path)) and os.listdir(path.parent) == ["x.jsonl"]


def test_what_is_no_store(path: Path) -> None:
    with pytest.raises(JudgeConfigError, match="mode is one of none, once, new, all, rewrite"):
        Store(path, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(JudgeConfigError, match="store is a path or a Store"):
        judge_of(ScriptedClient(GOOD), 7)


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([JudgeFailure("auth", "bad key", status=401)], "auth"),
        ([JudgeFailure("transport", "HTTP 500", status=500)] * 2, "transport"),
        (["hm", "hm"], "format"),
        (["", ""], "empty"),
        ([{"score": 9}, {"score": 8}], "out_of_scale"),
        (["hm", JudgeFailure("transport", "gone"), JudgeFailure("transport", "gone")], "transport"),
        ([ChatReply("", refusal="no")], "refused"),
        ([ChatReply('{"score', "length"), JudgeFailure("request", "max_tokens is too large", status=400)], "truncated"),
    ],
)
async def test_a_chain_that_failed_is_that_failure_in_none_and_asked_again_otherwise(
    path: Path, script: list[Any], expected: str
) -> None:
    failure = await judge_of(ScriptedClient(script), Store(path), retries=1).judge(answer="x")
    assert isinstance(failure, JudgeFailure) and failure.kind == expected and not failure.cached
    replayed = await judge_of(ScriptedClient([]), Store(path, "none"), retries=1).judge(answer="x")
    assert isinstance(replayed, JudgeFailure) and replayed.cached and replayed.usage == Usage()
    assert (replayed.kind, replayed.message, replayed.status) == (expected, failure.message, failure.status)
    assert replayed.attempts == 0
    again = ScriptedClient(GOOD)
    verdict = await judge_of(again, Store(path)).judge(answer="x")
    assert isinstance(verdict, Verdict) and not verdict.cached and verdict.usage.calls == len(again.requests) == 1
    final = await judge_of(ScriptedClient([]), Store(path, "none")).judge(answer="x")
    assert isinstance(final, Verdict) and final.cached


async def test_a_rerun_pays_for_what_failed_and_nothing_else(path: Path) -> None:
    def flaky(request: ChatRequest) -> Any:
        number = int(request.messages[-1]["content"].split("number ")[1].split()[0])
        return JudgeFailure("auth", "no") if number % 5 == 0 else GOOD

    script = ScriptedClient(flaky)
    judge = judge_of(script, Store(path))
    first = await asyncio.gather(*(judge.judge(answer=f"number {i} ") for i in range(20)))
    assert sum(isinstance(outcome, Verdict) for outcome in first) == 16 and len(script.requests) == 20
    for paid in (4, 0):
        script = ScriptedClient(GOOD)
        rerun = judge_of(script, Store(path))
        outcomes = await asyncio.gather(*(rerun.judge(answer=f"number {i} ") for i in range(20)))
        assert all(isinstance(outcome, Verdict) for outcome in outcomes) and len(script.requests) == paid


async def test_what_the_budget_stopped_is_not_recorded(path: Path) -> None:
    outcome = await judge_of(ScriptedClient(GOOD), Store(path), budget=Budget(calls=0)).judge(answer="x")
    assert kind(outcome) == "budget" and not lines_of(path)


async def test_an_outage_in_a_later_run_does_not_undo_a_recorded_reply(path: Path, loopback: LoopbackServer) -> None:
    await judge_of(ScriptedClient("hm"), Store(path), endpoint="e").judge(answer="x")
    loopback.default = status(403)
    client = OpenAICompatibleClient(loopback.url)
    assert kind(await judge_of(client, Store(path), endpoint="e").judge(answer="x")) == "auth"
    loopback.default = text(GOOD)
    assert isinstance(await judge_of(client, Store(path), endpoint="e").judge(answer="x"), Verdict)


# -- files ------------------------------------------------------------------------------------------------------------


async def test_a_torn_last_line_is_skipped_and_the_next_one_is_whole(path: Path) -> None:
    store = Store(path)
    judge = judge_of(ScriptedClient(GOOD), store)
    for answer in "abc":
        await judge.judge(answer=answer)
    store.close()
    whole = path.read_bytes()
    end = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (end + 1, end + 30, len(whole) // 2 + end // 2, len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        script = ScriptedClient(GOOD)
        store = Store(path)
        again = judge_of(script, store)
        outcomes = [await again.judge(answer=answer) for answer in "abcd"]
        store.close()
        assert all(isinstance(outcome, Verdict) for outcome in outcomes)
        assert len(script.requests) == (1 if cut == len(whole) - 1 else 2)
        final = judge_of(ScriptedClient([]), Store(path, "none"))
        assert all([isinstance(await final.judge(answer=answer), Verdict) for answer in "abcd"])


async def test_lines_that_are_no_exchanges_are_reported_and_skipped(path: Path) -> None:
    await judge_of(ScriptedClient(GOOD), Store(path)).judge(answer="x")
    (line,) = path.read_text().splitlines()
    others = [
        "hello",
        "[]",
        "7",
        "{}",
        '{"key": "k"}',
        '{"key": "k", "reply": {"text": 7}}',
        '{"key": "k", "failure": {"kind": "bored", "message": ""}}',
        '{"key": "k", "reply": {"text": "", "logprobs": [["a", [999], 0, []]]}}',
        '{"key": "k", "reply": {"text": "", "logprobs": 7}}',
        "[" * 100_000,
    ]
    for other in others:
        path.write_bytes(f"{other}\n\n{line}\n".encode("latin-1"))
        store = Store(path, "none")
        with pytest.warns(StoreWarning, match="line 1 is skipped"):
            store.load()
        assert isinstance(await judge_of(ScriptedClient([]), store).judge(answer="x"), Verdict)


@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_file_without_any_exchange_is_reported(path: Path, end: str) -> None:
    """It is no empty cassette: somebody has lost what was in it."""
    await judge_of(ScriptedClient(GOOD), Store(path)).judge(answer="x")
    torn = path.read_text()[:200]
    for only, message in ((torn, "holds no exchange, only one that was cut short"), ("hello", "line 1 is skipped")):
        path.write_text(only + end)
        with pytest.warns(StoreWarning, match=message):
            Store(path, "none").load()


@pytest.mark.parametrize("mode", ["new", "all", "rewrite", "once"])
async def test_a_store_that_cannot_be_written_is_known_before_anything_is_paid(tmp_path: Path, mode: Any) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    places = [tmp_path / "file" / "x.jsonl", tmp_path / "folder.jsonl", Path("/proc/no/x.jsonl")]
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        places.append(tmp_path / "locked" / "x.jsonl")
    for place in places:
        script = ScriptedClient(GOOD)
        with pytest.raises(JudgeConfigError, match="cannot be"):
            await judge_of(script, Store(place, mode)).judge(answer="x")
        assert not script.requests


async def test_a_recorded_store_that_cannot_be_written_replays_all_the_same(path: Path) -> None:
    await judge_of(ScriptedClient(GOOD), Store(path)).judge(answer="x")
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        assert isinstance(await judge_of(ScriptedClient([]), Store(path)).judge(answer="x"), Verdict)
    finally:
        path.parent.chmod(0o700)


async def test_a_store_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "b" / "x.jsonl")
    await judge_of(ScriptedClient(GOOD), store).judge(answer="x")
    store.close()
    await judge_of(ScriptedClient(GOOD), store).judge(answer="y")
    assert len(lines_of(store.path)) == 2


async def test_two_stores_of_one_file_in_one_process_lose_nothing(path: Path) -> None:
    one, two = Store(path), Store(path)
    await judge_of(ScriptedClient(GOOD), one).judge(answer="x")
    await judge_of(ScriptedClient(GOOD), two).judge(answer="y")
    await judge_of(ScriptedClient(GOOD), one).judge(answer="z")
    final = judge_of(ScriptedClient([]), Store(path, "none"))
    assert [kind(await final.judge(answer=answer)) for answer in "xyz"] == [None] * 3
    assert len(list(path.parent.iterdir())) == 2


async def test_the_latest_of_several_shards_counts(path: Path) -> None:
    one, two = Store(path, "all"), Store(path, "all")
    judges = {1: judge_of(ScriptedClient({"score": 1}), one), 2: judge_of(ScriptedClient({"score": 2}), two)}
    await judges[1].judge(answer="held")  # it holds the file, so the other writes a shard
    for order in ((1, 2), (2, 1)):
        for number in order:
            await judges[number].judge(answer="x")
        verdict = await judge_of(ScriptedClient([]), Store(path, "none")).judge(answer="x")
        assert isinstance(verdict, Verdict) and verdict.label == order[1]


async def test_a_store_is_read_while_another_writes_it(path: Path) -> None:
    writer = judge_of(ScriptedClient(GOOD), Store(path))
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            writer.judge_sync(answer=f"{number}" * 200)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(30):
            Store(path, "none").load()  # no warning: what is not whole yet is no fault
            await asyncio.sleep(0.002)
    finally:
        stop.set()
        thread.join()
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({line["key"] for line in written}) == len(written) > 0


def test_threads_write_whole_lines(path: Path) -> None:
    judge = judge_of(ScriptedClient(GOOD), Store(path))
    threads = [
        threading.Thread(target=lambda t=t: [judge.judge_sync(answer=f"{t} {i} " * 50) for i in range(25)])  # type: ignore[misc]
        for t in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({line["key"] for line in lines_of(path)}) == 200 == len(lines_of(path))


WORKER = """
import asyncio, sys
from judges import Judge, Likert, ScriptedClient, Store
path, number = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
judge = Judge("Rate.\\n{{ answer | untrusted }}", Likert(1, 5), reason=False, client=ScriptedClient('{"score": 4}'),
              model="m", store=Store(path))
async def main():
    n = 0
    while n < 100 or number == "forever":
        await asyncio.gather(*(judge.judge(answer=f"{number} {i}" + "x" * 3000) for i in range(n, n + 20)))
        n += 20
        print(n, flush=True)
asyncio.run(main())
"""


def start(path: Path, number: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-c", WORKER, str(path), str(number)]
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_processes_that_write_at_once_lose_no_line(path: Path) -> None:
    workers = [start(path, number) for number in range(3)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert [(worker.communicate(), worker.returncode)[1] for worker in workers] == [0, 0, 0]
    shards = sorted(path.parent.iterdir())
    lines = [line for shard in shards for line in lines_of(shard)]
    assert len(lines) == len({line["key"] for line in lines}) == 300
    final = Judge(
        "Rate.\n{{ answer | untrusted }}", Likert(1, 5), reason=False, client=ScriptedClient([]), model="m",
        store=Store(path, "none"),
    )  # fmt: skip
    for number in range(3):
        assert isinstance(final.judge_sync(answer=f"{number} 99" + "x" * 3000), Verdict)


def test_a_process_that_is_killed_while_it_writes_loses_nothing_that_was_reported(path: Path) -> None:
    worker = start(path, "forever")
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()
    reported = 0
    for line in worker.stdout:
        reported = int(line)
        if reported >= 200:
            worker.send_signal(signal.SIGKILL)
            break
    worker.communicate()
    judge = Judge(
        "Rate.\n{{ answer | untrusted }}", Likert(1, 5), reason=False, client=ScriptedClient(GOOD), model="m",
        store=Store(path),
    )  # fmt: skip
    outcomes = [judge.judge_sync(answer=f"forever {i}" + "x" * 3000) for i in range(reported)]
    assert all(outcome.cached for outcome in outcomes)
    assert not judge.judge_sync(answer="new").cached and len(list(path.parent.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_writes_a_shard_of_its_own(path: Path) -> None:
    store = Store(path)
    judge = judge_of(ScriptedClient(GOOD), store)
    judge.judge_sync(answer="x")
    with store._lock:  # as if another thread were writing
        child = os.fork()
        if child == 0:
            good = judge.judge_sync(answer="x").cached and not judge.judge_sync(answer="child").cached
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    judge.judge_sync(answer="parent")
    final = judge_of(ScriptedClient([]), Store(path, "none"))
    assert [kind(final.judge_sync(answer=answer)) for answer in ("x", "child", "parent")] == [None] * 3
    assert sorted(file.name for file in path.parent.iterdir()) == ["x.jsonl", "x.shard1.jsonl"]


def test_other_files_beside_it_are_none_of_its_shards(path: Path) -> None:
    for name in ("x.shard.jsonl", "x.shard1.json", "y.shard1.jsonl", "x.shard1.jsonl.bak", "xx.shard1.jsonl"):
        (path.parent / name).write_text("hello\n\n")
    Store(path, "none").load()
    Store(path, "rewrite").load()
    assert len(list(path.parent.iterdir())) == 5


def test_copies_of_a_store(path: Path) -> None:
    store = Store(path, "rewrite")
    assert copy.deepcopy(store) is store
    assert pickle.loads(pickle.dumps(store)).mode == "rewrite"
    judge = judge_of(ScriptedClient(GOOD), store)
    judge.judge_sync(answer="x")
    other = pickle.loads(pickle.dumps(store))  # a worker's copy must not empty it once more
    judge_of(ScriptedClient(GOOD), other).judge_sync(answer="y")
    final = judge_of(ScriptedClient([]), Store(path, "none"))
    assert [kind(final.judge_sync(answer=answer)) for answer in "xy"] == [None] * 2


async def test_a_big_store_is_read_without_holding_up_the_loop(path: Path) -> None:
    judge = judge_of(ScriptedClient(GOOD), Store(path))
    await judge.judge(answer="x")
    (line,) = path.read_bytes().splitlines()
    data = json.loads(line)
    with path.open("ab") as file:
        for number in range(30_000):
            file.write(json.dumps({**data, "key": f"{number:064}"}).encode() + b"\n")
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    began = time.perf_counter()
    assert (await judge_of(ScriptedClient([]), Store(path)).judge(answer="x")).cached
    took = time.perf_counter() - began
    watcher.cancel()
    assert worst < max(0.2, took / 2)


async def test_a_disk_that_is_full_is_told_and_the_next_line_is_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(path)
    judge = judge_of(ScriptedClient(GOOD), store)
    await judge.judge(answer="x")
    assert store._file is not None
    real = store._file._file

    class Full:
        def write(self, data: bytes) -> int:
            if len(data) < 100:
                raise OSError(28, "No space left on device")
            return real.write(data[: len(data) // 2]) or 0

        def close(self) -> None:
            real.close()

    monkeypatch.setattr(store._file, "_file", Full())
    with pytest.raises(JudgeConfigError, match=r"cannot be written: .*No space left"):
        await judge.judge(answer="y")
    await judge.judge(answer="z")
    final = judge_of(ScriptedClient([]), Store(path, "none"))
    assert [kind(await final.judge(answer=answer)) for answer in "xyz"] == [None, "not_recorded", None]


async def test_many_verdicts_a_second_come_from_the_store(path: Path) -> None:
    judge = judge_of(ScriptedClient('{"score": true}'), Store(path), scale=Binary())
    await judge.judge(answer="x")
    began = time.perf_counter()
    for _ in range(1000):
        await judge.judge(answer="x")
    assert time.perf_counter() - began < 5.0  # the goal is a fifth of a second; see benchmarks

"""What a judge's request costs, ours against others, in one process, alternating: `python benchmarks/judges.py`.

A loopback server (judge_server.py, a process of its own) answers after a fixed 50 ms; the prompts are 4 KB, each
different, and the reply is held to a JSON schema. In a round every contender makes its calls, one contender after
another, the first changing from round to round; a figure is the median of the rounds. CPU is that of this process,
all threads, whatever runs on after the last reply included. The lag is how late a task wakes that shares the caller's
event loop with the calls. What counts is the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import math
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from judge_server import FORMAT, MODEL, check, messages, pin, prompt, running, stats
from rich.console import Console
from rich.table import Table

sys.path.remove(str(Path(__file__).resolve().parent))  # this file has the name of the package it measures

# Before anything imports litellm: no fetch of prices, no `.env` of whoever runs this; and no proxy for the loopback.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION", NO_PROXY="127.0.0.1")
os.environ["no_proxy"] = "127.0.0.1"

TIMEOUT = 60.0
TICK = 0.005  # seconds the task that measures the lag sleeps
CRITERIA = 10

Call = Callable[[str], Awaitable[None]]
Close = Callable[[], Awaitable[None]]


class Skipped(Exception):
    """A contender that cannot run here; the text says why."""


# Ours. A factory gets the server's URL (to /v1) and returns what makes one call for a prompt, raising where the verdict
# is not label 4 of 5, and what closes it.


async def ours_aiohttp(url: str) -> tuple[Call, Close]:
    """`OpenAICompatibleClient` through the whole `LLMJudge` path."""
    return await leaf(module("judges").OpenAICompatibleClient(url))


async def ours_litellm(url: str) -> tuple[Call, Close]:
    """`LiteLLMClient` through the whole `LLMJudge` path; for such an address it asks litellm's `hosted_vllm`."""
    return await leaf(module("judges").LiteLLMClient(url))


async def leaf(client: Any) -> tuple[Call, Close]:
    judges = module("judges")
    judge = judges.LLMJudge(
        "Rate this report.\n\n{{ action | untrusted }}",
        judges.Likert(1, 5),
        model=MODEL,
        client=client,
        timeout=TIMEOUT,
        retries=0,
        concurrency=1024,
    )

    async def call(text: str) -> None:
        score = await judge(text, None)
        if score != 0.75:
            raise RuntimeError(f"ours: {score!r}")

    async def close() -> None:
        """The package closes its connections when the interpreter ends."""

    return call, close


# The others.


async def bare_litellm(url: str, provider: str = "openai") -> tuple[Call, Close]:
    """`litellm.acompletion`, to the text of the reply."""
    litellm = module("litellm")

    async def call(text: str) -> None:
        reply = await litellm.acompletion(
            model=f"{provider}/{MODEL}",
            messages=messages(text),
            response_format=FORMAT,
            api_base=url,
            api_key="none",
            num_retries=0,
            max_retries=0,
            timeout=TIMEOUT,
        )
        check(reply.choices[0].message.content)

    return call, close_litellm


async def bare_litellm_vllm(url: str) -> tuple[Call, Close]:
    """The same by the provider that our client asks litellm for."""
    return await bare_litellm(url, "hosted_vllm")


async def close_litellm() -> None:
    """Close the clients that litellm keeps for this loop, which it shares among all that use it."""
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await close_litellm_async_clients()


async def openai_sdk(url: str) -> tuple[Call, Close]:
    """`AsyncOpenAI`, to the text of the reply."""
    client = module("openai").AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=TIMEOUT)

    async def call(text: str) -> None:
        reply = await client.chat.completions.create(
            model=MODEL, messages=messages(text), response_format=FORMAT, timeout=TIMEOUT
        )
        check(reply.choices[0].message.content)

    return call, client.close


async def bare_aiohttp(url: str) -> tuple[Call, Close]:
    """`aiohttp`, a request and its JSON: the floor."""
    aiohttp = module("aiohttp")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Authorization": "Bearer none"},
        timeout=aiohttp.ClientTimeout(total=TIMEOUT),
    )
    address = f"{url}/chat/completions"

    async def call(text: str) -> None:
        body = {"model": MODEL, "messages": messages(text), "response_format": FORMAT}
        async with session.post(address, json=body) as response:
            response.raise_for_status()
            check((await response.json())["choices"][0]["message"]["content"])

    return call, session.close


async def autorubric(url: str) -> tuple[Call, Close]:
    """`autorubric`: one grade by ten criteria is ten requests, which it sends at once, each with its own 8 KB of
    instructions beside the prompt. So 6 grades at a time for 64 requests in flight, 26 for 256."""
    library, graders = module("autorubric"), module("autorubric.graders")
    logging.getLogger("autorubric").setLevel(logging.ERROR)
    config = library.LLMConfig(
        model=f"openai/{MODEL}",
        api_base=url,
        api_key="none",
        timeout=TIMEOUT,
        max_retries=1,  # attempts
        extra_params={"num_retries": 0, "max_retries": 0},  # what it hands on to litellm
    )
    grader = graders.CriterionGrader(judge_model_config=config)
    rubric = library.Rubric.from_dict(
        [{"weight": 1.0, "requirement": f"Names fact {i} of the report, with its date"} for i in range(CRITERIA)]
    )

    async def call(text: str) -> None:
        report = await rubric.grade(to_grade=text, grader=grader)
        # A failed request is left out of its score, so the score alone would not tell.
        if report.error or report.score != 1.0 or any(criterion.error for criterion in report.report):
            raise RuntimeError(f"autorubric: {report}")

    return call, close_litellm


def module(name: str) -> Any:
    try:
        return __import__(name, fromlist=["*"])
    except ModuleNotFoundError as error:
        raise Skipped(f"{error.name} is not installed") from error


@dataclass
class Contender:
    """What is measured: a name, a factory, and how many requests one of its calls makes."""

    name: str
    make: Callable[[str], Awaitable[tuple[Call, Close]]]
    requests: int = 1


CONTENDERS = [
    Contender("ours, aiohttp", ours_aiohttp),
    Contender("ours, litellm", ours_litellm),
    Contender("litellm", bare_litellm),
    Contender("litellm vllm", bare_litellm_vllm),
    Contender("openai", openai_sdk),
    Contender("aiohttp", bare_aiohttp),
    Contender("autorubric", autorubric, requests=CRITERIA),
]


@dataclass
class Figures:
    """What the rounds of a contender at one concurrency gave, an item a round; of lags, an item a tick."""

    requests: int
    rate: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    server_busy: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        lags = sorted(self.lags_ms) or [0.0]
        return {
            "calls_per_second": median(self.rate),
            "cpu_ms_per_call": median(self.cpu_ms),
            "lag_ms_median": median(lags),
            "lag_ms_p99": lags[min(len(lags) - 1, int(0.99 * len(lags)))],
            "server_busy": median(self.server_busy),
            "rounds": {"calls_per_second": self.rate, "cpu_ms_per_call": self.cpu_ms},
        }


async def settle() -> None:
    """Wait until what still runs in the background, such as a queue of log records, is done; 2 seconds at most."""
    for _ in range(40):
        before = time.process_time()
        await asyncio.sleep(0.05)
        if time.process_time() - before < 0.002:
            return


async def calls(call: Call, numbers: Iterator[int], count: int, workers: int) -> None:
    """`count` calls by `workers` tasks."""
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await call(prompt(next(numbers)))

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())


async def watch(lags_ms: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await asyncio.sleep(TICK)
        lags_ms.append((time.perf_counter() - start - TICK) * 1e3)


async def measure(url: str, call: Call, numbers: Iterator[int], count: int, concurrency: int, into: Figures) -> None:
    """One round of one contender. Its connections are opened beforehand: some close what is idle for seconds."""
    workers = max(1, round(concurrency / into.requests))
    count = math.ceil(count / (workers * into.requests)) * workers  # whole waves
    await calls(call, numbers, workers, workers)
    await settle()
    gc.collect()
    requests, server_cpu = stats(url)
    lag = asyncio.create_task(watch(into.lags_ms))
    await asyncio.sleep(0)
    cpu, start = time.process_time(), time.perf_counter()
    await calls(call, numbers, count, workers)
    seconds = time.perf_counter() - start
    lag.cancel()
    await settle()
    cpu = time.process_time() - cpu
    after, server_after = stats(url)
    if after - requests != count * into.requests:
        raise RuntimeError(f"{count} calls made {after - requests} requests, not {count * into.requests}")
    into.rate.append(count * into.requests / seconds)
    into.cpu_ms.append(cpu / (count * into.requests) * 1e3)
    into.server_busy.append((server_after - server_cpu) / seconds)


async def run(url: str, options: argparse.Namespace, console: Console) -> dict[int, dict[str, Figures]]:
    """Every contender, at every concurrency."""
    made: dict[str, tuple[Contender, Call, Close]] = {}
    numbers = iter(range(sys.maxsize))
    results: dict[int, dict[str, Figures]] = {}
    try:
        for contender in CONTENDERS:
            if not options.only or contender.name in options.only:
                try:
                    made[contender.name] = (contender, *await contender.make(url))
                except Skipped as reason:
                    console.print(f"{contender.name}: skipped, {reason}")
        for _, call, _ in made.values():
            await calls(call, numbers, 20, 4)
        for concurrency in options.concurrency:
            figures = results[concurrency] = {name: Figures(made[name][0].requests) for name in made}
            for i in range(options.rounds):
                names = list(made)
                for name in names[i % len(names) :] + names[: i % len(names)]:
                    await measure(url, made[name][1], numbers, options.calls, concurrency, figures[name])
    finally:
        for _, _, close in made.values():
            await close()
    return results


def table(concurrency: int, figures: dict[str, Figures], rounds: int) -> Table:
    shown = Table(title=f"{concurrency} in flight, median of {rounds} rounds")
    shown.add_column("contender", no_wrap=True)
    for head in ("calls/s", "÷ litellm", "÷ aiohttp", "CPU ms/call", "÷ litellm", "÷ aiohttp", "lag ms, p99", "server"):
        shown.add_column(head, justify="right")
    summaries = {name: item.summary() for name, item in figures.items()}

    def ratios(name: str, key: str) -> list[str]:
        bases = [summaries.get(base) for base in ("litellm", "aiohttp")]
        return [f"{summaries[name][key] / base[key]:.2f}" if base else "–" for base in bases]

    for name, values in summaries.items():
        rate, cpu = values["calls_per_second"], values["cpu_ms_per_call"]
        cells = [f"{rate:.0f}", *ratios(name, "calls_per_second"), f"{cpu:.2f}", *ratios(name, "cpu_ms_per_call")]
        lags = f"{values['lag_ms_median']:.1f}, {values['lag_ms_p99']:.0f}"
        shown.add_row(name, *cells, lags, f"{values['server_busy']:.0%}")
        if (per := figures[name].requests) > 1:
            shown.add_row(f"  a grade of {per}", f"{rate / per:.1f}", "", "", f"{cpu * per:.1f}")
    return shown


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("rubrics", "litellm", "openai", "aiohttp", "autorubric"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000, help="of a contender in a round; made up to whole waves")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 256], metavar="N", help="requests in flight")
    parser.add_argument("--latency", type=float, default=0.05, help="the server's, in seconds")
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(map(repr, names))}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    console = Console(width=120)
    with running(options.latency) as url:
        pinned = pin(0)
        results = asyncio.run(run(url, options, console))
    console.print(", ".join(f"{name} {number}" for name, number in versions().items()), highlight=False)
    console.print("client on core 0, server on core 1" if pinned else "not pinned to cores")
    for concurrency, figures in results.items():
        console.print(table(concurrency, figures, options.rounds))
    if options.json:
        kept = {"latency": options.latency, "calls": options.calls, "pinned": pinned, "versions": versions()}
        summaries = {c: {name: item.summary() for name, item in figures.items()} for c, figures in results.items()}
        written = {**kept, "concurrency": summaries}
        options.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

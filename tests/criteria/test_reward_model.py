"""`RewardModel` against a server on the loopback interface that speaks each protocol, and with functions."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from collections.abc import Iterator
from math import exp
from typing import Any

import pytest
from aiohttp import web

from rubrics import Gate, Rubric, Score, Sequential, Step, StructureError, Trajectory, WeightedSum
from rubrics.criteria import RewardModel
from rubrics.criteria.endpoints import RewardModelError
from rubrics.fingerprinting import fingerprint_of, fingerprints
from rubrics.rescoring import rescore
from tests.leaves import until


class Server:
    """Speaks the protocols: the number for a text is that of its characters. Notes what it is asked."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.failing: list[web.Response] = []  # answered first, one each
        self.longest = 1000  # longer texts are refused
        self.together = 0  # answers wait until so many were under way at once
        self.held = False  # answers wait to be let go
        self.busy = self.most = 0
        self.answer: Any = None  # in place of what the protocol answers
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        assert self.started.wait(10)

    def _serve(self) -> None:
        async def start() -> None:
            app = web.Application()
            app.router.add_post("/{protocol}", self.asked)
            self.runner = web.AppRunner(app)
            await self.runner.setup()
            site = web.TCPSite(self.runner, "127.0.0.1", 0)
            await site.start()
            self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
            self.changed = asyncio.Condition()
            self.started.set()

        self.loop.run_until_complete(start())
        self.loop.run_forever()

    def let_go(self) -> None:
        self.held, self.together = False, 0
        asyncio.run_coroutine_threadsafe(self._tell(), self.loop).result(10)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        self.let_go()
        asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def at(self, protocol: str = "classify") -> str:
        return f"http://127.0.0.1:{self.port}/{protocol}"

    async def asked(self, request: web.Request) -> web.Response:
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            self.headers.append(request.headers)
            body = await request.json()
            self.bodies.append(body)
            await self._tell()
            async with self.changed:
                await self.changed.wait_for(lambda: self.most >= self.together and not self.held)
            if self.failing:
                return self.failing.pop(0)
            if self.answer is not None:
                return web.json_response(self.answer)
            return self._answered(request.match_info["protocol"], body)
        finally:
            self.busy -= 1

    def _answered(self, protocol: str, body: dict[str, Any]) -> web.Response:
        if protocol == "score":
            pairs = zip(body["text_1"], body["text_2"], strict=True)
            data = [{"index": i, "score": len(a) + len(b) / 10} for i, (a, b) in enumerate(pairs)]
            return web.json_response({"data": data[::-1]})
        texts = body["input"] if "input" in body else body["inputs"]
        if protocol == "predict":
            texts = ["|".join(pair) for pair in texts]
        if any(len(text) > self.longest for text in texts):
            return web.json_response({"error": "a text is too long"}, status=413)
        numbers = [len(text) / 10 for text in texts]
        if protocol == "classify":
            data: list[Any] = [{"index": i, "label": "LABEL_0", "probs": [n, 1 - n]} for i, n in enumerate(numbers)]
            return web.json_response({"data": data[::-1]})
        if protocol == "pooling":
            return web.json_response({"data": [{"index": i, "data": [[0.0], [n]]} for i, n in enumerate(numbers)]})
        return web.json_response([[{"label": "bad", "score": 1 - n}, {"label": "good", "score": n}] for n in numbers])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between attempts, nobody waits."""
    monkeypatch.setattr("rubrics.criteria.endpoints.sleep", lambda seconds: asyncio.sleep(0))


def score_of(rubric: Rubric, action: Any, task: Any = None) -> Any:
    return rubric.episode(task).step(action, None)


def reason_of(rubric: Rubric, action: Any) -> str | None:
    return rubric.evaluate_sync(action, None).reason


# -- what is asked, and what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "options", "body"),
    [
        ("classify", {"label": 0, "model": "rm"}, {"model": "rm", "input": ["four"]}),
        ("classify", {"label": 0, "raw": True}, {"input": ["four"], "use_activation": False}),
        ("pooling", {}, {"input": ["four"]}),
        ("predict", {"label": "good"}, {"inputs": [["four"]], "truncate": False, "raw_scores": False}),
        ("text-classification", {"label": "good"}, {"inputs": ["four"], "parameters": {"top_k": None}}),
        (
            "text-classification",
            {"label": "good", "raw": True},
            {"inputs": ["four"], "parameters": {"top_k": None, "function_to_apply": "none"}},
        ),
    ],
)
def test_each_protocol(server: Server, protocol: Any, options: dict[str, Any], body: dict[str, Any]) -> None:
    rubric = RewardModel(server.at(protocol), protocol=protocol, **options)
    score = score_of(rubric, "four")
    assert score == 0.4
    assert (score.reason, score.metadata) == ("the reward model gave 0.4", {"raw": 0.4})
    assert server.bodies == [body]
    assert "Authorization" not in server.headers[0]


def test_pairs(server: Server) -> None:
    asked = {"question": "task.question", "bounds": (0, 10)}
    rubric = RewardModel(server.at("score"), protocol="score", **asked)
    assert score_of(rubric, "four", {"question": "why"}) == 3.4
    assert server.bodies[-1] == {"text_1": ["why"], "text_2": ["four"]}
    rubric = RewardModel(server.at("predict"), protocol="predict", label="good", **asked)
    assert score_of(rubric, "four", {"question": "why"}) == 0.8
    assert server.bodies[-1]["inputs"] == [["why", "four"]]


def test_questions_in_one_text(server: Server) -> None:
    task = {"question": "why {text}"}
    rubric = RewardModel(server.at(), label=0, question="task.question", bounds=(0, 9))
    score_of(rubric, "four", task)
    template = "<user>{question}<assistant>{text}"
    score_of(
        RewardModel(server.at(), label=0, question="task.question", template=template, bounds=(0, 9)), "four", task
    )
    assert [body["input"] for body in server.bodies] == [
        ["why {text}\n\nfour"],
        ["<user>why {text}<assistant>four"],
    ]


def test_the_text_is_at_a_path(server: Server) -> None:
    rubric = RewardModel(server.at(), label=0, of="action.messages[-1]")
    assert score_of(rubric, {"messages": [{"content": "question"}, {"content": "two"}]}) == 0.3
    assert reason_of(rubric, {"text": "two"}) == "there is no action.messages"
    assert len(server.bodies) == 1


def test_transforms(server: Server) -> None:
    def score(**options: Any) -> Any:
        return score_of(RewardModel(server.at(), label=0, **options), "four")

    assert score(transform="sigmoid") == 1 / (1 + exp(-0.4))
    assert score(transform="affine", bounds=(-0.4, 0.6)) == 0.8
    assert score(transform="affine", bounds=(0.5, 0.6)) == 0.0
    assert RewardModel(server.at(), transform="sigmoid", bounds=(0, 9)).range == (0.0, 1.0)
    assert RewardModel(server.at(), bounds=(-9, 9)).range == (-9.0, 9.0)
    large = RewardModel(scorer=lambda texts: [1000.0, -1000.0], transform="sigmoid")
    assert large.evaluate_batch(["a", "b"], [None] * 2).scores.tolist() == [1.0, 0.0]


def test_a_number_outside_of_the_bounds_is_no_score(server: Server) -> None:
    rubric = RewardModel(server.at(), label=0)
    assert score_of(rubric, "twelve chars") is None
    assert reason_of(rubric, "twelve chars") == (
        "the reward model gave no score: it gave 1.2, outside of the bounds 0 to 1; give others, or a transform"
    )


def test_the_class_must_be_named_where_there_are_several(server: Server) -> None:
    assert "it has the classes 0, 1: give label=0|1" in str(reason_of(RewardModel(server.at()), "four"))
    rubric = RewardModel(server.at("predict"), protocol="predict", label="fine")
    assert "it has the classes bad, good" in str(reason_of(rubric, "four"))
    server.answer = {"data": [{"index": 0, "probs": [0.25]}]}
    assert score_of(RewardModel(server.at()), "four") == 0.25


@pytest.mark.parametrize(
    "answer",
    [{"data": []}, {"result": 1}, {"data": [{"index": 0, "probs": ["high"]}]}, [1], {"data": [{"probs": [1]}]}],
)
def test_something_else_is_no_answer(server: Server, answer: Any) -> None:
    server.answer = answer
    assert "answered something else than 'classify' does" in str(reason_of(RewardModel(server.at()), "four"))


# -- many texts -------------------------------------------------------------------------------------------------------


def test_batches(server: Server) -> None:
    rubric = RewardModel(server.at(), label=0, batch_size=3, bounds=(0, 9))
    texts = ["x" * n for n in range(10)]
    batch = WeightedSum([rubric], [1.0]).evaluate_batch([*texts, None], [None] * 11)
    assert batch.scores.tolist()[:10] == [n / 10 for n in range(10)]
    assert batch.statuses[10] == "unscored"
    assert [len(body["input"]) for body in server.bodies] == [3, 3, 3, 1]
    assert sorted(text for body in server.bodies for text in body["input"]) == texts


def test_a_gate_keeps_texts_from_the_server(server: Server) -> None:
    short = RewardModel(scorer=lambda texts: [float(len(text) < 5) for text in texts])
    tree = Sequential(Gate(short), RewardModel(server.at(), label=0))
    assert tree.evaluate_batch(["one", "seventeen", "four"], [None] * 3).scores.tolist() == [0.3, 0.0, 0.4]
    assert [body["input"] for body in server.bodies] == [["one", "four"]]


async def test_steps_that_are_scored_at_the_same_time_are_sent_together(server: Server) -> None:
    rubric = RewardModel(server.at(), label=0, batch_size=8, concurrency=2, bounds=(0, 9))
    scores = await asyncio.gather(*(rubric("x" * n, None) for n in range(40)))
    assert scores == [n / 10 for n in range(40)]
    assert [len(body["input"]) for body in server.bodies] == [8] * 5
    assert server.most <= 2


async def test_requests_under_way_are_limited(server: Server) -> None:
    server.together = 3
    rubric = RewardModel(server.at(), label=0, batch_size=1, concurrency=3, bounds=(0, 9))
    await asyncio.gather(*(rubric("x" * n, None) for n in range(12)))
    assert server.most == 3


async def test_a_request_does_not_wait_for_one_that_is_under_way(server: Server) -> None:
    server.together = 2
    rubric = RewardModel(server.at(), label=0)
    first = asyncio.create_task(rubric("one", None))
    await until(lambda: server.bodies)
    assert await rubric("four", None) == 0.4
    assert await first == 0.3


async def test_a_step_that_is_cancelled_leaves_the_others(server: Server) -> None:
    server.held = True
    rubric = RewardModel(server.at(), label=0, bounds=(0, 9))
    tasks = [asyncio.create_task(rubric(text, None)) for text in ("one", "three")]
    await until(lambda: server.bodies)
    tasks[0].cancel()
    await asyncio.to_thread(server.let_go)
    assert await tasks[1] == 0.5
    assert tasks[0].cancelled()


def test_rescoring_sends_texts_together(server: Server) -> None:
    runs = [Trajectory(str(i), steps=[Step("x" * i, {"done": True})], end="terminated") for i in range(9)]
    rows = list(rescore(runs, RewardModel(server.at(), label=0)))
    assert [row.reward for row in rows] == [i / 10 for i in range(9)]
    assert [row.evaluation.reason for row in rows if row.evaluation][4] == "the reward model gave 0.4"
    assert len(server.bodies) < 9


# -- what goes wrong --------------------------------------------------------------------------------------------------


def busy(status: int = 503, **headers: str) -> web.Response:
    return web.Response(status=status, text="busy", headers=headers)


def test_another_attempt_is_made(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("rubrics.criteria.endpoints.sleep", sleep)
    server.failing = [busy(), busy(429, **{"Retry-After": "7"}), busy(500, **{"Retry-After": "Tomorrow"})]
    assert score_of(RewardModel(server.at(), label=0, retries=3), "four") == 0.4
    assert waits == [0.5, 7.0, 2.0]
    assert len(server.bodies) == 4


def test_what_does_not_get_better_is_unscored(server: Server) -> None:
    server.failing = [busy() for _ in range(3)]
    rubric = RewardModel(server.at(), label=0, retries=2)
    assert reason_of(rubric, "four") == f"the reward model gave no score: {server.at()} answered 503: busy"
    server.failing = [busy(401)]
    assert score_of(rubric, "four") is None
    assert len(server.bodies) == 4


def test_or_raises(server: Server) -> None:
    server.failing = [busy(401)]
    with pytest.raises(RewardModelError, match="answered 401: busy") as caught:
        score_of(WeightedSum({"rm": RewardModel(server.at(), on_error="raise")}, {"rm": 1.0}), "four")
    assert caught.value.status == 401
    assert caught.value.__notes__ == ["in rubric rm (RewardModel)"]


def test_one_text_that_is_refused_does_not_take_the_others_with_it(server: Server) -> None:
    server.longest = 5
    texts = ["one", "seventeen", "four"]
    batch = RewardModel(server.at(), label=0).evaluate_batch(texts, [None] * 3)
    assert batch.statuses == ["scored", "unscored", "scored"]
    raising = RewardModel(server.at(), label=0, on_error="raise")
    batch = raising.evaluate_batch(texts, [None] * 3, on_error="keep")
    assert batch.statuses == ["scored", "error", "scored"]


def test_a_server_that_does_not_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("rubrics.criteria.endpoints.sleep", sleep)
    server.held = True
    rubric = RewardModel(server.at(), timeout=0.05, retries=1)
    assert reason_of(rubric, "four") == f"the reward model gave no score: {server.at()}: no answer within 0.05 s"
    assert waits == [0.5]  # of its requests, a busy machine may not have sent one in time
    assert "Connect" in str(reason_of(RewardModel("http://127.0.0.1:9/classify", retries=0), "four"))


def test_the_key_is_sent_and_nowhere_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    rubric = RewardModel(server.at(), label=0, key_env="RM_KEY")
    with pytest.raises(StructureError, match="the environment variable RM_KEY"):
        score_of(rubric, "four")
    monkeypatch.setenv("RM_KEY", "very-secret\n")
    assert score_of(rubric, "four") == 0.4
    assert server.headers[-1]["Authorization"] == "Bearer very-secret"
    server.failing = [web.Response(status=403, text="no such key: very-secret")]
    assert str(reason_of(rubric, "four")).endswith("answered 403: no such key: ***")
    assert "very-secret" not in repr(vars(rubric)) + repr(pickle.dumps(rubric)) + json.dumps(fingerprints(rubric))


# -- functions --------------------------------------------------------------------------------------------------------


def lengths(texts: list[str]) -> list[float]:
    if any(len(text) > 8 for text in texts):
        raise ValueError("too long")
    return [len(text) / 10 for text in texts]


def test_a_function_is_a_model_too() -> None:
    asked: list[int] = []

    def scorer(texts: list[str]) -> list[float]:
        asked.append(len(texts))
        return lengths(texts)

    rubric = RewardModel(scorer=scorer, batch_size=2)
    assert not rubric.is_async_tree
    score = rubric("four", None)
    assert isinstance(score, Score)
    assert (score, score.reason) == (0.4, "the reward model gave 0.4")
    batch = rubric.evaluate_batch(["one", "", "three"], [None] * 3)
    assert batch.scores.tolist() == [0.3, 0.0, 0.5]
    assert asked == [1, 2, 1]


def test_what_a_function_fails_on_is_found() -> None:
    texts = ["one", "seventeen", "four"]
    batch = RewardModel(scorer=lengths).evaluate_batch(texts, [None] * 3)
    assert batch.statuses == ["scored", "unscored", "scored"]
    assert batch.reason(1) == "the reward model gave no score: too long"
    with pytest.raises(ValueError, match="too long"):
        RewardModel(scorer=lengths, on_error="raise").evaluate_batch(texts, [None] * 3)
    few = RewardModel(scorer=lambda texts: [])
    assert reason_of(few, "one") == "the reward model gave no score: the scorer gave 0 numbers for 1 texts"
    assert reason_of(RewardModel(scorer=lambda texts: [float("nan")]), "one") == (
        "the reward model gave no score: it gave nan"
    )


# -- arguments --------------------------------------------------------------------------------------------------------

URL = "http://localhost/classify"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give an endpoint, or a scorer"),
        ({"endpoint": URL, "scorer": lengths}, "and not both"),
        ({"endpoint": "localhost:8000"}, "an address such as"),
        ({"endpoint": "http://me:pw@localhost/classify"}, "holds a password"),
        ({"endpoint": URL, "protocol": "grpc"}, "protocol is one of 'classify'"),
        ({"endpoint": URL, "protocol": "score"}, "give question"),
        ({"endpoint": URL, "transform": "softmax"}, "transform is one of"),
        ({"endpoint": URL, "bounds": (1, 0)}, "the smaller one first"),
        ({"endpoint": URL, "batch_size": 0}, "batch_size is a whole number from 1"),
        ({"endpoint": URL, "timeout": 0}, "positive number of seconds"),
        ({"endpoint": URL, "template": "text"}, "has no {text}"),
        ({"endpoint": URL, "template": "{question} {text}"}, "or neither"),
        ({"endpoint": URL, "of": "nothing"}, "a path into the step begins with"),
        ({"endpoint": URL, "on_error": "zero"}, "on_error is one of"),
    ],
)
def test_wrong_arguments_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message.replace("{", r"\{")):
        RewardModel(**options)


def test_copies_are_equal_and_settings_are_in_the_fingerprint() -> None:
    rubric = RewardModel(URL, label=0, transform="sigmoid")
    assert fingerprint_of(copy.deepcopy(rubric)) == fingerprint_of(pickle.loads(pickle.dumps(rubric)))
    assert fingerprint_of(rubric) == fingerprint_of(RewardModel(URL, label=0, transform="sigmoid"))
    assert fingerprint_of(rubric) != fingerprint_of(RewardModel(URL, label=1, transform="sigmoid"))

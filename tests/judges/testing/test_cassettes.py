"""Cassettes from outside: the nearest recorded request, and what is dropped when one is pruned."""

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from judges import Binary, GroupwiseJudge, Judge, Likert, PairwiseJudge, ScriptedClient, Store
from judges.clients.protocol import ChatRequest
from judges.testing.cassettes import nearest, prune, read_cassette, why_not_recorded
from judges.testing.golden import GoldenError, GoldenRow, GoldenSet
from judges.testing.running import Sending, run_suite
from judges.testing.suite import Suite

ASKS = "Is this reply courteous?\n{{ reply | untrusted }}"
TEXTS = {"kind": "Thank you for your patience with us.", "rude": "Read the manual before you write."}


def rows(texts: dict[str, str] = TEXTS) -> GoldenSet:
    return GoldenSet(
        tuple(
            GoldenRow.model_validate({"id": id, "inputs": {"reply": text}, "label": id == "kind"})
            for id, text in texts.items()
        )
    )


def suite(folder: Path, asks: str = ASKS, texts: dict[str, str] = TEXTS, reply: Any = None, **options: Any) -> Suite:
    own = {name: options.pop(name) for name in ("samples", "perturbations", "response") if name in options}
    client = ScriptedClient(reply or {"score": True})
    judge = Judge(asks, options.pop("scale", Binary()), **{"client": client, "model": "m", "reason": False, **options})
    return Suite.of(judge, rows(texts), name="tone", cassette=folder / "tone.jsonl", **own)


def recorded(folder: Path, **options: Any) -> Path:
    run_suite(suite(folder, **options), Sending(mode="all"))
    return folder / "tone.jsonl"


def why(wanted: Suite, id: str) -> str:
    """Why a row of a suite has no verdict where nothing is sent."""
    told = why_not_recorded(wanted, run_suite(wanted)[id])
    assert told is not None
    return told


def changed(told: str) -> list[str]:
    """The lines of a difference that are on one side alone."""
    return [line for line in told.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_another_prompt_is_compared_with_the_rows_own_request(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    told = why(suite(tmp_path, "Is this reply polite?\n{{ reply | untrusted }}"), "rude")
    (rude,) = [entry for entry in read_cassette(path) if TEXTS["rude"] in entry.messages[-1]["content"]]
    assert told.splitlines()[:2] == [f"--- recorded, {rude.place}", "+++ wanted"]
    assert changed(told) == ["-Is this reply courteous?", "+Is this reply polite?"]


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"model": "n"}, ["-model: m", "+model: n"]),
        ({"endpoint": "elsewhere"}, ["-endpoint: scripted", "+endpoint: elsewhere"]),
        (
            {"sampling": {"seed": 1}},
            ['-sampling: {"max_tokens": 1024}', '+sampling: {"seed": 1, "max_tokens": 1024}'],
        ),
        ({"samples": 2}, ["-sample: 0", "+sample: 1"]),
        (
            {"scale": Likert(1, 5)},
            [
                *('-   "type": "boolean"', '+   "type": "integer",', '+   "enum": [', "+    1,", "+    2,", "+    3,"),
                *("+    4,", "+    5", "+   ]"),
                '-Reply with JSON: {"score": true or false}',
                "+The score means: 1: lowest; 5: highest.",
                '+Reply with JSON: {"score": 1, 2, 3, 4 or 5}',
            ],
        ),
    ],
    ids=["model", "endpoint", "sampling", "sample", "scale"],
)
def test_what_else_may_differ(tmp_path: Path, options: dict[str, Any], difference: list[str]) -> None:
    recorded(tmp_path)
    wanted = suite(tmp_path, **options) if "scale" not in options else scaled(tmp_path, options["scale"])
    assert changed(why(wanted, "rude")) == difference


def test_what_differs_in_the_endpoint_alone_says_how_it_is_found_anywhere(tmp_path: Path) -> None:
    recorded(tmp_path)
    assert "With `endpoint: scripted` in the suite" in why(suite(tmp_path, endpoint="elsewhere"), "rude")
    assert "With `endpoint" not in why(suite(tmp_path, endpoint="elsewhere", model="n"), "rude")


def scaled(folder: Path, scale: Likert) -> Suite:
    golden = GoldenSet((GoldenRow.model_validate({"id": "rude", "inputs": {"reply": TEXTS["rude"]}, "score": 1}),))
    judge = Judge(ASKS, scale, client=ScriptedClient({"score": 1}), model="m", reason=False)
    return Suite.of(judge, golden, name="tone", cassette=folder / "tone.jsonl")


def test_a_template_that_differs_in_a_comment_differs_in_the_boundary(tmp_path: Path) -> None:
    recorded(tmp_path)
    minus, plus, *_ = changed(why(suite(tmp_path, f"{ASKS}{{# a comment #}}"), "rude"))
    assert minus.startswith("-<<<UNTRUSTED ") and plus.startswith("+<<<UNTRUSTED ") and minus[1:] != plus[1:]


def test_a_new_row_is_compared_with_the_one_most_like_it(tmp_path: Path) -> None:
    recorded(tmp_path)
    told = why(suite(tmp_path, texts={**TEXTS, "worse": "Read the manual before you write again!"}), "worse")
    assert changed(told) == ["-Read the manual before you write.", "+Read the manual before you write again!"]


def test_a_question_that_was_asked_again(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    path.write_text(path.read_text().replace('\\"score\\": true', '\\"score\\": 7'))
    wanted = suite(tmp_path)
    assert run_suite(wanted)["rude"].answers[0].failure == "not_recorded"
    assert "The reply to it cannot be used as a verdict" in why(wanted, "rude")


def test_nothing_to_compare(tmp_path: Path) -> None:
    path = tmp_path / "tone.jsonl"
    assert why(suite(tmp_path), "rude") == f"There is no cassette {path}."
    path.touch()
    assert why(suite(tmp_path), "rude") == f"The cassette {path} holds no exchange."
    assert why_not_recorded(suite(tmp_path), run_suite(suite(tmp_path), Sending(mode="new"))["rude"]) is None


def test_a_difference_is_no_longer_than_can_be_read(tmp_path: Path) -> None:
    recorded(tmp_path)
    long = "\n".join(f"line {i} {'x' * 1000}" for i in range(300))
    told = why(suite(tmp_path, texts={"long": long}), "long").splitlines()
    assert len(told) == 81 and told[-1].startswith("… and 2")
    assert max(map(len, told)) == 401


def test_the_nearest_of_a_thousand_is_found_at_once(tmp_path: Path) -> None:
    texts = {f"r{i}": " ".join(f"word{i * j % 997}" for j in range(300)) for i in range(1000)}
    path = recorded(tmp_path, texts=texts)
    wanted = suite(tmp_path, "Is this reply polite?\n{{ reply | untrusted }}", texts)
    request = wanted.subject.request(wanted.golden["r700"])
    began = perf_counter()
    told = nearest(path, request, "scripted")
    assert perf_counter() - began < 5.0  # a twentieth of that on an idle machine
    assert changed(told) == ["-Is this reply courteous?", "+Is this reply polite?"]


@pytest.mark.parametrize("kind", [PairwiseJudge, GroupwiseJudge])
def test_the_request_of_a_row_is_what_is_sent(kind: type[PairwiseJudge] | type[GroupwiseJudge]) -> None:
    sent: list[ChatRequest] = []
    judge = kind(client=ScriptedClient(lambda request: sent.append(request) or "?"), model="m", reason=False)
    pair = {"inputs": {"a": "x", "b": "y"}, "winner": "a"}
    group = {"inputs": {"candidates": {"x": "X", "y": "Y"}}, "ranking": ["x", "y"]}
    golden = GoldenSet((GoldenRow.model_validate({"id": "1", **(pair if kind is PairwiseJudge else group)}),))
    tried = Suite.of(judge, golden, name="s", samples=2)
    run_suite(tried, Sending(live=True))
    first = [request for request in sent if len(request.messages) == 2]  # the others ask again
    questions = [(order, sample) for order in tried.orders for sample in range(2)]
    assert len(first) == len(questions)
    for question in questions:
        assert tried.subject.request(golden["1"], *question) in first


# -- pruning ----------------------------------------------------------------------------------------------------------


def replies(path: Path) -> list[str]:
    return [str(entry.reply.text) for entry in read_cassette(path) if entry.reply]


def test_what_was_recorded_again_is_dropped(tmp_path: Path) -> None:
    recorded(tmp_path, reply={"score": False})
    path = recorded(tmp_path, reply={"score": True})
    assert len(read_cassette(path)) == 4
    found = prune(path)
    assert (len(found.kept), len(found.superseded), found.unasked, found.shards) == (2, 2, (), ())
    assert replies(path) == ['{"score": true}'] * 2
    assert not prune(path).changes


def test_what_no_suite_asks_for_is_dropped(tmp_path: Path) -> None:
    recorded(tmp_path, asks="Is it nice?\n{{ reply | untrusted }}")
    path = recorded(tmp_path)
    before = path.read_bytes()
    dry = prune(path, [suite(tmp_path)], dry_run=True)
    assert (len(dry.kept), len(dry.unasked)) == (2, 2)
    assert path.read_bytes() == before
    prune(path, [suite(tmp_path)])
    assert path.read_bytes() == b"".join(before.splitlines(keepends=True)[2:])
    assert run_suite(suite(tmp_path))["rude"].answers[0].label is True


def test_what_one_of_several_suites_asks_for_stays(tmp_path: Path) -> None:
    recorded(tmp_path, model="n")
    path = recorded(tmp_path)
    assert not prune(path, [suite(tmp_path), suite(tmp_path, model="n")]).changes


def test_perturbations_and_questions_asked_again_are_asked_for(tmp_path: Path) -> None:
    options = {"perturbations": ["padding"], "response": "reply", "reply": ["?", *[{"score": True}] * 20]}
    path = recorded(tmp_path, **options)
    assert len(read_cassette(path)) == 5
    assert not prune(path, [suite(tmp_path, **options)]).changes


def test_shards_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "tone.jsonl"
    holder = Store(path, "all")
    holder.load()
    holder.open()
    recorded(tmp_path)  # into a shard beside it
    with pytest.raises(GoldenError, match=r"tone.jsonl: another process is writing to it"):
        prune(path)
    assert prune(path, dry_run=True).changes
    holder.close()
    found = prune(path)
    assert [shard.name for shard in found.shards] == ["tone.shard1.jsonl"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["tone.jsonl"]
    assert len(replies(path)) == 2


def test_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "ab')
    recorded(tmp_path)
    prune(path)
    assert len(path.read_bytes().splitlines()) == 2
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_cassette_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="there is no such cassette"):
        prune(tmp_path / "x.jsonl")

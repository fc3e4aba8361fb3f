"""Expected scores: the probabilities of the labels at the score's own token."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from judges import (
    Binary,
    ChatReply,
    Choice,
    Judge,
    JudgeConfigError,
    JudgeFailure,
    Likert,
    Numeric,
    Scale,
    ScriptedClient,
    Token,
    Verdict,
    label_probabilities,
)
from judges.clients.reading import tokens_of

Alternatives = Mapping[str, float]  # probabilities by text


def token(text: str, alternatives: Alternatives | None = None, own: float = 1e-9, data: bytes | None = None) -> Token:
    found = alternatives or {}
    probability = found.get(text, own)
    return Token(
        text,
        text.encode() if data is None else data,
        math.log(probability),
        tuple((other, math.log(part)) for other, part in found.items()),
    )


def tokens(parts: Sequence[str | tuple[str, Alternatives] | Token]) -> tuple[Token, ...]:
    """Tokens, of which those that are texts are certain: another label among their alternatives would mislead."""
    made = []
    for part in parts:
        if isinstance(part, str):
            made.append(token(part, {part: 1.0 - 1e-9, "1": 1e-9}))
        else:
            made.append(part if isinstance(part, Token) else token(*part))
    return tuple(made)


async def ask(
    scale: Scale,
    parts: Sequence[str | tuple[str, Alternatives] | Token] | None,
    text: str | None = None,
    **options: Any,
) -> Verdict | JudgeFailure:
    found = None if parts is None else tokens(parts)
    written = text if text is not None else b"".join(part.bytes for part in found or ()).decode()
    client = ScriptedClient(ChatReply(written, "stop", logprobs=found))
    judge = Judge("Rate.", scale, model="m", client=client, expected=True, **options)
    verdict = await judge.judge()
    assert all(request.top_logprobs == 20 for request in client.requests)
    return verdict


async def verdict(*args: Any, **options: Any) -> Verdict:
    found = await ask(*args, **options)
    assert isinstance(found, Verdict), found
    return found


async def failure(*args: Any, **options: Any) -> JudgeFailure:
    found = await ask(*args, **options)
    assert isinstance(found, JudgeFailure), found
    return found


# -- by hand ----------------------------------------------------------------------------------------------------------

FIVE = {"4": 0.5, "5": 0.25, "3": 0.125, "x": 0.125}


async def test_the_mean_over_the_labels_weighted_by_their_probabilities() -> None:
    found = await verdict(Likert(1, 5), ['{"', "score", '":', " ", ("4", FIVE), "}"])
    # (.5 · .75 + .25 · 1 + .125 · .5) / .875
    assert found.score == pytest.approx(0.6875 / 0.875)
    assert found.label == 4 and found.reason is None
    assert found.metadata["mass"] == pytest.approx(0.875)
    expected = {1: 0.0, 2: 0.0, 3: 1 / 7, 4: 4 / 7, 5: 2 / 7}
    assert found.metadata["probabilities"] == pytest.approx(expected)


async def test_yes_or_no() -> None:
    found = await verdict(Binary(), ['{"score":', (" true", {" true": 0.6, " false": 0.3, " null": 0.1}), "}"])
    assert found.score == pytest.approx(2 / 3) and found.label is True
    assert found.metadata["probabilities"] == pytest.approx({True: 2 / 3, False: 1 / 3})


async def test_a_choice() -> None:
    scale = Choice({"good": 1.0, "fair": 0.5, "bad": 0.0})
    found = await verdict(scale, ['{"score":', ' "', ("fair", {"fair": 0.5, "good": 0.25, "bad": 0.25}), '"}'])
    assert found.score == pytest.approx(0.5) and found.label == "fair"


async def test_the_score_may_be_far_from_the_label_that_was_drawn() -> None:
    found = await verdict(Likert(1, 5), ['{"score": ', ("1", {"1": 0.1, "5": 0.9}), "}"])
    assert found.label == 1 and found.score == pytest.approx(0.9)


@given(st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=5))
def test_the_score_is_the_mean_for_any_probabilities(parts: list[float]) -> None:
    total = sum(parts)
    given_ = {str(number): math.log(part / total) for number, part in enumerate(parts, 1)}
    found = label_probabilities(given_.items(), [str(number) for number in range(1, 6)])
    assert list(found.values()) == pytest.approx([part / total for part in parts])


# -- token boundaries -------------------------------------------------------------------------------------------------

YES_NO = Choice({"yes": 1.0, "no": 0.0})


@pytest.mark.parametrize(
    "parts",
    [
        ['{"score": "', ("yes", {"yes": 0.75, "no": 0.25}), '"}'],
        ['{"score":', ' "', ("yes", {"yes": 0.5, "Yes": 0.125, "YES": 0.125, "no": 0.25}), '"}'],
        ['{"score": ', ('"yes', {'"yes': 0.75, '"no': 0.25}), '"}'],
        ['{"score":', (' "yes', {' "yes': 0.5, '"yes': 0.25, ' "no': 0.25}), '"}'],
        ['{"score":', (' "yes"', {' "yes"': 0.75, ' "no"': 0.25}), "}"],
        ['{"score":', (' "yes"}', {' "yes"}': 0.75, ' "no"}': 0.25})],
        ['{"score', ('": "yes', {'": "yes': 0.75, '": "no': 0.25}), '"}'],
        ['{"', ('score": "yes', {'score": "yes': 0.75, 'score": "no': 0.25}), '"}'],
        [('{"score": "yes"}', {'{"score": "yes"}': 0.75, '{"score": "no"}': 0.25})],
        ['{"score": "', ("y", {"y": 0.75, "n": 0.25}), "es", '"}'],
        ['{"score": "', ("ye", {"ye": 0.75, "no": 0.25}), 's"}'],
        ['{"score": "', " ", ("yes", {"yes": 0.75, "no": 0.25}), '"}'],
        ['{"score": "', (" yes", {" yes": 0.75, " no": 0.25}), '"}'],
        ['```json\n{"score": "', ("yes", {"yes": 0.75, "no": 0.25}), '"}\n```'],
        ['So: {"score"', " : ", "\n", '"', ("yes", {"yes": 0.75, "no": 0.25}), '"', "} Done."],
        ['{"no": "no", "score": "', ("yes", {"yes": 0.75, "no": 0.25}), '", "more": "no"}'],
        ['é “😀” {"score": "', ("yes", {"yes": 0.75, "no": 0.25}), '"}'],
        ['<think>{"score": "no"} or {"score": "yes"}</think>{"score": "', ("yes", {"yes": 0.75, "no": 0.25}), '"}'],
    ],
)
async def test_the_label_is_found_wherever_tokens_begin_and_end(parts: Any) -> None:
    found = await verdict(YES_NO, parts)
    assert found.score == pytest.approx(0.75) and found.label == "yes"
    assert found.metadata["mass"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "parts",
    [
        ['{"score":', (" 4", {" 4": 0.5, " 5": 0.5}), "}"],
        ['{"score":', (" 4}", {" 4}": 0.5, " 5}": 0.25, " 5": 0.25})],
        ['{"score": ', ("4}\n", {"4}\n": 0.5, "5}\n": 0.5})],
        ['{"score":', ("4", {"4": 0.5, " 5": 0.5}), ".0}"],
        ['{"score', ('": 4', {'": 4': 0.5, '": 5': 0.5}), "}"],
        ['{"score": ', ("4,", {"4,": 0.5, "5,": 0.5}), ' "more": 1}'],
    ],
)
async def test_a_number_is_found_wherever_tokens_begin_and_end(parts: Any) -> None:
    found = await verdict(Likert(1, 5), parts)
    assert found.score == pytest.approx(0.875) and found.metadata["mass"] == pytest.approx(1.0)


async def test_what_else_begins_like_a_label_is_none() -> None:
    alternatives = {"yes": 0.5, "no": 0.25, "not": 0.1, "yesterday": 0.1, "": 0.03, '"': 0.02}
    found = await verdict(YES_NO, ['{"score": "', ("yes", alternatives), '"}'])
    assert found.metadata["mass"] == pytest.approx(0.75) and found.score == pytest.approx(2 / 3)


async def test_the_beginning_of_two_labels_counts_for_neither() -> None:
    scale = Choice({"good": 1.0, "great": 0.5, "bad": 0.0})
    found = await verdict(scale, ['{"score": "', ("g", {"g": 0.2, "go": 0.4, "bad": 0.4}), 'ood"}'])
    assert found.metadata["mass"] == pytest.approx(0.8) and found.score == pytest.approx(0.5)


async def test_a_chosen_token_that_is_not_among_its_alternatives_counts() -> None:
    chosen = Token("4", b"4", math.log(0.25), (("5", math.log(0.75)),))
    found = await verdict(Likert(1, 5), ['{"score": ', chosen, "}"])
    assert found.score == pytest.approx(0.25 * 0.75 + 0.75) and found.metadata["mass"] == pytest.approx(1.0)


async def test_tokens_that_hold_parts_of_characters() -> None:
    good, bad = "好".encode(), "坏".encode()
    before = '{"é": "😀", "score": "'.encode()
    parts = [Token("?", before[:9], -1.0), Token("?", before[9:10], -1.0), Token("?", before[10:], -1.0)]
    whole = token("好", {"好": 0.75, "坏": 0.25})
    found = await verdict(Choice({"好": 1.0, "坏": 0.0}), [*parts, whole, '"}'])
    assert found.score == pytest.approx(0.75)
    split = [Token("\ufffd", good[:1], -0.1, (("\ufffd", -0.1), ("x", -5.0))), Token("\ufffd", good[1:], -0.1)]
    assert (await failure(Choice({"好": 1.0, "坏": 0.0}), [*parts, *split, '"}'])).kind == "logprobs"
    assert good[:1] == bad[:1] == b"\xe5"


async def test_a_server_may_show_less_than_it_generated() -> None:
    parts = ["```json\n", '{"score": ', ("4", {"4": 0.5, "5": 0.5}), "}", "\n```", "<|im_end|>"]
    found = await verdict(Likert(1, 5), parts, text='{"score": 4}')
    assert found.score == pytest.approx(0.875)
    thinking = ["<think>", "I guess 1, 2 or 3.", "</think>"]
    assert (await verdict(Likert(1, 5), thinking + parts, text='{"score": 4}')).score == pytest.approx(0.875)


async def test_among_equal_objects_the_last_is_the_answer_where_the_tokens_are_the_reply() -> None:
    parts = ['{"score": ', ("4", {"4": 1.0}), "}", "\n", '{"score": ', ("4", {"4": 0.5, "5": 0.5}), "}"]
    assert (await verdict(Likert(1, 5), parts)).score == pytest.approx(0.875)


# -- no silent fallback -----------------------------------------------------------------------------------------------

SURE = ("4", {"4": 0.9, "5": 0.1})


@pytest.mark.parametrize(
    ("parts", "text", "said"),
    [
        (None, '{"score": 4}', "without log probabilities"),
        ([], '{"score": 4}', "without log probabilities"),
        ([Token('{"score": 4}', b'{"score": 4}', -0.1)], None, "without log probabilities"),
        (['{"score": ', Token("4", b"4", -0.1), "}"], None, "without alternatives"),
        (['{"score": ', SURE, "}"], '{"score":4}', "cannot be located"),
        (['{"score": 4}', '{"score": ', SURE, "}"], '{"score": 4}', "cannot be located"),
        (['{"score": ', SURE, "}"], "｛＂score＂：4｝", "cannot be located"),
        (['{"score": ', ("4", {"4": 0.3, "5": 0.19, "four": 0.51}), "}"], None, "0.490 of the probability"),
        (['{"score": ', ("4", {"four": 0.5, "five": 0.5}, 1e-30), "}"], None, "0.000 of the probability"),
        (['{"score": ', Token("4", b"4", math.nan, (("4", math.nan),)), "}"], None, "nan of the probability"),
        (['{"score": ', Token("4", b"4", -math.inf, (("x", -0.1),)), "}"], None, "0.000 of the probability"),
        (['{"score": ', Token("4", b"4", -9999.0, (("x", -0.1),)), "}"], None, "0.000 of the probability"),
    ],
)
async def test_where_the_labels_cannot_be_weighed_there_is_no_score(parts: Any, text: str | None, said: str) -> None:
    found = await failure(Likert(1, 5), parts, text=text)
    assert found.kind == "logprobs" and said in found.message
    assert found.attempts == 1  # not asked again: it would not help


async def test_the_least_mass_can_be_set() -> None:
    parts = ['{"score": ', ("4", {"4": 0.3, "5": 0.1, "four": 0.6}), "}"]
    assert (await verdict(Likert(1, 5), parts, min_mass=0.4 - 1e-9)).score == pytest.approx(0.8125)
    assert (await failure(Likert(1, 5), parts, min_mass=0.41)).kind == "logprobs"
    none = ['{"score": ', Token("4", b"4", -math.inf, (("four", 0.0),)), "}"]
    assert (await failure(Likert(1, 5), none, min_mass=0)).kind == "logprobs"


@pytest.mark.parametrize("value", [math.inf, 800.0, 1e-9])
async def test_a_probability_above_1_is_1(value: float) -> None:
    chosen = Token("4", b"4", value, (("4", value), ("5", -math.inf)))
    assert (await verdict(Likert(1, 5), ['{"score": ', chosen, "}"])).score == pytest.approx(0.75)


async def test_a_reply_that_gives_no_verdict_gives_no_expected_one() -> None:
    assert (await failure(Likert(1, 5), ['{"score": ', ("9", {"9": 0.5, "5": 0.5}), "}"])).kind == "out_of_scale"
    assert (await failure(Likert(1, 5), ["4"])).kind == "format"


async def test_a_lone_surrogate_in_the_reply_is_no_crash() -> None:
    found = await failure(Likert(1, 5), ['{"score": ', SURE, "}"], text='\ud800{"x": "\ud800", "score": 4}')
    assert found.kind == "logprobs"


# -- scales -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scale",
    [
        Likert(1, 10),
        Likert(0, 100),
        Likert(0, 10**12),
        Likert(-1, 10),
        Numeric(),
        Choice({"A": 1, "AB": 0}),
        Choice({"yes": 1, "Yes and no": 0.5, "no": 0}),
        Choice({"ß": 1, "SSS": 0}),
        Likert(1, 5, abstain=True),
        Binary(abstain=True),
    ],
)
def test_a_scale_whose_labels_a_token_cannot_tell_apart_is_refused_when_built(scale: Scale) -> None:
    with pytest.raises(JudgeConfigError, match="expected=True"):
        Judge("Rate.", scale, expected=True, client=ScriptedClient(""))


@pytest.mark.parametrize("scale", [Binary(), Likert(1, 9), Likert(0, 9), Likert(10, 99), Likert(-2, 2), YES_NO])
def test_other_scales_are_taken(scale: Scale) -> None:
    judge = Judge("Rate.", scale, expected=True, client=ScriptedClient(""))
    assert judge.scale is scale and list(judge.form.schema["properties"]) == ["score"]


def test_a_reason_and_an_expected_score_exclude_each_other() -> None:
    with pytest.raises(JudgeConfigError, match="after a written reason"):
        Judge("Rate.", Likert(), expected=True, reason=True, client=ScriptedClient(""))
    judge = Judge("Rate.", Likert(), expected=True, client=ScriptedClient(""))
    assert '"reason"' not in "".join(message["content"] for message in judge.messages())
    assert '"reason"' not in judge.messages()[0]["content"] and list(judge.form.schema["properties"]) == ["score"]


# -- label_probabilities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "labels", "sums"),
    [
        (["A", " A", "a", '"A', "'A'", "“A”", "A.", "A,", "Ａ", "\nA"], ["A", "B"], [10, 0]),
        (["AB", "b)", "The", "", " ", '"'], ["A", "B"], [0, 0]),
        (["m", "M", " m", '"M"', "mm"], ["m", "M"], [2, 2]),
        (["tr", "True", "f", "falsey", "t"], ["true", "false"], [3, 1]),
        (["1", "10", "1.", "2"], ["1", "2"], [2, 1]),
        (["1", "10"], ["1", "10"], [1, 1]),
    ],
)
def test_spellings_of_one_label_are_summed(texts: list[str], labels: list[str], sums: list[int]) -> None:
    found = label_probabilities([(text, math.log(0.01)) for text in texts], labels)
    assert found == pytest.approx({label: number / 100 for label, number in zip(labels, sums, strict=True)})


def test_the_preferences_of_alpaca_eval(shared_data: Path) -> None:
    means = {}
    for name in ("claude21", "nullmodel_injection"):
        with (shared_data / f"judging/alpacaeval_{name}_logprobs.jsonl").open() as file:
            rows = [json.loads(line) for line in file]
        preferences = []
        for row in rows:
            (first,) = tokens_of(row["raw_completion"]["logprobs"]["content"]) or ()
            by_label = label_probabilities(first.top, ["m", "M"])
            switched = random.Random(f"is_switched_outputs{row['instruction']}0").choices([False, True])[0]
            second = "m" if switched else "M"
            preference = by_label[second] / sum(by_label.values())
            assert preference == pytest.approx(float(row["preference"]) - 1.0, abs=5e-11)
            preferences.append(preference)
        means[name] = sum(preferences) / len(preferences)
    assert means == pytest.approx({"claude21": 0.1156, "nullmodel_injection": 0.8086}, abs=5e-5)

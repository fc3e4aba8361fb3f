"""Scales: what is on one, how it is worded, and where it lies in [0, 1]."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, strategies as st

from judges import Binary, Choice, JudgeConfigError, Likert, Numeric, Scale, scale_from
from judges.extract import extract
from judges.form import KeyedForm, SingleForm
from judges.scale import ReadError

GRADES = Choice({"A": 1.0, "B": 0.5, "F": 0.0})
LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def kind(scale: Scale, value: Any) -> str:
    with pytest.raises(ReadError) as caught:
        scale.read(value)
    return caught.value.kind


# -- what is on a scale -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "value", "label", "score"),
    [
        (Binary(), True, True, 1.0),
        (Binary(), False, False, 0.0),
        (Likert(1, 5), 1, 1, 0.0),
        (Likert(1, 5), 4, 4, 0.75),
        (Likert(1, 5), 4.0, 4, 0.75),
        (Likert(0, 10), -0.0, 0, 0.0),
        (Likert(-2, 2), -1, -1, 0.25),
        (Likert(0, 100), 85, 85, 0.85),
        (Numeric(), 0.25, 0.25, 0.25),
        (Numeric(), 1, 1, 1.0),
        (Numeric(-1, 1), -1.0, -1.0, 0.0),
        (Numeric(0, 100), 85.5, 85.5, 0.855),
        (GRADES, "A", "A", 1.0),
        (GRADES, " b\n", "B", 0.5),
        (GRADES, "Ｆ", "F", 0.0),
    ],
)
def test_a_value_on_the_scale(scale: Scale, value: Any, label: Any, score: float) -> None:
    read = scale.read(value)
    assert read == label and type(read) is type(label)
    assert scale.score(read) == pytest.approx(score) and math.copysign(1.0, scale.score(read) or 0.0) == 1.0


INF = float("inf")
NAN = float("nan")


@pytest.mark.parametrize(
    ("scale", "value"),
    [
        *[(Binary(), value) for value in (1, 0, 1.0, "true", "yes", None, [], {}, [True])],
        *[(Likert(1, 5), value) for value in (True, False, "4", "four", None, [4], {"value": 4}, "")],
        *[(Numeric(), value) for value in (True, False, "0.5", "50%", None, [0.5], {})],
        *[(GRADES, value) for value in (1, 1.0, True, None, ["A"], {"A": 1})],
    ],
)
def test_another_type_is_no_score(scale: Scale, value: Any) -> None:
    assert kind(scale, value) == "format"


@pytest.mark.parametrize(
    ("scale", "value"),
    [
        *[(Likert(1, 5), value) for value in (0, 6, 2.5, 4.000001, -1, 10**400, -(10**400), 1e300, INF, -INF, NAN)],
        *[(Numeric(), value) for value in (-0.5, 1.0000001, 80, 10**400, INF, -INF, NAN)],
        (Numeric(0, 100), 950),
        *[(GRADES, value) for value in ("", "C", "AB", "A or B", "a+", "grade: A", "not A", "A\u200b", "A.")],
    ],
)
def test_a_score_beyond_the_scale(scale: Scale, value: Any) -> None:
    assert kind(scale, value) == "out_of_scale"


@pytest.mark.parametrize("scale", [Binary(), Likert(), Numeric(), GRADES])
def test_null_is_an_abstention_only_where_one_is_allowed(scale: Scale) -> None:
    assert kind(scale, None) == "format"
    allowing = scale_from({**scale.to_dict(), "abstain": True})
    assert allowing.read(None) is None and allowing.score(None) is None
    assert "null" in SingleForm(allowing, True).instruction and "null" not in SingleForm(scale, True).instruction


@pytest.mark.parametrize(
    ("label", "reply"),
    [
        ("Straße", "STRASSE"),
        ("ﬁne", "FINE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("é", "e\u0301"),
        ("İ", "i\u0307"),
        ("½", "1⁄2"),
        ("Ａ", "a"),
        ("so so", " So\u00a0so "),
    ],
)
def test_labels_are_compared_after_nfkc_strip_and_casefold(label: str, reply: str) -> None:
    assert Choice({label: 1, "other": 0}).read(reply) == label


@pytest.mark.parametrize(("label", "reply"), [("İyi", "iyi"), ("ı", "i"), ("yes", "ye\u200bs"), ("a-b", "a b")])
def test_labels_that_only_look_alike_differ(label: str, reply: str) -> None:
    assert kind(Choice({label: 1, "other": 0}), reply) == "out_of_scale"


# -- schemas ----------------------------------------------------------------------------------------------------------


@st.composite
def scales(draw: st.DrawFn) -> Scale:
    abstain = draw(st.booleans())
    which = draw(st.sampled_from(["binary", "likert", "numeric", "choice"]))
    if which == "binary":
        return Binary(abstain=abstain)
    if which == "likert":
        low = draw(st.integers(-50, 50))
        return Likert(low, low + draw(st.integers(1, 60)), abstain=abstain)
    if which == "numeric":
        bound = st.floats(-1e6, 1e6)
        low_bound, high_bound = sorted((draw(bound), draw(bound)))
        assume(high_bound - low_bound > 1e-3)
        return Numeric(low_bound, high_bound, abstain=abstain)
    labels = draw(st.lists(LABELS, min_size=2, max_size=5))
    try:
        return Choice({label: draw(st.floats(0, 1)) for label in labels}, abstain=abstain)
    except JudgeConfigError:
        assume(False)
        raise


def values_on(scale: Scale) -> st.SearchStrategy[Any]:
    """Values that the schema allows."""
    on: st.SearchStrategy[Any] = st.booleans()
    if isinstance(scale, Likert):
        on = st.integers(scale.low, scale.high).flatmap(lambda n: st.sampled_from([n, float(n)]))
    if isinstance(scale, Numeric):
        on = st.floats(scale.low, scale.high)
    if isinstance(scale, Choice):
        on = st.sampled_from(scale.labels)
    return st.one_of(on, st.none()) if scale.abstain else on


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-70, 120),
    st.floats(allow_nan=False, allow_infinity=False),  # JSON has none, and no schema speaks of them
    st.text(max_size=4),
    st.just([]),
    st.just({}),
)


def allowed(value: Any, schema: dict[str, Any]) -> bool:
    try:
        jsonschema.Draft202012Validator(schema).validate(value)
    except jsonschema.ValidationError:
        return False
    return True


@given(st.data(), scales())
def test_whatever_the_schema_allows_is_read_and_lies_between_0_and_1(data: st.DataObject, scale: Scale) -> None:
    jsonschema.Draft202012Validator.check_schema(scale.schema)
    value = data.draw(st.one_of(values_on(scale), ANYTHING))
    try:
        label = scale.read(value)
    except ReadError:
        assert not allowed(value, scale.schema)
    else:
        score = scale.score(label)
        assert (score is None) == (value is None) and (score is None or 0.0 <= score <= 1.0)
        assert allowed(label, scale.schema)
        if not isinstance(scale, Choice):
            assert allowed(value, scale.schema)


@given(st.data(), scales(), st.booleans(), st.booleans())
def test_whatever_the_schema_of_a_reply_allows_is_read(
    data: st.DataObject, scale: Scale, reason: bool, evidence: bool
) -> None:
    form = SingleForm(scale, reason, range(3) if evidence else None)
    schema = form.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == ["reason"] * reason + ["evidence"] * evidence + ["score"]
    assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False
    said: dict[str, Any] = {}
    if reason:
        said["reason"] = data.draw(st.text(st.characters(exclude_categories=["Cs"])))
    if evidence:
        said["evidence"] = data.draw(st.lists(st.sampled_from([0, 1, 2, 2.0])))
    said["score"] = data.draw(values_on(scale))
    assert allowed(said, schema)
    for text in (json.dumps(said), json.dumps(said, ensure_ascii=False, indent=2)):
        answer = extract(text, form).answer
        assert answer.label == scale.read(said["score"])
        assert answer.reason == said.get("reason")
        assert answer.evidence == (tuple(dict.fromkeys(map(int, said["evidence"]))) if evidence else None)


@given(st.data(), st.dictionaries(LABELS, scales(), min_size=1, max_size=4), st.booleans())
def test_whatever_the_schema_of_several_answers_allows_is_read(
    data: st.DataObject, by_id: dict[str, Scale], reason: bool
) -> None:
    form = KeyedForm(by_id, reason)
    jsonschema.Draft202012Validator.check_schema(form.schema)
    said = {
        key: {**({"reason": "words"} if reason else {}), "score": data.draw(values_on(scale))}
        for key, scale in by_id.items()
    }
    assert allowed(said, form.schema)
    answer = extract(json.dumps(said, ensure_ascii=False), form).answer
    assert {key: one.label for key, one in answer.items()} == {k: by_id[k].read(said[k]["score"]) for k in by_id}


def test_short_scales_of_whole_numbers_are_listed_in_the_schema() -> None:
    assert Likert(1, 5).schema == {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    assert Likert(0, 100).schema == {"type": "integer", "minimum": 0, "maximum": 100}


# -- wording ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (Binary(), ["true or false"]),
        (Binary("right", "wrong"), ["true or false", "true: right", "false: wrong"]),
        (Likert(1, 5), ["1, 2, 3, 4 or 5", "1: lowest", "5: highest"]),
        (Likert(0, 2, {2: "good", 0: "bad"}), ["0, 1 or 2", "0: bad; 2: good"]),
        (Likert(0, 100), ["a whole number from 0 to 100", "0: lowest; 100: highest"]),
        (Numeric(), ["a number from 0 (lowest) to 1 (highest)"]),
        (Numeric(0, 1234567.5), ["a number from 0 (lowest) to 1234567.5 (highest)"]),
        (Choice({"A": 1, "B": 0}, {"A": "right"}), ['"A" or "B"', '"A": right']),
        (Choice({'say "hi"': 1, "a\nb": 0}), ['"say \\"hi\\"" or "a\\nb"']),
    ],
)
def test_the_model_is_told_what_it_may_answer(scale: Scale, said: list[str]) -> None:
    instruction = SingleForm(scale, True).instruction
    assert all(words in instruction for words in said), instruction
    assert instruction.index('"reason"') < instruction.index('"score"')
    assert scale.wording in said[0]


def test_several_answers_in_words() -> None:
    one = KeyedForm({"a": Binary(), 'b"': Binary()}, False).instruction
    assert '"a": {"score": true or false}, "b\\"": {"score": true or false}' in one and "reason" not in one
    two = KeyedForm({"a": Binary("yes", "no"), "b": Likert(1, 2)}, True).instruction
    assert 'The score of "a" means: true: yes; false: no.' in two and "1 or 2" in two


# -- building one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: Likert(5, 1),
        lambda: Likert(1, 1),
        lambda: Likert(1.0, 5),  # type: ignore[arg-type]
        lambda: Likert(True, 5),
        lambda: Likert(1, 5, {6: "beyond"}),
        lambda: Likert(1, 5, {True: "one"}),
        lambda: Likert(1, 5, {"one": "one"}),  # type: ignore[dict-item]
        lambda: Numeric(1.0, 1.0),
        lambda: Numeric(0, INF),
        lambda: Numeric(NAN, 1),
        lambda: Numeric(0, 10**400),
        lambda: Numeric(-1.7e308, 1.7e308),
        lambda: Numeric(False, 1),
        lambda: Choice({"A": 1.0}),
        lambda: Choice({}),
        lambda: Choice({"A": 1.0, "a ": 0.0}),
        lambda: Choice({"straße": 1.0, "STRASSE": 0.0}),
        lambda: Choice({"A": 1.0, " ": 0.0}),
        lambda: Choice({"A": 1.0, 2: 0.0}),  # type: ignore[dict-item]
        lambda: Choice({"A": 1.0, "B": 1.5}),
        lambda: Choice({"A": 1.0, "B": NAN}),
        lambda: Choice({"A": True, "B": 0}),
        lambda: Choice({"A": 1.0, "B": "0"}),  # type: ignore[dict-item]
        lambda: Choice(["A", "B"]),  # type: ignore[arg-type]
        lambda: Choice({"A": 1, "B": 0}, {"C": "none"}),
        lambda: Binary(true=1),  # type: ignore[arg-type]
        lambda: Binary(abstain=1),  # type: ignore[arg-type]
        lambda: scale_from("stars"),
        lambda: scale_from({"type": "likert", "top": 5}),
        lambda: scale_from({"low": 1}),
        lambda: scale_from({"type": ["likert"]}),
        lambda: scale_from({"type": "likert", "anchors": ["abc"]}),
        lambda: scale_from({"type": "choice", "options": {"A": 1, "B": 0}, "meanings": ["A"]}),
        lambda: scale_from(None),
        lambda: scale_from(5),
    ],
)
def test_what_is_no_scale_is_refused_when_it_is_built(build: Any) -> None:
    with pytest.raises(JudgeConfigError):
        build()


@given(scales())
def test_a_scale_survives_being_data_json_a_pickle_and_a_copy(scale: Scale) -> None:
    for other in (
        scale_from(scale.to_dict()),
        scale_from(json.loads(json.dumps(scale.to_dict()))),
        pickle.loads(pickle.dumps(scale)),
        copy.deepcopy(scale),
    ):
        assert other == scale and hash(other) == hash(scale) and repr(other) == repr(scale)
        assert other.wording == scale.wording and other.schema == scale.schema


def test_words_survive_json() -> None:
    for scale in (
        Likert(1, 5, {5: "best", 1: "worst"}),
        Likert(-1, 1, {-1: "worst"}),
        Binary("right", "wrong"),
        Choice({"A": 1, "B": 0}, {"B": "bad"}, abstain=True),
    ):
        assert scale_from(json.loads(json.dumps(scale.to_dict()))) == scale


def test_equal_scales_say_the_same() -> None:
    assert Likert(1, 3, {3: "a", 1: "b"}) == Likert(1, 3, {1: "b", 3: "a"})
    assert hash(Numeric(0, 1)) == hash(Numeric(0.0, 1.0)) and Numeric(0, 1) == Numeric(0.0, 1.0)
    assert Choice({"A": 1, "B": 0}) != Choice({"B": 0, "A": 1})  # said in another order
    assert Likert(0, 1) != Numeric(0, 1) and Likert() != Likert(abstain=True) and Likert() != "likert"

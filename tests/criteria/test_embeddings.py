"""`EmbeddingSimilarity`: with the model that comes with the extra, with one made here, and with functions."""

from __future__ import annotations

import json
import logging
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rubrics import InvalidScoreError, StructureError
from rubrics.criteria import EmbeddingSimilarity
from rubrics.fingerprinting import fingerprint
from rubrics.spec import dumps, loads

PARIS = "Paris is the capital of France."


def directions(texts: list[str]) -> Any:
    """North, east, and what lies between them; nothing for other words."""
    known = {"north": (0.0, 2.0), "east": (3.0, 0.0), "northeast": (1.0, 1.0), "south": (0.0, -1.0)}
    return [known.get(text, (0.0, 0.0)) for text in texts]


def score(rubric: EmbeddingSimilarity, action: Any, task: Any = None) -> Any:
    return rubric.episode(task).step(action, None)


# -- the model of the extra -------------------------------------------------------------------------------------------


def test_what_is_meant_counts() -> None:
    rubric = EmbeddingSimilarity(PARIS)
    near, far = (rubric(text, None) for text in ("France's capital city", "The cat sat on the mat."))
    assert near > 0.7
    assert far < 0.2
    assert rubric(PARIS, None) == 1.0
    assert rubric.evaluate_sync("", None).reason == "the model knows no part of '', or of the reference"


def test_the_code_of_the_package_of_the_weights_is_not_run() -> None:
    """It sets up logging for the whole process, and asks a hub for its tokenizer."""
    EmbeddingSimilarity(PARIS)("Paris", None)
    assert "wordllama" not in sys.modules
    assert not [handler for handler in logging.getLogger().handlers if type(handler) is logging.StreamHandler]


def test_a_batch_is_the_loop() -> None:
    texts = ["Paris", "", "The cat sat.", "Paris", "x" * 500, *(f"number {n} of France" for n in range(300))]
    tasks = [{"answers": [PARIS, "The dog"] if n % 2 else "cats"} for n in range(len(texts))]
    rubric = EmbeddingSimilarity(expected_from="task.answers", floor=0.2)
    batch = rubric.evaluate_batch(texts, [None] * len(texts), tasks)
    expected = [score(rubric, text, task) for text, task in zip(texts, tasks, strict=True)]
    assert [None if value != value else value for value in batch.scores.tolist()] == expected


def test_it_is_written_to_a_file_and_read_back() -> None:
    rubric = EmbeddingSimilarity([PARIS, "Paris"], floor=0.3, of="observation.answer")
    assert fingerprint(loads(dumps(rubric))) == fingerprint(rubric)


# -- functions --------------------------------------------------------------------------------------------------------


def test_the_cosine_by_hand() -> None:
    rubric = EmbeddingSimilarity("north", embed=directions)
    found = rubric("northeast", None)
    assert found == round(1 / sqrt(2), 6)
    assert found.reason == "a cosine of 0.707 to 'north'"
    assert [score(rubric, text) for text in ("north", "east", "south")] == [1.0, 0.0, 0.0]
    assert score(EmbeddingSimilarity("north", embed=directions, floor=-1), "east") == 0.5


def test_of_several_references_the_nearest_counts() -> None:
    rubric = EmbeddingSimilarity(["south", "nowhere", "east"], embed=directions)
    assert rubric.evaluate_sync("northeast", None).reason == "a cosine of 0.707 to 'east'"
    assert rubric.evaluate_batch(["north", "south", "east"], [None] * 3).scores.tolist() == [0.0, 1.0, 1.0]


def test_what_the_model_does_not_know_is_unscored() -> None:
    assert score(EmbeddingSimilarity("north", embed=directions), "nowhere") is None
    rubric = EmbeddingSimilarity(expected_from="task.answer", embed=directions)
    assert score(rubric, "north", {"answer": "nowhere"}) is None
    assert score(rubric, "north", {"answer": None}) is None
    assert score(rubric, "north", {}) is None
    batch = rubric.evaluate_batch(["north"] * 3, [None] * 3, [{}, {"answer": "nowhere"}, {"answer": "north"}])
    assert batch.statuses == ["unscored", "unscored", "scored"]
    assert batch.reason(0) == "there is no task.answer"


def test_each_text_is_embedded_once() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> Any:
        asked.append(texts)
        return directions(texts)

    EmbeddingSimilarity("north", embed=embed).evaluate_batch(["east", "north", "east"], [None] * 3)
    assert asked == [["east", "north"]]


def test_a_function_that_gives_no_vectors_is_told() -> None:
    with pytest.raises(InvalidScoreError, match=r"shape \(2,\) for 2 texts"):
        EmbeddingSimilarity("north", embed=lambda texts: [1.0] * len(texts))("east", None)


# -- models in folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A static model of three words."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"north": 0, "east": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"embeddings": np.array([[0, 1], [1, 0], [0, 0]], np.float16)}, str(tmp_path / "model.safetensors"))
    return tmp_path


def test_a_model_in_a_folder(folder: Path) -> None:
    rubric = EmbeddingSimilarity("north", model=str(folder))
    assert score(rubric, "north east") == round(1 / sqrt(2), 6)
    assert score(rubric, "west") is None


def test_a_model_that_is_not_there_or_of_another_kind_is_told(folder: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(StructureError, match=r"there is no .*nowhere"):
        EmbeddingSimilarity("north", model=str(folder / "nowhere"))("east", None)
    two = {"embeddings": np.zeros((3, 2), np.float32), "weights": np.zeros(3, np.float32)}
    other = folder / "other"
    other.mkdir()
    (other / "tokenizer.json").write_text(json.dumps({}))
    save_file(two, str(other / "model.safetensors"))
    with pytest.raises(StructureError, match="no static model of one matrix"):
        EmbeddingSimilarity("north", model=str(other))("east", None)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from rubrics.criteria import embeddings

    embeddings._model.cache_clear()
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'rubrics\[embeddings\]'"):
        EmbeddingSimilarity("north")("east", None)
    assert EmbeddingSimilarity("north").extra == "embeddings"
    assert EmbeddingSimilarity("north", embed=directions).extra is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give expected, or expected_from"),
        ({"expected": "a", "expected_from": "task.a"}, "and not both"),
        ({"expected": []}, "a text or a list of texts"),
        ({"expected": "a", "floor": 1.0}, "a cosine from -1 to below 1"),
        ({"expected": "a", "embed": directions, "model": "folder"}, "in place of a model"),
        ({"expected_from": "answer"}, "a path into the step begins with"),
    ],
)
def test_wrong_arguments_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        EmbeddingSimilarity(**options)

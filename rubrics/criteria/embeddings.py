"""`EmbeddingSimilarity`: how near a text is to a reference in meaning, by vectors of a small model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubrics.criteria.values import Value, quoted, text_of
from rubrics.rubric import Rubric
from rubrics.score import InvalidScoreError, Score, StructureError, Unscored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORDLLAMA = "wordllama"
_SOME = 256  # texts, or pairs of vectors, worked on at a time


class EmbeddingSimilarity(Rubric):
    """The cosine of the angle between the vectors of a text and of a reference; of several, of the nearest one.

    The model that comes with the extra (WordLlama, 16 MB, English) gives a text the mean of its tokens' vectors. It is
    quick, and knows what a text is about; it knows nothing of order and little of negation, so `"it is not safe"` and
    `"it is safe"` are near to one another.

    Args:
        expected: the reference, or several.
        expected_from: in its place, the path of it or of a list of them, such as `"task.answer"`.
        of: the path of the text.
        model: `"wordllama"`, whose weights are in the package of that name, or a folder of a static model with the
            files `model.safetensors` (one matrix) and `tokenizer.json`. Nothing is downloaded.
        embed: in place of a model, a function from a list of texts to an array (texts, dimensions).
        floor: the cosine that is 0, as unrelated texts may have one well above 0; from there to 1 the score is linear.

    Range: (0, 1), rounded to six digits, since the vectors of some functions differ a little with what they are made
    beside. Unscored: there is no text or no reference, or the model knows no part of one of them.

    Needs the extra `embeddings`, unless `embed` is given.
    """

    def __init__(
        self,
        expected: str | list[str] | None = None,
        *,
        expected_from: str | None = None,
        of: str = "action",
        model: str = _WORDLLAMA,
        embed: Callable[[list[str]], Any] | None = None,
        floor: float = 0.0,
    ) -> None:
        super().__init__()
        if (expected is None) == (expected_from is None):
            raise StructureError("EmbeddingSimilarity: give expected, or expected_from, and not both")
        if expected is not None and not _texts(expected):
            raise StructureError(f"EmbeddingSimilarity: expected is a text or a list of texts, not {expected!r}")
        if not isfinite(floor) or not -1.0 <= floor < 1.0:
            raise StructureError(f"EmbeddingSimilarity: floor is a cosine from -1 to below 1, not {floor!r}")
        if embed is not None and (model != _WORDLLAMA or not callable(embed)):
            raise StructureError("EmbeddingSimilarity: embed is a function of a list of texts, in place of a model")
        for path in (of, expected_from):
            if path is not None:
                Value(path)
        self.expected, self.expected_from, self.of = expected, expected_from, of
        self.model, self.embed, self.floor = model, embed, float(floor)

    @property
    def extra(self) -> str | None:
        """The extra of this package that it needs."""
        return "embeddings" if self.embed is None else None

    def forward(self, action: Any, observation: Any) -> Score:
        """The score of one step, with the reference that is the nearest."""
        text, references = self._said(action, observation, self.task)
        cosines, _ = self._cosines([text], [references])
        known = [
            (cosine, reference)
            for cosine, reference in zip(cosines.tolist(), references, strict=True)
            if cosine == cosine
        ]
        if not known:
            raise Unscored(f"the model knows no part of {quoted(text, 80)}, or of the reference")
        cosine, nearest = max(known)
        return Score(self._score(cosine), f"a cosine of {cosine:.3f} to {quoted(nearest, 120)}")

    def forward_batch(self, actions: Sequence[Any], observations: Sequence[Any]) -> NDArray[np.float64]:
        """The scores of many steps; each different text is embedded once."""
        import numpy as np

        found = np.full(len(actions), np.nan)
        rows, said = [], []
        for row, step in enumerate(zip(actions, observations, self.tasks, strict=True)):
            try:
                said.append(self._said(*step))
            except Unscored:
                continue
            rows.append(row)
        if said:
            cosines, starts = self._cosines([text for text, _ in said], [references for _, references in said])
            found[rows] = [self._score(cosine) for cosine in np.fmax.reduceat(cosines, starts).tolist()]
        return found

    def _said(self, action: Any, observation: Any, task: Any) -> tuple[str, list[str]]:
        """The text and its references."""
        text = Value(self.of).text(action, observation, task)
        if self.expected_from is None:
            return text, _texts(self.expected)
        references = _texts(Value(self.expected_from).read(action, observation, task))
        if not references:
            raise Unscored(f"there is no text at {self.expected_from}")
        return text, references

    def _cosines(self, texts: Sequence[str], references: Sequence[list[str]]) -> tuple[NDArray[np.float64], list[int]]:
        """The cosine of each text and each of its references, one after the other, and where those of a text begin."""
        import numpy as np

        place = {text: i for i, text in enumerate(dict.fromkeys(chain(texts, *references)))}
        vectors = self._vectors(list(place))
        left = np.array([place[text] for text, several in zip(texts, references, strict=True) for _ in several])
        right = np.array([place[reference] for several in references for reference in several])
        cosines = np.empty(len(left))
        for start in range(0, len(left), _SOME):
            some = slice(start, start + _SOME)
            cosines[some] = (vectors[left[some]] * vectors[right[some]]).sum(axis=1)
        starts = np.cumsum([0, *map(len, references)])[:-1].tolist()
        return cosines, starts

    def _vectors(self, texts: list[str]) -> NDArray[np.float64]:
        """Vectors of length 1, as (texts, dimensions); NaN where the model gives nothing."""
        import numpy as np

        vectors = np.asarray((self.embed or _model(self.model))(texts), np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise InvalidScoreError(
                f"EmbeddingSimilarity: embed gave an array of shape {vectors.shape} for {len(texts)} texts; "
                "it gives one of shape (texts, dimensions)"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            return vectors / np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))  # type: ignore[no-any-return]

    def _score(self, cosine: float) -> float:
        if cosine != cosine:
            return cosine
        return round(min(max((cosine - self.floor) / (1.0 - self.floor), 0.0), 1.0), 6)


def _texts(value: Any) -> list[str]:
    """The texts of a value, or of each part of a list."""
    several = value if isinstance(value, list | tuple) else [value]
    return [text for each in several if (text := text_of(each)) is not None]


@lru_cache(maxsize=4)
def _model(name: str) -> Callable[[list[str]], Any]:
    if name == _WORDLLAMA:
        found = find_spec(_WORDLLAMA)  # its files are read, and its code is not run: that sets up logging for everybody
        if found is None or not found.submodule_search_locations:
            raise ImportError("EmbeddingSimilarity needs the extra: pip install 'rubrics[embeddings]'")
        folder = Path(found.submodule_search_locations[0])
        weights = folder / "weights" / "l2_supercat_256.safetensors"
        return _StaticModel(weights, folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    folder = Path(name)
    return _StaticModel(folder / "model.safetensors", folder / "tokenizer.json")


class _StaticModel:
    """A vector for each token of a vocabulary; a text has their mean."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        for path in (weights, tokenizer):
            if not path.is_file():
                raise StructureError(f"EmbeddingSimilarity: there is no {path}, a file of the model")
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError:
            raise ImportError("EmbeddingSimilarity needs the extra: pip install 'rubrics[embeddings]'") from None
        tensors = load_file(str(weights))
        if len(tensors) != 1 or (vectors := next(iter(tensors.values()))).ndim != 2:
            shapes = {name: tensor.shape for name, tensor in tensors.items()}
            raise StructureError(
                f"EmbeddingSimilarity: {weights} is no static model of one matrix: {shapes}; use embed"
            )
        self.vectors = vectors.astype("float32")
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def __call__(self, texts: list[str]) -> Any:
        import numpy as np

        means = np.zeros((len(texts), self.vectors.shape[1]))
        for start in range(0, len(texts), _SOME):
            for i, tokens in enumerate(
                self.tokenizer.encode_batch(texts[start : start + _SOME], add_special_tokens=False)
            ):
                if tokens.ids:
                    means[start + i] = self.vectors[tokens.ids].mean(axis=0)
        return means

"""Files and folders as one stream of trajectories: who reads what, and what nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import isdir  # False where nobody may look, which Path.is_dir raises
from pathlib import Path
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem
from rubrics.formats.registry import Reader, formats
from rubrics.formats.source import Source, uncompressed_name
from rubrics.formats.tables import dataset_files
from rubrics.trajectory import Trajectory

_TRAJECTORIES = (".jsonl", ".ndjson", ".eval", ".traj", ".parquet", ".arrow")
_Chosen = tuple[Path, Reader | FormatProblem]


def read(paths: str | Path | Iterable[str | Path], format: str | None = None) -> Iterator[Trajectory | FormatProblem]:
    """All trajectories of these files and folders in order, as a stream, a `FormatProblem` in place of each bad one.

    A bad record never hides a good one, in its own file or the next. Without `format`, a name from `formats()`, each
    file's own content decides. An id that was read before in this call gets a number, `id#2`, so that results can be
    told apart.

    A folder is walked in the order of its names, hidden files left out, unless a format takes it as a whole. JSON in
    it that is of no known format is not about trajectories and is passed over, as are files that are neither JSON nor
    named like trajectories (`.jsonl`, `.ndjson`, `.eval`, `.traj`, `.parquet`, `.arrow`). With `format`, only what is
    of that format is read.

    Raises:
        FormatError: there is no such format.
    """
    known = formats()
    if format is not None and format not in known:
        raise FormatError(f"no format {format!r}; known formats: {', '.join(sorted(known))}")
    return _read([paths] if isinstance(paths, str | Path) else paths, known, format)


def _read(
    paths: Iterable[str | Path], known: Mapping[str, Reader], format: str | None
) -> Iterator[Trajectory | FormatProblem]:
    seen: dict[str, int] = {}
    for given in paths:
        path = Path(given)
        found = _folder(path, known, format) if isdir(path) else [_file(path, known, format)]
        for place, chosen in found:
            if isinstance(chosen, FormatProblem):
                yield chosen
                continue
            for item in _guarded(place, chosen):
                if isinstance(item, Trajectory):
                    item.id = _distinct(item.id, seen)
                yield item


def _guarded(path: Path, chosen: Reader) -> Iterator[Trajectory | FormatProblem]:
    """What a reader hands out. It may be anybody's: what goes wrong in it costs the file at hand, and no other."""
    source = Source(path, chosen.name)
    try:
        for item in chosen.read(source):
            id: object = getattr(item, "id", None)
            if isinstance(item, Trajectory) and isinstance(id, int):
                item.id = str(id)
            if isinstance(item, FormatProblem) or (isinstance(item, Trajectory) and isinstance(item.id, str)):
                yield item
            else:
                wanted = "a Trajectory whose id is a text, or a FormatProblem"
                yield source.problem(source.line, f"the reader {chosen.name!r} handed out {item!r:.80}, not {wanted}")
    except (FormatError, OSError) as error:
        yield _problem(path, error)
    except Exception as error:
        yield source.problem(source.line, f"the reader {chosen.name!r} failed: {type(error).__name__}: {error}")


def _problem(path: Path, error: FormatError | OSError) -> FormatProblem:
    if isinstance(error, FormatError):
        return FormatProblem(str(path), error.line, str(error))
    return FormatProblem(str(path), None, f"cannot be read: {error.strerror or error}")


def _distinct(id: str, seen: dict[str, int]) -> str:
    """The id, or `id#2` and so on where it was given before."""
    number = seen[id] = seen.get(id, 0) + 1
    while number > 1 and f"{id}#{number}" in seen:
        number += 1
    if number == 1:
        return id
    seen[id], seen[f"{id}#{number}"] = number, 1
    return f"{id}#{number}"


# --- which reader ----------------------------------------------------------------------------------------------------


def _file(path: Path, known: Mapping[str, Reader], format: str | None) -> _Chosen:
    """A file that was named: what is not known is a problem."""
    try:
        if format is not None:
            return path, known[format]
        chosen, sample, problem = _detect(Source(path), known)
    except (FormatError, OSError) as error:
        return path, _problem(path, error)
    return path, chosen or _unknown(path, sample, problem, known)


def _folder(root: Path, known: Mapping[str, Reader], format: str | None) -> Iterator[_Chosen]:
    """What there is to read in a folder. It is a problem if that is nothing."""
    empty = True
    for chosen in _walk(root, known, format, ()):
        empty = False
        yield chosen
    if empty:
        wanted = f"of the format {format!r}" if format else f"of a known format: {', '.join(sorted(known))}"
        yield root, FormatProblem(str(root), None, f"there is nothing in this folder {wanted}")


def _walk(folder: Path, known: Mapping[str, Reader], format: str | None, above: tuple[Path, ...]) -> Iterator[_Chosen]:
    if (real := folder.resolve()) in above:  # a link to a folder that it lies in
        return
    try:
        for name, claimant in known.items():
            if format in (None, name) and _says(claimant, claimant.folder, folder):
                yield folder, claimant
                return
        entries = dataset_files(folder) or sorted(folder.iterdir())
    except (FormatError, OSError) as error:
        yield folder, _problem(folder, error)
        return
    for path in entries:
        if path.name.startswith("."):
            continue
        if isdir(path):
            yield from _walk(path, known, format, (*above, real))
        elif (chosen := _member(path, known, format)) is not None:
            yield path, chosen


def _member(path: Path, known: Mapping[str, Reader], format: str | None) -> Reader | FormatProblem | None:
    """The reader of a file in a folder; None for a file that is not about trajectories."""
    suffix = Path(uncompressed_name(path)).suffix.lower()
    if suffix != ".json" and suffix not in _TRAJECTORIES:
        return None
    try:
        chosen, sample, problem = _detect(Source(path), known)
    except (FormatError, OSError) as error:
        return _problem(path, error)
    if chosen is not None:
        return chosen if format in (None, chosen.name) else None
    if suffix == ".json" and problem is None:
        return None
    return _unknown(path, sample, problem, known)


def _detect(source: Source, known: Mapping[str, Reader]) -> tuple[Reader | None, list[Any], FormatProblem | None]:
    """The format of a file, or None; the start of it, and the first problem in there."""
    head = source.head()
    for candidate in known.values():
        if _says(candidate, candidate.sniff, head):
            return candidate, [], None
    sample, problem = source.sample()
    for candidate in known.values():
        if any(_says(candidate, candidate.detect, value) for value in sample):
            return candidate, sample, problem
    return None, sample, problem


def _says(candidate: Reader, question: Callable[[Any], bool] | None, value: Any) -> bool:
    """What a format answers when it is asked whether something is its own."""
    try:
        return question is not None and bool(question(value))
    except OSError:  # a folder that nobody may look into
        raise
    except Exception as error:  # as in `_guarded`
        raise FormatError(
            f"the format {candidate.name!r} cannot tell whether this is its own: {type(error).__name__}: {error}"
        ) from error


def _unknown(
    path: Path, sample: list[Any], problem: FormatProblem | None, known: Mapping[str, Reader]
) -> FormatProblem:
    names = ", ".join(sorted(known))
    if problem and not sample:
        return FormatProblem(str(path), problem.line, f"{problem.message}; none of the known formats: {names}")
    if sample and isinstance(sample[0], dict) and {"status", "recorded_reward", "content"} <= sample[0].keys():
        return FormatProblem(str(path), 1, "these are the rows of a run: give the recordings that it read")
    return FormatProblem(str(path), 1, f"unknown format: {_shape(sample)}; known formats: {names}")


def _shape(sample: list[Any]) -> str:
    if not sample:
        return "the array is empty"
    if isinstance(sample[0], dict):
        return f"the first record has the keys {', '.join(list(sample[0])[:12]) or '(none)'}"
    return f"the first record is no JSON object but {type(sample[0]).__name__}"

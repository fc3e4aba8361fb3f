"""A comparison as one HTML page (see `rubrics.pages`).

Numbers are in it for every trajectory; steps and trees for the ones that moved most.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from errno import EEXIST
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from rubrics.pages import block, framed, written
from rubrics.rescoring.details import detail
from rubrics.rescoring.diff import MOVED, WAYS, Change, Diff
from rubrics.rescoring.recordings import Recordings
from rubrics.rescoring.rows import Row
from rubrics.shown import Cut
from rubrics.trajectory import Trajectory

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("charts.js", "overview.js", "table.js", "trajectory.js", "main.js")

_LONGEST = (4_000, 1_000, 250)  # characters of a text, if a trajectory is not too large with that
_LARGE = 256_000  # characters of a trajectory's details above which its texts are cut shorter
_MOST = 64_000_000  # characters of all details


@dataclass(slots=True)
class Page:
    """What became of a page.

    Attributes:
        path: the file.
        size: bytes of it.
        details: number of trajectories whose steps and trees it holds.
        with_steps: of these, how many have their steps.
        cut: number of long texts that were cut, with a note in each.
        left_out: trajectories whose details were asked for and would have made the page too large.
        missing: why the recording of a trajectory was not found, by id.
    """

    path: Path
    size: int = 0
    details: int = 0
    with_steps: int = 0
    cut: int = 0
    left_out: int = 0
    missing: dict[str, str] = field(default_factory=dict)


def write_page(
    diff: Diff,
    path: str | Path,
    *,
    details: int | None = 200,
    trajectories: Iterable[str | Path] | None = None,
    overwrite: bool = False,
) -> Page:
    """Write a comparison as a page. The file appears when it is complete.

    Args:
        diff: the comparison.
        path: the file.
        details: number of trajectories whose steps and trees are shown: those that moved most, in every way in turn,
            then others. None for all. The page says what it leaves out.
        trajectories: files that hold the recordings; by default those that the rows name.
        overwrite: replace a file that is there.

    Raises:
        FileExistsError: there is such a file, and `overwrite` is not given.
        OSError: it cannot be written.
    """
    page = Page(Path(path))
    if page.path.exists() and not overwrite:
        raise FileExistsError(EEXIST, "the file exists", str(path))
    blocks = _details(diff, details, trajectories, page)
    title = f"{diff.old.name} → {diff.new.name}"
    page.size = written(page.path, framed(_PAGE, _SCRIPTS, title=title, data=_data(diff), details=blocks.items()))
    return page


def _data(diff: Diff) -> dict[str, Any]:
    """All that the page shows but the details: names, counts, and a column for every property of trajectories."""
    everything = diff.to_dict()
    del everything["changes"]
    groups = {group: number for number, group in enumerate(dict.fromkeys(c.group for c in diff.changes if c.group))}
    paths = {path: number for number, path in enumerate(diff.nodes)}
    changes = diff.changes
    rows = {
        "id": [change.id for change in changes],
        "way": [WAYS.index(change.way) for change in changes],
        "old": [change.old for change in changes],
        "new": [change.new for change in changes],
        "oldStatus": [change.old_status for change in changes],
        "newStatus": [change.new_status for change in changes],
        "group": [groups.get(change.group or "", -1) for change in changes],
        "steps": [change.steps for change in changes],
        "nodes": [[paths[path] for path in change.nodes] for change in changes],
        "unstable": [number for number, change in enumerate(changes) if change.unstable],
    }
    return {**everything, "ways": WAYS, "groupNames": list(groups), "rows": rows}


def _details(diff: Diff, count: int | None, trajectories: Iterable[str | Path] | None, page: Page) -> Mapping[int, str]:
    """Blocks of JSON by the number of the trajectory; the less telling ones are dropped where they are too large."""
    chosen = list(_most_telling(diff))[:count]
    rank = {diff.changes[number].id: place for place, number in enumerate(chosen)}
    recordings = Recordings(trajectories)
    rows = ((id, row) for id in rank if (row := _row(diff, id)) is not None)
    blocks: dict[int, str] = {}
    with_steps: set[int] = set()
    waiting: list[int] = []  # a heap, the least telling first
    total = 0

    def without() -> Iterator[tuple[str, Trajectory | None]]:
        yield from ((id, None) for id in list(recordings.missing))

    found: Iterator[tuple[str, Trajectory | None]] = chain(recordings.find(rows), without())
    for id, trajectory in found:
        number = chosen[rank[id]]
        held, cut = _detail(diff, id, trajectory, recordings.missing.get(id))
        blocks[number] = held
        heapq.heappush(waiting, -rank[id])
        total += len(held)
        page.cut += cut
        if trajectory is not None:
            with_steps.add(number)
        while total > _MOST:
            dropped = blocks.pop(chosen[-heapq.heappop(waiting)])
            total -= len(dropped)
            page.left_out += 1
    page.details, page.with_steps = len(blocks), len(with_steps & blocks.keys())
    page.missing = recordings.missing
    return dict(sorted(blocks.items()))


def _row(diff: Diff, id: str) -> Row | None:
    return diff.new.rows.get(id) or diff.old.rows.get(id)


def _detail(diff: Diff, id: str, trajectory: Trajectory | None, why: str | None) -> tuple[str, int]:
    old, new = diff.old.rows.get(id), diff.new.rows.get(id)
    for longest in _LONGEST:
        cut = Cut(longest)
        held = block(detail(old, new, trajectory, why, cut, recorded=diff.recorded))
        if len(held) <= _LARGE:
            break
    return held, cut.texts


def _most_telling(diff: Diff) -> Iterator[int]:
    """Numbers of trajectories: the most moved of every way in turn, then those that did not move."""
    by_way: dict[str, list[int]] = {}
    for number, change in enumerate(diff.changes):
        by_way.setdefault(change.way, []).append(number)
    moved = [sorted(by_way.get(way, ()), key=lambda number: _stillness(diff.changes[number])) for way in MOVED]
    yield from (number for turn in zip_longest(*moved) for number in turn if number is not None)
    yield from (number for way in WAYS if way not in MOVED for number in by_way.get(way, ()))


def _stillness(change: Change) -> float:
    return -abs(change.difference or 0.0)

"""`rubrics diff`: what moved between two runs, or between a run and the rewards that were recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rubrics.cli.said import complain, refused
from rubrics.formats import FormatError
from rubrics.rescoring import Change, Diff, NodeChange, Row, compare, compare_recorded, write_page
from rubrics.rescoring.details import changed_nodes
from rubrics.rescoring.diff import MOVED, WAYS
from rubrics.rescoring.report import Page
from rubrics.shown import printable

MOVED_TOO_MUCH = 1


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD.jsonl", help="A file that `rubrics rescore` wrote.")],
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NEW.jsonl]",
            help="Another one; without it, OLD is compared to the rewards that its recordings came with.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write a page that opens from disk.", show_default=False)
    ] = None,
    json_to: Annotated[
        Path | None, typer.Option("--json", metavar="OUT.json", help="Write all numbers.", show_default=False)
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Trajectories to print, of those that moved most.")] = 5,
    trajectories: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Recordings, for the page; by default the files that the rows name."),
    ] = None,
    details: Annotated[
        str, typer.Option(metavar="N", help="Trajectories whose steps and trees are in the page, or 'all'.")
    ] = "200",
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS",
            help="What rollouts of one task share: a field of the rows, 'id' without its #2, several as in group,end. "
            "[default: the group, numbers within each file; 'group' joins numbers over files]",
            show_default=False,
        ),
    ] = None,
    max_moved: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Fail where more than this share of OLD did not stay as it was."
        ),
    ] = None,
    max_unscored: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Fail where more than this share of OLD lost its reward."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace PAGE and OUT if they exist.")] = False,
) -> None:
    """Show what moved between two runs over the same trajectories.

    Prints the rewards, the nodes, the order within groups, and the trajectories that moved most with both reasons.

    Exit code 1: more moved than --max-moved or --max-unscored allow. Exit code 2: something could not be read,
    compared or written.
    """
    shown = _details(details)
    for out in (html, json_to):
        _check_output(out, [old, *([new] if new else []), *(trajectories or [])], overwrite)
    try:
        found = _compared(old, new, group_by)
    except FormatError as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"{error.filename}: cannot be read: {error.strerror or error}") from None
    if not found.changes:
        raise refused("there is nothing to compare: no row has an id")
    try:
        _print(found, top)
        if json_to is not None:
            json_to.write_text(json.dumps(found.to_dict(), indent=1) + "\n", "utf-8")
        if html is not None:
            _tell(write_page(found, html, details=shown, trajectories=trajectories, overwrite=overwrite))
    except FormatError as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"{error.filename}: cannot be written: {error.strerror or error}") from None
    raise typer.Exit(_exit_code(found, max_moved, max_unscored))


def _details(wanted: str) -> int | None:
    if wanted == "all":
        return None
    if not wanted.isdecimal():
        raise refused(f"--details is a number or 'all', not {wanted!r}")
    return int(wanted)


def _check_output(out: Path | None, inputs: list[Path], overwrite: bool) -> None:
    if out is None or not out.exists():
        return
    if any(source.exists() and out.samefile(source) for source in inputs):
        raise refused(f"{out} is one of the inputs; runs and recordings are never overwritten")
    if not overwrite:
        raise refused(f"{out} exists; choose another file, or give --overwrite")


def _compared(old: Path, new: Path | None, fields: str | None) -> Diff:
    if fields is None:
        return compare_recorded(old) if new is None else compare(old, new)
    names = fields.split(",")
    for name in names:
        if name.split(".")[0] not in Row.__dataclass_fields__:
            known = ", ".join(Row.__dataclass_fields__)
            raise refused(f"--group-by {name}: rows have no such field; they have: {known}")

    def group(row: Row) -> str | None:
        values = [_field(row, name) for name in names]
        return None if None in values else ", ".join(map(str, values))

    return compare_recorded(old, group_by=group) if new is None else compare(old, new, group_by=group)


def _field(row: Row, name: str) -> object:
    if name == "id":
        return re.sub(r"#\d+$", "", row.id or "")
    value: object = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def _exit_code(found: Diff, max_moved: float | None, max_unscored: float | None) -> int:
    code = 0
    counts = found.counts
    total = counts.total() - counts["added"]
    for name, limit, number in (
        ("--max-moved", max_moved, round((found.moved_share or 0.0) * total)),
        ("--max-unscored", max_unscored, counts["newly_unscored"]),
    ):
        if limit is None:
            continue
        if not total:
            raise refused(f"{name}: {found.old.name} has no trajectories, so nothing was checked")
        if number > limit * total:
            complain(f"{number} of {total} ({number / total:.1%}) are more than {name} {limit} allows")
            code = MOVED_TOO_MUCH
    return code


# --- what is printed -------------------------------------------------------------------------------------------------


def _print(found: Diff, top: int) -> None:
    console = Console(highlight=False)
    for line in _head(found):
        console.print(Text(printable(line)), soft_wrap=True)
    if (nodes := _nodes(found)).row_count:
        console.print()
        console.print(nodes)
    for line in _groups(found):
        console.print(Text(printable(line)), soft_wrap=True)
    for title, changes in _telling(found, top):
        console.print()
        console.print(Text(title))
        for change in changes:
            console.print(Group(*_change(found, change)))


def _head(found: Diff) -> list[str]:
    counts, means = found.counts, found.reward
    said = [f"{counts[way]} {_named(way)}" for way in WAYS if counts[way] or way in ("up", "down", "unchanged")]
    lines = [f"{found.old.name} → {found.new.name}", f"{_trajectories(len(found.changes))}: {', '.join(said)}"]
    if means.n:
        lines.append(f"reward: mean {_number(means.old)} → {_number(means.new)}, {_signed(means.difference)}")
        if means.low is not None:
            lines[-1] += f" (95 % between {_signed(means.low)} and {_signed(means.high)})"
        lines[-1] += f", n = {means.n}"
    if found.unstable:
        lines.append(f"unstable: {found.unstable} rewards moved although the tree is the same")
    elif found.same_rubric and not found.recorded:
        lines.append("both runs are of the same tree")
    if changed := found.changed_judges:
        lines.append(f"judges that differ in prompt, scale, model or sampling: {', '.join(changed)}")
    for run in (found.new,) if found.recorded else (found.old, found.new):
        if run.unreadable:
            lines.append(f"{run.unreadable} records of {run.name} could not be read, and are not compared")
    return lines


def _nodes(found: Diff) -> Table:
    table = Table(title="Nodes", title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)  # fits 80 columns
    table.add_column("node", overflow="fold")
    for name in ("n", "old", "new", "change", "up", "down", "newly\nunscored", "newly\nscored"):
        table.add_column(name, justify="right", no_wrap=True)
    if any(_remark(node) for node in found.nodes.values()):
        table.add_column("", no_wrap=True)
    for path, node in found.nodes.items():
        if found.recorded and node.only == "new":
            continue
        compared = node.only is None
        numbers = [node.up, node.down, node.newly_unscored.total(), node.newly_scored.total()]
        table.add_row(
            Text(printable(path) or "(root)"),
            str(node.n) if compared else "",
            _number(node.old_mean),
            _number(node.new_mean),
            _signed(node.difference),
            *(str(number or "") if compared else "" for number in numbers),
            *([_remark(node)] if len(table.columns) > 9 else []),
        )
    return table


def _remark(node: NodeChange) -> str:
    if node.only is not None:
        return "removed" if node.only == "old" else "added"
    return f"{node.unstable} unstable" if node.unstable else ""


def _groups(found: Diff) -> list[str]:
    groups = found.groups.values()
    if not groups:
        return []
    names = ("pairs", "discordant", "tied", "untied", "best_changed", "old_flat", "new_flat")
    total = {name: sum(getattr(group, name) for group in groups) for name in names}
    lines = [
        f"groups: {len(groups)}; of {total['pairs']} pairs, {total['discordant']} changed their order, {total['tied']} "
        f"became equal, {total['untied']} are no longer; the best rollout changed in {total['best_changed']}; "
        f"all rewards are equal in {total['old_flat']} → {total['new_flat']}"
    ]
    worst = sorted(groups, key=lambda group: -group.discordant / group.pairs)[:3]
    if shown := [f"{group.group} ({group.discordant} of {group.pairs} pairs)" for group in worst if group.discordant]:
        lines.append(f"most reordered: {', '.join(shown)}")
    return lines


def _telling(found: Diff, top: int) -> list[tuple[str, list[Change]]]:
    moved = [("moved most", found.most_moved(top))]
    for way in MOVED[2:]:
        of_this = [change for change in found.changes if change.way == way]
        more = f" (the first {top} of {len(of_this)})" if len(of_this) > top else ""
        moved.append((f"{_named(way)}{more}", of_this[:top]))
    return [(title, changes) for title, changes in moved if changes]


def _change(found: Diff, change: Change) -> Iterator[Padding]:
    """A trajectory, and what both runs say at the nodes where its change began."""
    old, new = found.old.rows.get(change.id), found.new.rows.get(change.id)
    answers = [_scored(change.old, change.old_status), _scored(change.new, change.new_status)]
    yield _indented(f"{change.id}: {' → '.join(answers)}", 2)
    for side, row in (("old", None if found.recorded else old), ("new", new)):
        if row is not None and row.reason:
            yield _said(side, row.reason, 4)
    for path, label, before, after in changed_nodes(old, new, change, recorded=found.recorded):
        answers = [_scored(node.score, node.status) if node else "absent" for node in (before, after)]
        at = "" if label == "Last step" else f", {label[0].lower()}{label[1:]}"
        yield _indented(f"{path or '(root)'}{at}: {' → '.join(answers)}", 4)
        reasons = [node.reason if node else None for node in (before, after)]
        if reasons[0] == reasons[1]:
            reasons[0] = None
        for side, reason in zip(("old", "new"), reasons, strict=True):
            if reason:
                yield _said(side, reason, 6)


def _said(side: str, reason: str, indent: int) -> Padding:
    return _indented(f"{side}: {_short(reason)}", indent, "dim")


def _indented(text: str, indent: int, style: str = "") -> Padding:
    return Padding(Text(printable(text), style), (0, 0, 0, indent), expand=False)


def _scored(score: float | None, status: str | None) -> str:
    return str(status) if score is None else _number(score)


def _short(reason: str, length: int = 160) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= length else f"{line[:length]}…"


def _trajectories(count: int) -> str:
    return f"{count} trajector{'y' if count == 1 else 'ies'}"


def _named(way: str) -> str:
    return "unscored in both" if way == "unscored" else way.replace("_", " ")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _tell(page: Page) -> None:
    console = Console(highlight=False, stderr=True)
    said = f"{page.path}: {page.size / 1e6:.1f} MB, with steps and trees of {_trajectories(page.details)}"
    if page.details > page.with_steps:
        said += f", {page.details - page.with_steps} of them without the steps"
    if page.cut:
        said += f"; {page.cut} long texts are cut"
    if page.left_out:
        said += f"; {page.left_out} more would have made it too large"
    console.print(Text(printable(said)), soft_wrap=True)
    for reason in dict.fromkeys(page.missing.values()):
        number = sum(each == reason for each in page.missing.values())
        complain(f"{number} without steps: {reason}" + ("" if "given" in reason else "; give --trajectories"))

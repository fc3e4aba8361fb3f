"""Pages of HTML that need no network and open from disk, and in which text from outside is never markup.

All data stand in blocks of JSON that are no script, and the page's own script puts them in as text. A page forbids
itself (by its Content Security Policy) everything but that script and its style, the network included.

A page has a folder: `page.html` with its elements (it extends `frame.html`, which is here), `page.css`, and scripts.
What all pages share is here: `base.css`, and scripts for elements, histograms, values of any shape, and long lists.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rubrics.files import replacing

_SHARED = Path(__file__).parent
_SCRIPTS = ("dom.js", "charts.js", "values.js", "paging.js")


def framed(
    folder: Path, scripts: Sequence[str], *, title: str, data: Any, details: Iterable[tuple[int, str]] = ()
) -> Iterator[str]:
    """A page, in parts.

    Args:
        folder: where its own files are.
        scripts: the names of its scripts, in order.
        title: of the page.
        data: what its script finds as the JSON of the element `data`.
        details: blocks of JSON (see `block`), found as `detail-NUMBER`; they are read as they are written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader([folder, _SHARED]), autoescape=True, undefined=StrictUndefined)
    style = (_SHARED / "base.css").read_text("utf-8") + (folder / "page.css").read_text("utf-8")
    files = [*(_SHARED / name for name in _SCRIPTS), *(folder / name for name in scripts)]
    parts = "\n".join(file.read_text("utf-8") for file in files)
    script = f'\n"use strict";\n(() => {{\n{parts}\n}})();\n'
    yield from environment.get_template("page.html").generate(
        title=title,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(block(data)),
        details=((number, Markup(detail)) for number, detail in details),
    )


def written(path: Path, parts: Iterable[str]) -> int:
    """Write a file of text, which appears when it is complete; returns its bytes.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as whole, whole.open("wb") as file:
        # half a surrogate pair is escaped
        return sum(file.write(part.encode(errors="backslashreplace")) for part in parts)


_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def block(value: Any) -> str:
    """JSON that may stand in a page: nothing in it can end the element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()

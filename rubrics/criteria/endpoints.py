"""Servers of sequence classifiers: what is sent to them, and where their answers hold the numbers."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from rubrics.score import RubricError, StructureError

if TYPE_CHECKING:
    import aiohttp

Protocol: TypeAlias = Literal["classify", "pooling", "score", "predict", "text-classification"]
"""The routes of vLLM (and SGLang, which has the first), that of text-embeddings-inference, and that of models hosted by
Hugging Face."""

Item: TypeAlias = tuple[str | None, str]
"""A text, and the one before it where it is a pair."""

_LONGEST_WAIT = 30.0  # seconds between two attempts
_TOGETHER = (400, 413, 422)  # statuses that one text of several may have brought about


class RewardModelError(RubricError, RuntimeError):
    """A reward model gave no score: it did not answer, refused, or answered something else.

    Attributes:
        status: the HTTP status; None where there was no answer.
        wait: seconds after which the server wants to be asked again; None where it did not say.
        again: whether another attempt may help.
    """

    def __init__(
        self, message: str, *, status: int | None = None, wait: float | None = None, again: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.wait, self.again = status, wait, again


@dataclass(frozen=True, slots=True)
class Server:
    """A server and how it is asked.

    Attributes:
        url: of the route, such as `http://localhost:8000/classify`.
        protocol, model, label, raw: see `RewardModel`.
        timeout: seconds for an attempt.
        retries: attempts after the first.
        key_env: the environment variable that holds the key.
    """

    url: str
    protocol: Protocol
    model: str | None
    label: str | int | None
    raw: bool
    timeout: float
    retries: int
    key_env: str | None

    async def scores(self, session: aiohttp.ClientSession, items: Sequence[Item]) -> list[float | RewardModelError]:
        """What the server says of each item. Where it refuses several, each is sent by itself."""
        try:
            return list(await self._patiently(session, items))
        except RewardModelError as error:
            if len(items) == 1 or error.status not in _TOGETHER:
                return [error] * len(items)
        return [found for item in items for found in await self.scores(session, [item])]

    async def _patiently(self, session: aiohttp.ClientSession, items: Sequence[Item]) -> list[float]:
        for attempt in range(self.retries + 1):
            try:
                return await self._once(session, items)
            except RewardModelError as error:
                if not error.again or attempt == self.retries:
                    raise
                wait = 0.5 * 2**attempt if error.wait is None else error.wait
            await sleep(min(wait, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, session: aiohttp.ClientSession, items: Sequence[Item]) -> list[float]:
        import aiohttp

        key = self._key()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        problem: str
        try:
            async with asyncio.timeout(self.timeout):
                async with session.post(
                    self.url, json=self._body(items), headers=headers, allow_redirects=False
                ) as response:
                    status, said = response.status, (await response.read()).decode("utf-8", "replace")
                    wait = response.headers.get("Retry-After")
        except TimeoutError:
            problem = f"no answer within {self.timeout:g} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if status != 200:
                shown = " ".join((said if key is None else said.replace(key, "***"))[:200].split())
                again = status == 429 or status >= 500
                raise RewardModelError(
                    f"{self.url} answered {status}: {shown}", status=status, wait=_seconds(wait), again=again
                )
            return self._read(said, len(items))
        # Outside of the handler: the exception of the HTTP library holds the headers that were sent.
        raise RewardModelError(f"{self.url}: {problem}", again=True)

    def _key(self) -> str | None:
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise StructureError(f"RewardModel: the environment variable {self.key_env} (key_env) is not set")
        return key

    def _body(self, items: Sequence[Item]) -> dict[str, Any]:
        texts = [text for _, text in items]
        if self.protocol in ("predict", "text-classification"):
            if self.protocol == "predict":
                pairs = [[text] if before is None else [before, text] for before, text in items]
                return {"inputs": pairs, "truncate": False, "raw_scores": self.raw}
            return {
                "inputs": texts,
                "parameters": {"top_k": None, **({"function_to_apply": "none"} if self.raw else {})},
            }
        body: dict[str, Any] = {} if self.model is None else {"model": self.model}
        if self.protocol == "score":
            body |= {"text_1": [before for before, _ in items], "text_2": texts}
        else:
            body["input"] = texts
        return body | ({"use_activation": False} if self.raw else {})

    def _read(self, said: str, count: int) -> list[float]:
        try:
            answers = _ANSWERS[self.protocol](json.loads(said))
            if len(answers) != count:
                raise ValueError(f"there are {len(answers)} results for {count} texts")
            return [self._chosen(answer) for answer in answers]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            shown = " ".join(said[:200].split())
            raise RewardModelError(
                f"{self.url} answered something else than {self.protocol!r} does ({error}): {shown}", status=200
            ) from None

    def _chosen(self, answer: Any) -> float:
        """The one number that is meant of those for the classes."""
        if isinstance(answer, Mapping):
            if self.label is None and len(answer) == 1:
                (value,) = answer.values()
            elif self.label in answer:
                value = answer[self.label]
            else:
                raise ValueError(
                    f"it has the classes {', '.join(map(str, answer))}: give label={'|'.join(map(str, answer))}"
                )
        else:
            value = answer
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(f"{value!r} is no finite number")
        return float(value)


def refuse_no_url(url: str) -> None:
    """Raise StructureError where requests cannot be sent to an address, or where a key stands in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StructureError(f"RewardModel: endpoint is an address such as http://localhost:8000/classify, not {url!r}")
    if parts.username or parts.password:
        raise StructureError("RewardModel: the endpoint holds a password: name an environment variable by key_env")


def _numbered(values: Any) -> Any:
    """The numbers of classes by their index; of a list of lists, one a token, those of the last token."""
    while isinstance(values, list) and values and isinstance(values[-1], list):
        values = values[-1]
    return dict(enumerate(values)) if isinstance(values, list) else values


def _in_order(body: Any) -> list[Any]:
    return sorted(body["data"], key=lambda each: each["index"])


def _named(body: Any) -> list[dict[str, float]]:
    if body and isinstance(body[0], dict):  # of one text
        body = [body]
    return [{each["label"]: each["score"] for each in classes} for classes in body]


_ANSWERS: dict[str, Callable[[Any], list[Any]]] = {
    "classify": lambda body: [_numbered(each["probs"]) for each in _in_order(body)],
    "pooling": lambda body: [_numbered(each["data"]) for each in _in_order(body)],
    "score": lambda body: [each["score"] for each in _in_order(body)],
    "predict": _named,
    "text-classification": _named,
}


def _seconds(said: str | None) -> float | None:
    try:
        return None if said is None else max(float(said), 0.0)
    except ValueError:  # a date
        return None

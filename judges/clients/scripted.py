"""`ScriptedClient`: replies from a script, for tests without a model."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from judges.clients.protocol import ChatError, ChatReply, ChatRequest
from judges.verdict import JudgeFailure
from rubrics.evaluation import Usage

Reply: TypeAlias = str | Mapping[str, Any] | ChatReply | JudgeFailure | BaseException
"""A text, an object that is sent as JSON, a whole reply, a failure, or an exception to raise."""


class ScriptedClient:
    """A client that says what it was told to say.

    Args:
        script: one reply, which is given for ever; a list of replies, given in order, after which a request is an
            error; or a function of the request that returns a reply (it may be async).
        delay: seconds a reply takes.
        endpoint: the name it goes by.

    Attributes:
        requests: the requests so far, in order.
    """

    local = True

    def __init__(
        self,
        script: Reply | Iterable[Reply] | Callable[[ChatRequest], Any],
        *,
        delay: float = 0.0,
        endpoint: str = "scripted",
    ) -> None:
        self._forever: Any = None
        self._rest: list[Reply] | None = None
        if isinstance(script, (str, Mapping, ChatReply, JudgeFailure, BaseException)) or callable(script):
            self._forever = script
        elif isinstance(script, Iterable):
            self._rest = list(script)
        else:
            raise TypeError(f"a script is a reply, a list of replies or a function, not {script!r}")
        self.delay = delay
        self.endpoint = endpoint
        self.requests: list[ChatRequest] = []

    def __repr__(self) -> str:
        return f"ScriptedClient({len(self.requests)} requests so far)"

    async def send(self, request: ChatRequest) -> ChatReply:
        """The next reply of the script.

        Raises:
            ChatError: the script says so.
            RuntimeError: the script has ended.
        """
        self.requests.append(request)
        if self._rest is None:
            said = self._forever
        elif self._rest:
            said = self._rest.pop(0)
        else:
            raise RuntimeError(f"the script of this ScriptedClient has ended: this is request {len(self.requests)}")
        if self.delay:
            await asyncio.sleep(self.delay)
        if callable(said) and not isinstance(said, (ChatReply, BaseException)):
            said = said(request)
            if inspect.isawaitable(said):
                said = await said
        return _reply(said, request)


def _reply(said: Any, request: ChatRequest) -> ChatReply:
    if isinstance(said, JudgeFailure):
        raise ChatError(said.kind, said.message, status=said.status)
    if isinstance(said, BaseException):
        raise said
    if isinstance(said, ChatReply):
        return said
    if isinstance(said, Mapping):
        said = json.dumps(said, ensure_ascii=False)
    if not isinstance(said, str):
        raise TypeError(f"a script holds texts, objects, ChatReplys, failures and exceptions, not {said!r}")
    prompt, completion = sum(len(message["content"]) for message in request.messages) // 4, len(said) // 4
    usage = Usage(1, prompt, 0, completion, prompt + completion)
    return ChatReply(said, "stop", usage=usage, model=request.model)

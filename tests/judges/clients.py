"""The two clients that ask a server, as tests are parametrised by them (the fixture `client`)."""

from collections.abc import Callable
from typing import TypeAlias

from judges import ChatClient, LiteLLMClient, OpenAICompatibleClient

BOTH = {"aiohttp": OpenAICompatibleClient, "litellm": LiteLLMClient}
Client: TypeAlias = Callable[..., ChatClient]
GOOD = '{"reason": "fine", "score": 4}'
KEY = "the-key-of-the-judge"

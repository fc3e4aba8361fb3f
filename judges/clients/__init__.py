"""Model clients: how one request becomes one reply."""

from judges.clients.protocol import ChatClient, ChatError, ChatReply, ChatRequest, Message, Token
from judges.clients.scripted import ScriptedClient

__all__ = ["ChatClient", "ChatError", "ChatReply", "ChatRequest", "Message", "ScriptedClient", "Token"]

"""Servers on a free port of this machine, for as long as a `with` block lasts."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import uvicorn


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """Serve an application; the value of the `with` is the address for a client."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def serving(environment: Any, action: type, observation: type, sessions: int = 1) -> AbstractContextManager[str]:
    """Serve an OpenEnv environment class."""
    from openenv.core import create_app

    return serving_app(create_app(environment, action, observation, max_concurrent_envs=sessions))

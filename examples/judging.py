"""How the examples with judges are told what model to ask.

Without an option they replay the replies that a small local model gave when they were recorded, so they need no key
and no network. `--model openai/gpt-5-mini` asks a model of your own (with `--api-base` a server of your own), and
`--record` keeps what it says in the place of the recording.
"""

import argparse
from pathlib import Path
from typing import Any

from judges import Store

RECORDED_MODEL = "qwen2.5-coder-1.5b"


def model_options(name: str) -> dict[str, Any]:
    """The options of every judge of the example `name`, out of the command line."""
    parser = argparse.ArgumentParser(description=f"The example {name}.py")
    parser.add_argument("--model", help="such as openai/gpt-5-mini; by default the recorded replies are replayed")
    parser.add_argument("--api-base", help="the address of a server of your own")
    parser.add_argument("--record", action="store_true", help="record the model's replies anew")
    chosen = parser.parse_args()
    recording = Path(__file__).parent / "cassettes" / f"{name}.jsonl"
    options: dict[str, Any] = {"sampling": {"temperature": 0}, "endpoint": "recorded"}
    if chosen.model is None:
        return {**options, "model": RECORDED_MODEL, "store": Store(recording, "none")}
    store = Store(recording, "rewrite") if chosen.record else None
    asked = {"model": chosen.model, "api_base": chosen.api_base, "timeout": 300.0, "concurrency": 2}
    return {**options, **asked, "store": store}

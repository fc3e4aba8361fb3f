"""Options that commands share."""

from __future__ import annotations


def prices(text: str, option: str = "--price") -> tuple[float, float]:
    """The two numbers of an option `PROMPT,REPLY`, in dollars a million tokens.

    Raises:
        ValueError: it is something else.
    """
    try:
        prompt, reply = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"{option} is two numbers, such as 0.25,2.0, not {text!r}") from None
    return prompt, reply

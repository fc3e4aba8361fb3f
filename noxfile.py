"""The tests of what does not share an environment with the others: `nox -l`, `nox -s evaluators`.

With uv installed (`pip install nox uv`) an environment takes seconds.
"""

import os

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False

TESTING = ("pytest>=8.4", "pytest-asyncio>=1.2", "hypothesis>=6.150")
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else importing litellm asks the network for prices
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "disabled",
}


def check(session: nox.Session, *hosts: str) -> None:
    """Run the tests of some hosts. A file that is skipped as a whole has no tests, which pytest takes for a failure."""
    for host in hosts:
        file = f"tests/integrations/test_{host}.py"
        session.run("python", "-m", "pytest", "-q", "-rs", file, *session.posargs, env=QUIET)


@nox.session(python=["3.11"])
def evaluators(session: nox.Session) -> None:
    """Inspect, DSPy, pydantic-evals, MLflow, SkyRL-gym and Gymnasium, which get on with one another."""
    session.install("-e", ".[inspect,dspy,pydantic-evals,mlflow,skyrl-gym,gymnasium]", *TESTING, silent=True)
    check(session, "inspect_ai", "dspy", "pydantic_evals", "mlflow", "skyrl_gym", "gymnasium")


@nox.session(python=["3.11"])
def verifiers(session: nox.Session) -> None:
    """verifiers 0.4, with tasks and traces."""
    session.install("-e", ".[verifiers]", "verifiers>=0.4,<0.5", *TESTING, silent=True)
    check(session, "verifiers")


@nox.session(python=["3.11"])
def verifiers_v0(session: nox.Session) -> None:
    """verifiers 0.3, with rubrics of functions."""
    session.install("-e", ".[verifiers]", "verifiers>=0.3.1,<0.4", *TESTING, silent=True)
    check(session, "verifiers_v0", "verifiers")


@nox.session(python=["3.11"])
def eval_protocol(session: nox.Session) -> None:
    """eval-protocol."""
    session.install("-e", ".[eval-protocol]", *TESTING, silent=True)
    check(session, "eval_protocol")


@nox.session(python=["3.11"])
def art(session: nox.Session) -> None:
    """ART."""
    session.install("-e", ".[art]", *TESTING, silent=True)
    check(session, "art")


@nox.session(python=["3.12"])
def harbor(session: nox.Session) -> None:
    """Harbor, which needs Python 3.12."""
    session.install("-e", ".[harbor]", *TESTING, silent=True)
    check(session, "harbor")


@nox.session(python=["3.11"])
def ray(session: nox.Session) -> None:
    """Rescoring in workers of Ray, two of them on this machine."""
    session.install("-e", ".[ray]", *TESTING, "pytest-timeout>=2.3", silent=True)
    file, limit = "tests/rescoring/test_ray.py", "--timeout=180"  # a Ray that lost its daemon would wait for ever
    session.run("python", "-m", "pytest", "-q", "-rs", limit, file, *session.posargs, env=QUIET)


@nox.session(python=["3.11"], venv_backend="virtualenv")  # pip, where a build of torch for the CPU is configured for it
def trl(session: nox.Session) -> None:
    """TRL on the CPU, and verl's documented signatures."""
    session.install(os.environ.get("TORCH_REQUIREMENT", "torch==2.13.0"), silent=True)
    session.install("-e", ".", "trl>=1.16,<2", "pandas", *TESTING, silent=True)
    check(session, "trl", "trl_groups", "verl")

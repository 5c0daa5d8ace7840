# What was set up lies in .venv; the recipes find it there whoever calls them.
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# List the recipes
default:
    @just --list

# Install everything: the project, its extras and the tools
setup:
    uv sync --all-extras

# What CI asks of a change before the long tests, in the same order, in about a minute
check: lint test-fast

# Format, lint, types and the direction of imports
lint:
    ruff format --check .
    ruff check .
    mypy
    lint-imports

# Write the form that `lint` asks for
format:
    ruff format .
    ruff check --fix .

# Everything; arguments go to pytest
test *ARGS: setup
    pytest --numprocesses=auto --dist=worksteal {{ ARGS }}

# All but what is marked slow, on SQLite alone: for the time between two edits
test-fast *ARGS:
    pytest --numprocesses=auto --dist=worksteal -m "not slow and not postgres" {{ ARGS }}

# What runs on both databases, on PostgreSQL
test-postgres *ARGS:
    pytest --numprocesses=auto --dist=worksteal -m postgres {{ ARGS }}

# The promises, on every backend
conformance *ARGS:
    pytest tests/conformance {{ ARGS }}

# The same on Sentinel, and on a Cluster of three
conformance-topologies *ARGS:
    STREAMLANE_TEST_REDIS_TOPOLOGY=sentinel pytest --numprocesses=auto --dist=worksteal -k "not lite" tests/conformance {{ ARGS }}
    STREAMLANE_TEST_REDIS_TOPOLOGY=cluster pytest --numprocesses=auto --dist=worksteal -k "not lite" tests/conformance {{ ARGS }}

# The same on the oldest Redis that is supported: Debian's
conformance-redis7 *ARGS:
    STREAMLANE_TEST_REDIS_SERVER=/usr/bin/redis-server pytest --numprocesses=auto --dist=worksteal -k "not lite" tests/conformance tests/backends {{ ARGS }}

# The same properties as in `test`, with many more examples
properties *ARGS:
    pytest tests/properties --hypothesis-profile=thorough --timeout=3600 {{ ARGS }}

# Kill workers on Redis again and again, five times as often as in `test`
kills *ARGS:
    STREAMLANE_TEST_KILLS=100 pytest tests/acceptance/test_redis_kills.py tests/acceptance/test_relay_killed.py -s {{ ARGS }}
    STREAMLANE_TEST_KILLS=200 STREAMLANE_TEST_OUTAGE_S=60 pytest tests/acceptance/test_killed_at_steps.py tests/acceptance/test_outages.py {{ ARGS }}

# Measure against the budgets; prints ratios, fails on nothing
bench *ARGS:
    python -m bench {{ ARGS }}

# Write what is generated in docs/
docs:
    python -m docs.generated

# Pin what is installed; --upgrade takes the newest of everything
lock *ARGS:
    python deploy/lock.py {{ ARGS }}

# Fail when a fresh resolution differs from the pins
lock-check:
    python deploy/lock.py --check

from __future__ import annotations

from tests.runtime.conftest import cases  # noqa: F401 (a fixture)

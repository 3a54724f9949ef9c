"""What a machine may lack: tests that need it are skipped there, but not on CI, which installs everything."""

import os
from typing import NoReturn

import pytest


def skip_for_lack_of(what: str) -> NoReturn:
    """Skips the test; fails it where .ci/run says that nothing is missing."""
    if os.environ.get("DISCERN_CI"):
        pytest.fail(f"there is no {what} here, and CI skips nothing", pytrace=False)
    pytest.skip(f"there is no {what} here")

"""The browser of the tests; each file brings the agent that it looks at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.processes import AgentProcess


@pytest.fixture(scope="module")
def chromium(agent: AgentProcess) -> Iterator[Browser]:
    # After the agent: while it runs, Playwright's loop leaves no room for another to fill a store.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()

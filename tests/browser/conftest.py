"""The browser of the tests; each file brings the agent that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.processes import AgentProcess

Opening = Callable[..., Page]


@pytest.fixture(scope="module")
def chromium(agent: AgentProcess) -> Iterator[Browser]:
    # After the agent: while it runs, Playwright's loop leaves no room for another to fill a store.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Browser, agent: AgentProcess) -> Iterator[Opening]:
    """Return a function that opens a page as a reviewer. Nothing may leave the host or go wrong."""
    url = agent.urls["review"]
    contexts, elsewhere, wrong = [], [], []

    def open_page(path: str = "/", reviewer: str = "Ada", **options: Any) -> Page:
        context = chromium.new_context(base_url=url, **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        if reviewer:
            context.add_cookies([{"name": "reviewer", "value": reviewer, "url": url}])
        page = context.new_page()
        page.on("request", lambda r: None if r.url.startswith(url) else elsewhere.append(r.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "console",
            lambda said: wrong.append(said.text) if "Content Security" in said.text else None,
        )
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert (elsewhere, wrong) == ([], [])

"""Takes the README's pictures of the review page, with Chromium, on the data of a demo run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, Page, async_playwright

from collector.agent.running import running
from collector.config import Config, ListenConfig, Resolved, ReviewConfig, Secrets

_DESK: Any = {"viewport": {"width": 1120, "height": 860}}
_PHONE: Any = {"viewport": {"width": 390, "height": 844}}
_REVIEWER = "Ada"


async def take(data_dir: Path, golden_file: Path, folder: Path) -> None:
    """Write week, conversation and editor as PNG, in light, in the dark and on a phone.

    Args:
        data_dir: of a demo run that ended.
        golden_file: whole path of the one that the editor compares with.
        folder: where the pictures go.
    """
    config = Config(
        data_dir=data_dir,
        listen=ListenConfig(**dict.fromkeys(ListenConfig.model_fields, "127.0.0.1:0")),
        review=ReviewConfig(golden_file=golden_file),
    )
    async with (
        running(Resolved(config=config, secrets=Secrets())) as agent,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        url = agent.urls.review
        shown = await _labelled(url)
        light = await _opened(browser, url, **_DESK)
        await _shot(light, folder / "review-week.png", "/")
        dark = await _opened(browser, url, color_scheme="dark", **_DESK)
        for page, name in ((light, "review-conversation.png"), (dark, "review-dark.png")):
            await page.goto(shown)
            await page.locator(".turn[open] .claim", has_text="document").first.focus()
            await page.locator(".turn[open]").evaluate("turn => turn.scrollIntoView()")
            await page.screenshot(path=folder / name)
        phone = await _opened(browser, url, **_PHONE)
        await _shot(phone, folder / "review-phone.png", "/")
        await light.locator("[data-promote]:visible").click()
        await light.get_by_text("alike").or_(light.get_by_text("Asked already")).first.wait_for()
        await light.screenshot(path=folder / "review-golden.png")
        await browser.close()


async def _opened(browser: Browser, url: str, **options: Any) -> Page:
    context = await browser.new_context(base_url=url, **options)
    await context.add_cookies([{"name": "reviewer", "value": _REVIEWER, "url": url}])
    return await context.new_page()


async def _shot(page: Page, path: Path, address: str) -> None:
    await page.goto(address)
    await page.screenshot(path=path)


async def _labelled(url: str) -> str:
    """Label some answers, so that the week is half done; return a conversation with evidence."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        week = (await client.get("/api/week")).json()
        labels = [
            {"trace_id": item["worst_trace_id"], "verdict": "incomplete", "labeller": _REVIEWER}
            for item in week["conversations"][:6]
        ]
        (await client.post("/api/labels", json=labels)).raise_for_status()
        for item in week["conversations"]:
            found = (await client.get(f"/api/conversations/{item['conversation_id']}")).json()
            worst = next(t for t in found["turns"] if t["trace_id"] == item["worst_trace_id"])
            asked = {"question": worst["question"]}
            near = (await client.get("/api/similar", params=asked)).json()["similar"]
            if near and any(claim["quote"] for claim in worst["claims"]):
                return f"/conversation/{item['conversation_id']}?turn={worst['trace_id']}"
    raise LookupError("no conversation of the demo shows evidence")

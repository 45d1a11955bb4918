"""The list of pages that an assistant has, as `golden lint` is given it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collector.errors import UsageError

_IDS = ("page_id", "document_id", "id")


def read_pages(path: Path) -> dict[str, str | None]:
    """Return the text of each page by its id, None where the file does not hold it.

    Args:
        path: a text file with one id a line; or JSON lines or a JSON array of ids or of objects
            with `page_id`, `document_id` or `id` and perhaps `text`.

    Raises:
        UsageError: it cannot be read, or a page has no id.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as err:
        raise UsageError([f"{path}: cannot be read: {err.strerror}"]) from err
    except UnicodeDecodeError as err:
        raise UsageError([f"{path}: is not UTF-8; save it as UTF-8"]) from err
    if path.suffix == ".json":
        found = _json(path, 1, text)
        items = list(enumerate(found, 1)) if isinstance(found, list) else [(1, None)]
    else:
        lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        items = [
            (n, _json(path, n, line) if path.suffix == ".jsonl" else line) for n, line in lines
        ]
    return dict(_page(path, number, item) for number, item in items)


def _json(path: Path, line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise UsageError([f"{path}:{line}: is not JSON"]) from err


def _page(path: Path, number: int, item: Any) -> tuple[str, str | None]:
    if isinstance(item, dict):
        id_ = next((item[name] for name in _IDS if item.get(name) not in (None, "")), None)
        text = item.get("text")
    else:
        id_, text = item, None
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise UsageError([f"{path}:{number}: a page must be its id, or an object with page_id"])
    return str(id_), text if isinstance(text, str) else None

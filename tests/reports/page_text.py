"""What a page holds: its elements, its words, its tables."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link", "wbr"}


class Tags(HTMLParser):
    """Every element with its attributes, and whether each is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)


def text_of(page: str) -> str:
    """What a reader sees: no markup, entities resolved, white space as single spaces."""
    body = page[page.index("</style>") :].partition("<script>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def matrices(page: str) -> list[list[list[str]]]:
    """The text of every cell of every matrix, row by row."""
    found = []
    for table in re.findall(r'<table class="matrix">.*?</table>', page, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        found.append([[_plain(cell) for cell in row] for row in cells])
    return found


def _plain(cell: str) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", " ", cell.replace("<wbr>", "")))
    return " ".join(text.replace("</style>", "").split())

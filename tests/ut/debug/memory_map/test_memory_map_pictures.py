"""The two pictures of a memory map: text that is the same everywhere, a page that needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from types import ModuleType

import pytest
from memory_map_kit import KERNELS, kernels, only

from pypto.debug.memory_map import Block, KernelMap, MemoryMap, SpaceMap, Statement
from pypto.enums import MemoryPlanner
from pypto.passes import PassContext

WIDE = """\
sums_incore_0: Buffer stage, a2a3, planner PYPTO (kernels.py:9)
Vec is the tightest memory: 7% of it is used; its tiles could become 15.3 times as large.

  Vec        ██····························   7%

Vec: 12 KiB of 184 KiB (7%) at line 13, #3 exp and at 2 more; 3 tiles live. A tile of 172 KiB would
  still fit there.
          0                     23 KiB, 1/8 of Vec
          ┌───────────────────────────────────────┐◄ peak
#0-1   10 │aaaaaaa                                │  acc = pl.tile.full([16, 64], dtype=pl.FP32, va…
#2     12 │aaaaaaabbbbbbb                         │    t = pl.load(x, [i, 0], [16, 64])
#3     13 │aaaaaaabbbbbbbccccccc                  │◄   u = pl.exp(t)
#4-5   14 │aaaaaaadddddddccccccc                  │◄   acc = pl.add(pl.mul(t, u), acc)
#6     16 │aaaaaaaee    cccccccc                  │    pl.store(pl.add(v, 1.0), [0, 0], o)
#7     16 │aaaaaaaee                              │    · store
#8     17 │aaaaaaa                                │  pl.store(acc, [0, 0], o)
          └───────────────────────────────────────┘
  a acc    FP32 [16, 64]     4 KiB at 0      #0-8 lines 10-17
  b t      FP32 [16, 64]     4 KiB at 4096   #2-4 lines 12-14
  c u      FP32 [16, 64]     4 KiB at 8192   #3-6 lines 13-16
  d mul()  FP32 [16, 64]     4 KiB at 4096   #4-5 line 14
  e adds() FP32 [8, 32]      1 KiB at 4096   #6-7 line 16
"""
NARROW = """\
sums_incore_0: Buffer stage, a2a3,
  planner PYPTO (kernels.py:9)
Vec is the tightest memory: 7% of it is
  used; its tiles could become 15.3
  times as large.

  Vec        #.......   7%

Vec: 12 KiB of 184 KiB (7%) at line 13,
  #3 exp and at 2 more; 3 tiles live. A
  tile of 172 KiB would still fit there.
          0        23 KiB, 1/8 of Vec
          +--------------------------+<
#0-1   10 |aaaaa                     |
#2     12 |aaaaabbbbb                |
#3     13 |aaaaabbbbccccc            |<
#4-5   14 |aaaaaddddccccc            |<
#6     16 |aaaaae   ccccc            |
#7     16 |aaaaae                    |
#8     17 |aaaaa                     |
          +--------------------------+
  a acc FP32 [16, 64] 4 KiB at 0 #0-8
    lines 10-17
  b t FP32 [16, 64] 4 KiB at 4096 #2-4
    lines 12-14
  c u FP32 [16, 64] 4 KiB at 8192 #3-6
    lines 13-16
  d mul() FP32 [16, 64] 4 KiB at 4096
    #4-5 line 14
  e adds() FP32 [8, 32] 1 KiB at 4096
    #6-7 line 16
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return kernels(tmp_path_factory.mktemp("kernels"))


def trimmed(text: str) -> str:
    return text.rstrip("\n") + "\n"


def test_the_text_for_a_wide_terminal(made: ModuleType) -> None:
    assert trimmed(made.sums.memory_map().text(100)) == WIDE
    assert str(made.sums.memory_map()) == made.sums.memory_map().text(100)


def test_the_text_for_a_narrow_one_without_unicode(made: ModuleType) -> None:
    text = made.sums.memory_map().text(40, ascii_only=True)
    assert trimmed(text) == NARROW
    assert text == made.sums.memory_map().text(12, ascii_only=True)


@pytest.mark.parametrize("width", [40, 57, 75, 76, 200])
def test_no_line_is_wider_than_the_terminal(made: ModuleType, width: int) -> None:
    for kernel in (made.sums, made.product, made.full):
        for ascii_only in (False, True):
            text = kernel.memory_map().text(width, ascii_only=ascii_only)
            assert max(map(len, text.split("\n"))) <= width
            assert text.isascii() or not ascii_only


def test_a_full_memory_is_drawn_whole_and_said_to_be_full(made: ModuleType) -> None:
    m = made.full.memory_map()
    (vec,) = only(m).spaces
    assert (vec.peak, vec.hole) == (176 << 10, 8 << 10)
    text = " ".join(m.text(100).split())
    assert "Vec is the tightest memory: 96% of it is used; its tiles cannot become larger." in text
    assert "184 KiB, all of Vec" in text
    assert "A tile of 8 KiB would still fit there." in text
    assert "2 tiles live" in text


def test_addresses_of_the_assembler_are_said_to_be_its_own(made: ModuleType) -> None:
    with PassContext(memory_planner=MemoryPlanner.PTOAS):
        m = made.sums.memory_map()
    for text in (m.text(200), m.html()):
        assert "Planner PTOAS leaves addresses to the assembler." in text
        assert "which bytes they are, the assembler decides" in text
    assert "assembler" not in made.sums.memory_map(*()).text(200)


# -- the page ----------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would see: elements in order, all texts, titles; unclosed elements are an error."""

    VOID = ("meta", "rect", "line", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.titles if self.open and self.open[-1] == "title" else self.texts).append(data)


def tiles(page: Page) -> list[dict[str, str | None]]:
    return [a for tag, a in page.elements if tag == "rect" and (a.get("class") or "").startswith("tile")]


def test_the_page_shows_every_tile_where_it_is(made: ModuleType) -> None:
    m = made.sums.memory_map()
    page = Page(m.html())
    (vec,) = only(m).spaces
    drawn = tiles(page)
    assert len(drawn) == len(vec.blocks)
    left = [float(a["x"] or 0) for a in drawn]
    wide = [float(a["width"] or 0) for a in drawn]
    assert left[1] == left[3] == left[4]  # t, mul() and adds() begin at one byte
    assert left[0] < left[1] < left[2]
    assert wide[0] == wide[2] > 3 * wide[4]
    tall = [float(a["height"] or 0) for a in drawn]
    assert tall[0] == max(tall)
    said = [t for t in page.titles if "made by" in t]
    assert len(said) == len(vec.blocks)
    assert said[2].split("\n")[:2] == ["u", "FP32 [16, 64], 4 KiB"]
    assert "bytes 8192 to 12288 of Vec" in said[2]
    assert "made by exp, needed in statements #3 to #6, lines 13-16" in said[2]
    text = " ".join(page.texts)
    assert "u = pl.exp(t)" in text
    assert "12 KiB of 184 KiB (7%) at line 13, #3 exp and at 2 more; 3 tiles live" in text


def test_the_page_needs_nothing_else(made: ModuleType) -> None:
    for kernel in (made.sums, made.product):
        text = kernel.memory_map().html()
        page = Page(text)
        assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "embed", "image", "use"}
        names = {name for _, attrs in page.elements for name in attrs}
        assert not {n for n in names if n.startswith("on")} | names & {"src", "href", "srcset", "data", "action"}
        assert not re.search(r"url\(|@import|https?:|//", text.replace("<!DOCTYPE html>", ""))
        assert "prefers-color-scheme: dark" in text


ELEMENTS = frozenset(
    re.findall(r"\w+", "html head meta title style body header h1 h2 p section span div b i s u svg text rect line")
)
ELEMENTS |= {"details", "summary", "table", "tr", "th", "td"}
NASTY = '</title><script>alert("x")</script>&amp;\'<!--'


def nasty() -> MemoryMap:
    block = Block(NASTY, 0, 64, 0, 1, 3, 4, NASTY, (16, 1), NASTY, NASTY, NASTY, True)
    statements = tuple(Statement(n, 0, NASTY, NASTY, n + 3, NASTY, True) for n in range(2))
    space = SpaceMap(NASTY, 1024, (block,), 64, (0, 1), 64, 960, True)
    return MemoryMap(NASTY, NASTY, NASTY, "planner", (KernelMap(NASTY, "Tile", NASTY, 3, statements, (space,)),))


def test_names_are_escaped() -> None:
    page = Page(nasty().html())
    assert not {tag for tag, _ in page.elements} - ELEMENTS
    assert NASTY in "".join(page.titles)
    assert any(NASTY in t for t in page.texts)
    assert max(map(len, nasty().text(40).split("\n"))) == 40


def many(count: int) -> MemoryMap:
    """As many tiles in two columns; each begins where the one before it in its column ends."""
    blocks = tuple(
        Block(f"t{i}", 4096 * (i % 2), 4096 * (i % 2 + 1), i, i + 2, i + 1, i + 3, "FP32", (16, 64), "load", f"t{i}", "m", False)
        for i in range(count)
    )
    statements = tuple(Statement(n, 0, "load", "k.py", n + 1, f"t{n} = pl.load(x)", True) for n in range(count + 2))
    space = SpaceMap("Vec", 184 << 10, blocks, 8192, tuple(range(1, count)), 8192, 176 << 10, True)
    return MemoryMap("p", "a2a3", "PYPTO", "planner", (KernelMap("k", "Tile", "k.py", 1, statements, (space,)),))


def test_many_tiles_do_not_overlap_in_the_picture() -> None:
    m = many(400)
    drawn = tiles(Page(m.html()))
    assert len(drawn) == 400
    for column in (0, 1):
        edges = [(float(a["y"] or 0), float(a["y"] or 0) + float(a["height"] or 0)) for a in drawn[column::2]]
        assert all(high <= low for (_, high), (low, _) in pairwise(edges))
    assert max(map(len, m.text(80).split("\n"))) <= 80


def test_a_program_without_kernels() -> None:
    m = MemoryMap("empty", "a2a3", "PYPTO", "planner", ())
    assert "no kernel runs on a core" in m.text()
    assert "No kernel runs on a core" in m.html()


def test_the_file_of_the_kernels_is_the_one_that_the_texts_show() -> None:
    assert KERNELS.split("\n")[12].strip() == "u = pl.exp(t)"

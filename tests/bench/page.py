"""The table of figures in the book: written from those of one run, which are kept beside this file, and compared with
them. What is not in the table was not measured; nothing of it is written by hand."""

import json
import sys

from product import ROOT

PAGE = ROOT / "docs/src/benchmarks.md"
MEASURED = ROOT / "tests/bench/measured.json"
BEGIN = "<!-- figures: written by scripts/bench --book -->\n"
END = "<!-- end of figures -->\n"
HINT = "hint: scripts/bench --book --from tests/bench/measured.json"


def shown(value, unit):
    if value is None:
        return ""
    return f"{value * 1000:.1f} ms" if unit == "s" and abs(value) < 1 else f"{value:.2f} {unit}"


def cells(row):
    """What, ours, processor, peer, theirs, ratio, wanted, note of a row in its form of JSON."""
    ratio, unit = row.get("ratio"), row.get("unit", "")
    ratio = f"{ratio:.2f}" if ratio is not None else ""
    if row.get("equal") is False:
        ratio = "not equal"
    return (
        row["what"], shown(row.get("ours"), unit), shown(row.get("processor"), "s"), row.get("peer", ""),
        shown(row.get("theirs"), unit), ratio, row.get("wanted", ""), row.get("note", ""),
    )


def table(figures):
    """All that the page says of a run."""
    said = [
        f"{figures['when']}; {figures['machine']}; load average {figures['load']} before it;",
        f"build: {figures['build']}; peers: {figures['peers']}.", "",
        "| what | tool | processor | peer | peer took | ratio | wanted | note |", "|" + "---|" * 8,
    ]
    for row in figures["rows"]:
        said.append("| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells(row)) + " |")
    return "\n".join(said) + "\n"


def parts(text):
    """The page before, in and after its table."""
    before, begin, rest = text.partition(BEGIN)
    within, end, after = rest.partition(END)
    if not (begin and end):
        place = f"{BEGIN.strip()} begins it, {END.strip()} ends it"
        sys.exit(f"error: `{PAGE.name}` has no place for the figures\nhint: {place}")
    return before, within, after


def write(figures):
    before, _, after = parts(PAGE.read_text(encoding="utf-8"))
    MEASURED.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(f"{before}{BEGIN}\n{table(figures)}\n{END}{after}", encoding="utf-8")


def differs():
    """Says where the page does not show the figures that are kept; nothing where it does."""
    figures = json.loads(MEASURED.read_text(encoding="utf-8"))
    _, within, _ = parts(PAGE.read_text(encoding="utf-8"))
    if within.strip() != table(figures).strip():
        return f"error: the table of the book is not that of `{MEASURED.relative_to(ROOT)}`\n{HINT}"
    return None

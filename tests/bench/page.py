"""The table of figures in the book: written from those of one run, which are kept beside this file, and compared with
them. What is not in the table was not measured; nothing of it is written by hand."""

import json
import sys

from product import ROOT

PAGE = ROOT / "docs/src/benchmarks.md"
MEASURED = ROOT / "tests/bench/measured.json"
BEGIN = "<!-- figures: written by scripts/bench --book -->\n"
END = "<!-- end of figures -->\n"
BUILDS = ROOT / "tests/bench/builds.json"
BUILDS_BEGIN = "<!-- builds: written by scripts/bench --book -->\n"
BUILDS_END = "<!-- end of builds -->\n"


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


def builds_table(figures):
    """Builds of one commit beside each other; the ratio is that of the last two."""
    names = list(figures["builds"])
    ratio = f"{names[-1]} / {names[-2]}"
    said = [f"{figures['when']}; {figures['machine']}; load average {figures['load']} before it;"]
    said += [f"{name}: {text}" + (";" if name != names[-1] else ".") for name, text in figures["builds"].items()]
    said += ["", f"| what | {' | '.join(names)} | {ratio} | wanted |", "|---|" + "---:|" * (len(names) + 1) + "---|"]
    for row in figures["rows"]:
        values = " | ".join(shown(value, row["unit"]) for value in row["values"])
        said.append(f"| {row['what']} | {values} | {row['ratio']:.2f} | {row['wanted']} |")
    return "\n".join(said) + "\n"


def parts(text, begin_mark=BEGIN, end_mark=END):
    """The page before, in and after one of its tables."""
    before, begin, rest = text.partition(begin_mark)
    within, end, after = rest.partition(end_mark)
    if not (begin and end):
        place = f"{begin_mark.strip()} begins it, {end_mark.strip()} ends it"
        sys.exit(f"error: `{PAGE.name}` has no place for the figures\nhint: {place}")
    return before, within, after


def tables():
    """Both tables: their kept figures, their place, and what makes their text."""
    return (MEASURED, (BEGIN, END), table), (BUILDS, (BUILDS_BEGIN, BUILDS_END), builds_table)


def write(figures):
    """Puts figures into the book and keeps them; those of several builds have a table of their own."""
    kept, marks, text = tables()["builds" in figures]
    before, _, after = parts(PAGE.read_text(encoding="utf-8"), *marks)
    kept.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(f"{before}{marks[0]}\n{text(figures)}\n{marks[1]}{after}", encoding="utf-8")


def differs():
    """Says where the page does not show the figures that are kept; nothing where it does."""
    page = PAGE.read_text(encoding="utf-8")
    for kept, marks, text in tables():
        figures = json.loads(kept.read_text(encoding="utf-8"))
        _, within, _ = parts(page, *marks)
        if within.strip() != text(figures).strip():
            place = kept.relative_to(ROOT)
            return f"error: the table of the book is not that of `{place}`\nhint: scripts/bench --book --from {place}"
    return None

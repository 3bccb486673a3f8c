"""What the benchmarks must not do: pass off unequal work as equal, take old figures for new ones, or end where one is
missing.

`python3 -B -m unittest discover --start-directory tests/bench` runs it, and so does `scripts/test`."""

import json
import os
import tempfile
import time
import unittest
from pathlib import Path

import page
import rows


class Equality(unittest.TestCase):
    def test_only_the_same_lines_are_equal_and_none_are_not(self):
        self.assertEqual(rows.compared({"a:1:x"}, {"a:1:x"}), (True, "the same 1 lines"))
        self.assertEqual(rows.compared(set(), set()), (False, "neither finds a line"))
        self.assertEqual(rows.compared({"a", "b"}, {"b", "c", "d"}), (False, "1 lines only here, 2 only there"))

    def test_a_summary_is_no_line_and_the_place_is_written_in_one_way(self):
        self.assertEqual(rows.lines("No matches in 7 files\n", summary="No matches"), set())
        self.assertEqual(rows.lines("./a.py:1:x\n\nb.py:2:y\n"), {"a.py:1:x", "b.py:2:y"})

    def test_an_unequal_row_shows_no_ratio(self):
        row = rows.Row("search", "what", "s", 0.5, peer="ripgrep", theirs=1.0, ratio=0.5, equal=False)
        self.assertEqual(page.cells(row.as_json())[5], "not equal")
        row.equal = True
        self.assertEqual(page.cells(row.as_json())[5], "0.50")

    def test_every_search_leaves_out_the_same_folders(self):
        for peer in ("rg", "grep", "git"):
            command = next((c for c in rows.search_peers("x").values() if c[0] == peer), None)
            for folder in rows.SKIPPED if command else []:
                self.assertTrue(any(folder in argument for argument in command), (peer, folder))


class Builds(unittest.TestCase):
    def test_the_ratio_of_builds_has_a_name_and_each_value_its_unit(self):
        text = page.builds_table({
            "when": "now", "machine": "this", "load": "0", "builds": {"glibc": "one", "musl": "another"},
            "rows": [{"what": "a start", "unit": "s", "values": [0.01, 0.012], "ratio": 1.2, "wanted": "0.10 s"}],
        })
        self.assertIn("| what | glibc | musl | musl / glibc | wanted |", text)
        self.assertIn("| a start | 10.0 ms | 12.0 ms | 1.20 | 0.10 s |", text)


class Criterion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.criterion = Path(folder.name)

    def estimates(self, name, nanoseconds):
        file = self.criterion / name / "new/estimates.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"median": {"point_estimate": nanoseconds}}))
        return file

    def test_a_figure_of_this_run_is_read_in_microseconds(self):
        self.estimates("one", 5000)
        self.assertEqual(rows.estimate(self.criterion, "one", time.time() - 60), 5.0)

    def test_a_figure_that_is_missing_broken_or_of_another_run_is_none(self):
        began = time.time() - 60
        self.assertIsNone(rows.estimate(self.criterion, "one", began))
        os.utime(self.estimates("old", 5000), (began - 60, began - 60))
        self.assertIsNone(rows.estimate(self.criterion, "old", began))
        self.estimates("broken", 5000).write_text("{")
        self.assertIsNone(rows.estimate(self.criterion, "broken", began))

    def test_rows_without_a_figure_say_so(self):
        found = {"call a trivial skill": 40.0, "read a file natively": 2.0}
        told = {row.what: (row.ours, row.note) for row in rows.call_rows(found.get)}
        unmeasured = None, "not measured: criterion has left no figure"
        self.assertEqual(told, {
            "a trivial skill call": (40.0, ""),
            "a skill call that reads a file": unmeasured,
            "8 callers at once, throughput of one": unmeasured,
        })
        found["eight callers, a call each"] = 160.0
        self.assertEqual([row.ours for row in rows.call_rows(found.get)], [40.0, None, 2.0])

    def test_the_target_folder_is_the_same_from_everywhere(self):
        self.assertTrue(rows.TARGET.is_absolute())


if __name__ == "__main__":
    unittest.main()

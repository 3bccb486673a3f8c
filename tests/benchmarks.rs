//! The benchmarks' own honesty: their table in the book is the one that was measured, and they pass nothing unequal,
//! old or missing off as a figure. How fast anything is, is not tested here.

use std::path::Path;
use std::process::Command;

use crate::support::finish;

#[expect(clippy::disallowed_methods, reason = "the benchmarks are Python")]
fn python(arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new("python3");
    let output = command.arg("-B").args(arguments).current_dir(root).output();
    finish(output.expect("Python runs")).expect(0);
}

#[test]
fn the_book_shows_the_figures_that_are_kept() {
    python(&["scripts/bench", "--check"]);
}

#[test]
fn a_figure_is_of_equal_work_and_of_this_run() {
    python(&["-m", "unittest", "discover", "--start-directory", "tests/bench"]);
}

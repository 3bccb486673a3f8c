//! The gate of the selection: of the files that real commits changed, it has to find more than a floor, and more than
//! plain BM25. The whole measurement, with the cases and their origin, is `scripts/localise`.

use std::path::Path;
use std::process::Command;

use crate::support::finish;

#[test]
#[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
fn the_files_that_had_to_change_are_among_those_selected() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/localise");
    let mut command = Command::new("python3");
    command.arg(script).args(["--gate", "--offline", "--tool"]);
    let output = command.arg(env!("CARGO_BIN_EXE_tool")).output();
    let shown = finish(output.expect("Python runs")).expect(0).stdout;
    let all = shown.lines().find(|line| line.starts_with("all ")).unwrap_or_default();
    assert_eq!(all.split_whitespace().nth(1), Some("12"), "{shown}");
}

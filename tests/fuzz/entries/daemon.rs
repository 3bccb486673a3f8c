//! Entry points of the fuzz targets in `tests/fuzz`, which feed hostile bytes to parsers and check invariants.
//!
//! Each entry is a module of the crate that it tests, because the code is private there. It takes any bytes, and panics
//! if an invariant does not hold. The product never calls an entry; a test replays the stored corpora through the
//! same table.

mod journals;

/// Name of a target, which is also the name of its corpus, and its entry.
pub type Target = (&'static str, fn(&[u8]));

/// The targets of this crate. The other crates replay their own.
pub const TARGETS: [Target; 3] = [
    ("answers", journals::answers),
    ("journal", journals::journal),
    ("requests", crate::http::fuzz::requests),
];

/// Runs the target of this name.
///
/// # Panics
///
/// Panics if the target does not exist or an invariant does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, entry) = target.expect("the name of a target");
    entry(bytes);
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{TARGETS, replay, run};

    const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz");

    macro_rules! replayed {
        ($($name:ident)*) => {
            $(
                #[test]
                fn $name() {
                    replay::replay(Path::new(PLACE), stringify!($name), |bytes| run(stringify!($name), bytes));
                }
            )*

            const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        };
    }

    replayed! {
        answers journal requests
    }

    #[test]
    fn every_target_is_fuzzed_and_replayed() {
        assert_eq!(TARGETS.map(|(name, _)| name), REPLAYED);
        let elsewhere = [
            "arguments",
            "components",
            "configuration",
            "edits",
            "failures",
            "ignores",
            "markdown",
            "masking",
            "opening",
            "patches",
            "paths",
            "sources",
            "wires",
        ];
        let known: BTreeSet<String> = REPLAYED.iter().chain(&elsewhere).map(|&name| name.to_owned()).collect();
        for folder in ["targets", "corpus"] {
            let entries = fs::read_dir(Path::new(PLACE).join(folder)).expect("the folder is there");
            let names = entries.map(|entry| entry.expect("an entry").path());
            let found: BTreeSet<String> = names
                .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
                .collect();
            assert_eq!(found, known, "tests/fuzz/{folder}");
        }
        let manifest = fs::read_to_string(Path::new(PLACE).join("Cargo.toml")).expect("the manifest is there");
        for name in &known {
            assert!(
                manifest.contains(&format!("path = \"targets/{name}.rs\"")),
                "{name} is not built"
            );
        }
    }
}

//! Where the fuzz targets of `tests/fuzz` come in: hostile bytes to what reads them, with the invariants that must hold.
//!
//! Each entry lies beside what it drives, because that is private to its module. It takes any bytes, panics where an
//! invariant does not hold, and returns where nothing is wrong. The product never calls one; an ordinary test replays
//! the kept corpora through the same table.

/// A target: its name, which is also that of its corpus, and its entry.
pub type Target = (&'static str, fn(&[u8]));

/// Every target of the engine. `tests/fuzz` has two more, of a skill and of the command line.
pub const TARGETS: [Target; 14] = [
    ("answers", crate::operation::fuzz::answers),
    ("arguments", crate::skill::fuzz::arguments),
    ("components", crate::skill::fuzz::components),
    ("configuration", crate::config::fuzz::configuration),
    ("failures", crate::provider::fuzz::failures),
    ("ignores", crate::repository::fuzz::ignores),
    ("journal", crate::session::fuzz::journal),
    ("masking", crate::provider::fuzz::masking),
    ("opening", crate::repository::fuzz::opening),
    ("patches", crate::skill::fuzz::patches),
    ("paths", crate::repository::fuzz::paths),
    ("requests", crate::http::fuzz::requests),
    ("sources", crate::context::fuzz::sources),
    ("wires", crate::provider::fuzz::wires),
];

/// Runs the target of this name.
///
/// # Panics
///
/// Where there is none, and where an invariant does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, entry) = target.expect("the name of a target");
    entry(bytes);
}

/// The bytes of one run, taken apart from the front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A choice; 0 where nothing is left.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// What comes before the next NUL, which goes with it.
    pub(crate) fn part(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let part = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        part
    }

    /// The same as text.
    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.part()).into_owned()
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// `bytes` in pieces of odd lengths, the same ones for the same seed.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut state, mut rest, mut pieces) = (u32::from(seed) + 1, bytes, Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Mostly short: what goes wrong between two reads does so within a mark or a character.
        let longest = if state & 0x100 == 0 { 4 } else { 64 };
        let (piece, more) = rest.split_at(((state >> 16) as usize % longest + 1).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    pieces
}

#[cfg(test)]
#[path = "../../tests/fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{TARGETS, replay, run};

    const PLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fuzz");

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
        answers arguments components configuration failures ignores journal masking opening patches paths requests
        sources wires
    }

    #[test]
    fn every_target_is_fuzzed_and_replayed() {
        assert_eq!(TARGETS.map(|(name, _)| name), REPLAYED);
        let elsewhere = ["edits", "markdown"];
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

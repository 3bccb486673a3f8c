//! The short form of fuzzing, a part of the ordinary tests: every kept input of a target, and a few seconds of changed
//! ones. Without coverage to guide it this finds little that is new; it keeps what was found from coming back.

use std::path::Path;
use std::time::{Duration, Instant};

/// Time for changed inputs, and how many at the most.
const CHANGED_TIME: Duration = Duration::from_secs(1);
const CHANGED_MAX: usize = 4_000;

/// Tokens that a change inserts: parsers look for them.
const TOKENS: [&[u8]; 24] = [
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"/",
    b"../",
    b"data: ",
    b"\x1b[",
    b"\xff",
    b"\xe2\x80\xae",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"`",
    b"\xf0\x9f\xa6\x80",
];

/// Makes one test of each target of a crate: `replay_targets!("../..", entry…)`, where the text leads from the crate's
/// folder to the root.
#[allow(unused_macros, reason = "the engine's table has a macro of its own")]
macro_rules! replay_targets {
    ($root:literal, $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let place = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/", $root, "/tests/fuzz"));
                super::replay::replay(place, stringify!($name), super::$name);
            }
        )*
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use replay_targets;

/// Runs `entry` on the corpus of the target `name`, then on what chance makes of it.
pub(crate) fn replay(place: &Path, name: &str, entry: impl Fn(&[u8])) {
    let folder = place.join("corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a target has a corpus")
        .map(|file| file.expect("an entry").path())
        .collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).expect("it can be read"))
        .collect();
    assert!(corpus.len() >= 3, "the corpus of {name} is nearly empty");
    entry(b"");
    for (file, bytes) in files.iter().zip(&corpus) {
        let _told = OnPanic(|| format!("{}", file.display()));
        entry(bytes);
    }
    let (started, mut chance) = (Instant::now(), Chance(0x9e37_79b9_7f4a_7c15));
    for _ in 0..CHANGED_MAX {
        if started.elapsed() > CHANGED_TIME {
            break;
        }
        let bytes = chance.changed(&corpus);
        let _told = OnPanic(|| format!("b\"{}\"", bytes.escape_ascii()));
        entry(&bytes);
    }
}

/// Says which input it was.
struct OnPanic<F: Fn() -> String>(F);

impl<F: Fn() -> String> Drop for OnPanic<F> {
    #[expect(clippy::print_stderr, reason = "a test says what it failed on")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {}", (self.0)());
        }
    }
}

/// A generator of the same numbers in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(8)).min(bytes.len());
            match self.below(5) {
                0 => drop(bytes.drain(at..end)),
                1 => drop(bytes.splice(at..at, TOKENS[self.below(TOKENS.len())].iter().copied())),
                2 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                3 => bytes.truncate(at),
                _ => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}

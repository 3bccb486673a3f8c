//! A guest that says of itself, and answers, what time it is and what chance has dealt.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Fickle;

/// The time of day, the monotonic clock, the duration of a nap, and a number.
fn mood() -> String {
    // Read the clock first, within the first millisecond.
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let dozing = Instant::now();
    std::thread::sleep(Duration::from_millis(3));
    let nap = dozing.elapsed();
    let number = RandomState::new().hash_one("a coin");
    format!("{}.{:09} {begun:?} {nap:?} {number}", now.as_secs(), now.subsec_nanos())
}

impl Handler for Fickle {
    const EFFECTS: &'static [&'static str] = &[];

    fn describe() -> Descriptor {
        Descriptor {
            name: "fickle",
            version: "1.0.0",
            description: "Says what time it is.",
            parameters: json!({"type": "object", "description": mood()}),
            effects: Self::EFFECTS,
        }
    }

    fn call(_: &dyn Host, _: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::text(mood()))
    }
}

export_skill!(Fickle);

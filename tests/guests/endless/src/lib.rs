//! A guest that never ends to describe itself.

use std::hint::black_box;

use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Endless;

impl Handler for Endless {
    const EFFECTS: &'static [&'static str] = &[];

    fn describe() -> Descriptor {
        loop {
            black_box(0);
        }
    }

    fn call(_: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::text(arguments))
    }
}

export_skill!(Endless);

//! The attacks by name: what each asks of the guest, and what must come of it. Here is what they
//! have in common.

mod bounds;
mod history;
mod host;
mod outside;
mod reading;
mod symbols;
mod writing;

use std::time::Duration;

use super::ExpectedRefusal::{Bounded, Denied, Refused, TimedOut};
use super::{Attack, AttackGoal, GuestRequest};
use tool_skill::Limits;

/// Kinds of errors as a guest sees them.
const DENIED: super::ExpectedRefusal = Refused("PermissionDenied");
const READ_ONLY: super::ExpectedRefusal = Refused("ReadOnlyFilesystem");
const NO_DIRECTORY: super::ExpectedRefusal = Refused("NotADirectory");

const fn read(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(DENIED)
}

const fn write(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(READ_ONLY)
}

const fn propose(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(Denied)
}

const fn last(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks)
        .wants(AttackGoal::Time)
        .comes_to(TimedOut)
        .within(shorten_deadline)
}

const fn flood(
    name: &'static str,
    tries: &'static str,
    asks: &'static [GuestRequest],
    verdict: &'static str,
) -> Attack {
    Attack::calls(name, tries, asks).comes_to(Bounded(verdict))
}

fn shorten_deadline(limits: &mut Limits) {
    limits.wall = Duration::from_millis(300);
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn small_stage(limits: &mut Limits) {
    limits.staged_bytes = MIB;
    limits.staged_entries = 10;
}

/// Tries of a race.
const SWAPS: u64 = 1500;

const PARTS: [&[Attack]; 7] = [
    reading::ATTACKS,
    writing::ATTACKS,
    bounds::ATTACKS,
    history::ATTACKS,
    host::ATTACKS,
    outside::ATTACKS,
    symbols::ATTACKS,
];

const COUNT: usize = count_attacks();

const fn count_attacks() -> usize {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        (count, part) = (count + PARTS[part].len(), part + 1);
    }
    count
}

/// All of them.
pub const ATTACKS: &[Attack] = &join_parts();

const fn join_parts() -> [Attack; COUNT] {
    let mut all = [PARTS[0][0]; COUNT];
    let (mut part, mut inside, mut at) = (0, 0, 0);
    while at < COUNT {
        if inside == PARTS[part].len() {
            (part, inside) = (part + 1, 0);
        }
        all[at] = PARTS[part][inside];
        (inside, at) = (inside + 1, at + 1);
    }
    all
}

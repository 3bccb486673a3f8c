//! Attempts of a hostile skill, by name: attacks on the boundary of a call, made by a guest that was written for it.
//!
//! The tests of this program and users (`tool doctor --sandbox`) run the same table. Each attack gets its own arena in
//! a temporary folder: a repository full of traps, and next to it what must not be reached. The guest asks for little
//! more than its bounds allow, so that an attack that succeeds does no harm. Escapes of processes are in
//! [`crate::probes`]; this module has only what WebAssembly calls can try.

mod arena;
mod attack_run;
mod history;
mod lookup;
mod server;
mod table;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use tool_skill::{Builtin, Limits};

use crate::{ProbeOutcome, ProbeResult};
pub use table::ATTACKS;

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Name of the attack and of its test.
    pub name: &'static str,
    /// Completes "a skill tries to …".
    pub tries: &'static str,
    /// Calls of the hostile guest; the last answer is judged.
    pub play: AttackMethod,
    /// Signs by which this attack has succeeded, besides those that count for every attack.
    pub wants: AttackGoal,
    /// Expected outcome.
    pub expected: ExpectedRefusal,
    /// Effects that the arena's policy denies.
    pub denied: &'static [&'static str],
    /// Lowers bounds, so that little is needed to exceed them.
    pub bounds: fn(&mut Limits),
    /// Schema by which the guest describes its arguments, if that is the attack.
    pub schema: Option<fn() -> Value>,
    /// True if the arena is a git repository with old commits.
    pub has_history: bool,
}

/// Method of an attack.
#[derive(Debug, Clone, Copy)]
pub enum AttackMethod {
    /// Calls of the guest, one after the other.
    Calls(&'static [GuestRequest]),
    /// The same call by many callers at once.
    Crowd(GuestRequest, usize),
    /// A call during which a thread of the host swaps a name of the repository with a link to the neighbourhood
    /// thousands of times.
    Swap(GuestRequest, &'static str, &'static str),
}

/// One request of the guest. `{outside}` in a path is the real path of the neighbourhood.
#[derive(Debug, Clone, Copy)]
pub struct GuestRequest {
    /// Action of the guest: see `tests/guests/hostile`.
    pub deed: &'static str,
    /// Path that the action applies to.
    pub path: &'static str,
    /// A second path, or a text to look for.
    pub to: &'static str,
    /// A number of repetitions, or an amount.
    pub count: u64,
}

impl GuestRequest {
    const fn new(deed: &'static str) -> Self {
        Self::at(deed, "")
    }

    const fn at(deed: &'static str, path: &'static str) -> Self {
        Self {
            deed,
            path,
            to: "",
            count: 0,
        }
    }

    const fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }

    const fn to(self, to: &'static str) -> Self {
        Self { to, ..self }
    }
}

/// Signs that an attack has succeeded. A secret in an answer and a change of any file always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackGoal {
    /// The guest reports that it got something.
    Answer,
    /// The answer contains this text.
    Text(&'static str),
    /// Our log has more bytes than this.
    Log(u64),
    /// All callers are served, although some should be refused.
    Room,
    /// The call goes on after its deadline.
    Time,
}

/// Expected outcome of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedRefusal {
    /// The host refuses the guest's request with an error of this kind.
    Refused(&'static str),
    /// The call ends, and its answer says that it was not allowed.
    Denied,
    /// The guest may believe that it succeeded, but nothing changes.
    Nothing,
    /// A bound ends the call; this is the verdict of the receipt.
    Bounded(&'static str),
    /// The call ends as one that crashed.
    Crashed,
    /// The deadline ends the call.
    TimedOut,
    /// Some of many callers are refused.
    Busy,
}

/// Makes the attacks with the wanted names, one after the other. `hostile` is the guest, which has to be the only
/// skill; `each` gets every result. Ends early if it is cancelled.
pub fn make_attacks(
    hostile: &'static [Builtin],
    is_wanted: impl Fn(&str) -> bool,
    cancel: &CancellationToken,
    mut each: impl FnMut(ProbeResult),
) {
    for attack in ATTACKS.iter().filter(|attack| is_wanted(attack.name)) {
        let outcome = attack.make(hostile, cancel);
        if cancel.is_cancelled() {
            return;
        }
        each(outcome.into_result(attack.name, attack.tries));
    }
}

impl Attack {
    /// Makes the attack in its own arena.
    pub fn make(&self, hostile: &'static [Builtin], cancel: &CancellationToken) -> ProbeOutcome {
        attack_run::play_attack(self, hostile, cancel)
    }

    const fn calls(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Self {
        Self::new(name, tries, AttackMethod::Calls(asks))
    }

    const fn new(name: &'static str, tries: &'static str, play: AttackMethod) -> Self {
        Self {
            name,
            tries,
            play,
            wants: AttackGoal::Answer,
            expected: ExpectedRefusal::Nothing,
            denied: &[],
            bounds: |_| (),
            schema: None,
            has_history: false,
        }
    }

    const fn comes_to(self, expected: ExpectedRefusal) -> Self {
        Self { expected, ..self }
    }

    const fn wants(self, wants: AttackGoal) -> Self {
        Self { wants, ..self }
    }

    const fn within(self, bounds: fn(&mut Limits)) -> Self {
        Self { bounds, ..self }
    }

    const fn described(self, schema: fn() -> Value) -> Self {
        Self {
            schema: Some(schema),
            ..self
        }
    }

    const fn in_history(self) -> Self {
        Self {
            has_history: true,
            ..self
        }
    }

    const fn without(self, denied: &'static [&'static str]) -> Self {
        Self { denied, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unlike() {
        // Also unlike those of escapes, so that a name alone says what is meant.
        let escapes = crate::probes::ATTEMPTS;
        let mut names: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
        names.extend(escapes.iter().map(|attempt| attempt.name));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTACKS.len() + escapes.len());
    }

    /// A case of a skill can expect each end that a call can have.
    #[test]
    fn every_bound_that_an_attack_meets_can_be_expected() {
        let met = ATTACKS.iter().filter_map(|attack| match attack.expected {
            ExpectedRefusal::Bounded(verdict) => Some(verdict),
            _ => None,
        });
        let unknown: Vec<&str> = met
            .filter(|verdict| !tool_skill::failure_kinds().any(|known| known.code() == *verdict))
            .collect();
        assert_eq!(unknown, [""; 0]);
    }
}
